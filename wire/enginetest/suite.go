package enginetest

import (
	"testing"
)

// Suite is what an engine has to pass.
type Suite struct {
	Engine string // as in wire.Config
}

// Run runs the suite.
func (s *Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*Suite, *testing.T)
	}{
		{"RoundTrip", (*Suite).roundTrip},
		{"Sizes", (*Suite).sizes},
		{"FileParts", (*Suite).fileParts},
		{"EffectsInArrivalOrder", (*Suite).effectsInArrivalOrder},
		{"RepliesInRequestOrder", (*Suite).repliesInRequestOrder},
		{"NoReplyLeavesNoHole", (*Suite).noReplyLeavesNoHole},
		{"CloseInPlaceOfAnAnswer", (*Suite).closeInPlaceOfAnAnswer},
		{"ReplyToAnotherRequestInline", (*Suite).replyToAnotherRequestInline},
		{"RandomTraffic", (*Suite).randomTraffic},

		{"ForeignProtocols", (*Suite).foreignProtocols},
		{"RefusedByAdmit", (*Suite).refusedByAdmit},
		{"ClaimsAllocateNothing", (*Suite).claimsAllocateNothing},
		{"ByteByByte", (*Suite).byteByByte},
		{"MemoryBudget", (*Suite).memoryBudget},
		{"CostAboveBudgetRunsAlone", (*Suite).costAboveBudgetRunsAlone},
		{"ClaimsDoNotStarve", (*Suite).claimsDoNotStarve},
		{"BudgetSurvivesDeadWaiters", (*Suite).budgetSurvivesDeadWaiters},
		{"UntakenReplies", (*Suite).untakenReplies},
		{"ManyUntakenReplies", (*Suite).manyUntakenReplies},
		{"CloseWithUntakenReplies", (*Suite).closeWithUntakenReplies},
		{"UntakenRepliesDoNotStarve", (*Suite).untakenRepliesDoNotStarve},
		{"QueuedMaxRequests", (*Suite).queuedMaxRequests},
		{"MaxInFlight", (*Suite).maxInFlight},
		{"MaxConnections", (*Suite).maxConnections},
		{"MaxConnectionsOfListener", (*Suite).maxConnectionsOfListener},
		{"MaxConnectionsPerIP", (*Suite).maxConnectionsPerIP},
		{"IdleTimeout", (*Suite).idleTimeout},
		{"Throttled", (*Suite).throttled},
		{"TooFast", (*Suite).tooFast},

		{"SlowReaders", (*Suite).slowReaders},
		{"ReplyAfterDeath", (*Suite).replyAfterDeath},
		{"FramesBeforeTheEndAreServed", (*Suite).framesBeforeTheEndAreServed},
		{"HalfClosedClientGetsItsAnswer", (*Suite).halfClosedClientGetsItsAnswer},
		{"StaleRepliesAfterReuse", (*Suite).staleRepliesAfterReuse},
		{"Drain", (*Suite).drain},
		{"DrainDeadline", (*Suite).drainDeadline},
		{"CloseWithRequestsInWork", (*Suite).closeWithRequestsInWork},
		{"ShrunkFile", (*Suite).shrunkFile},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(s, t) })
	}
}
