package cases

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// listed asks for lists of groups, transactions and resources.
func (o *odd) listed() {
	group := o.topic + "-group"
	ready(o.t, o.c, group)
	commit(o.t, o.c, commitRequest(group, "", -1, o.topic, "", 0))
	o.groupLists(group)
	o.groupDescriptions(group)
	o.transactionLists()
	o.coordinators(group)
	if o.s.Kind != harness.Kafka39 {
		o.resourceLists()
	}
}

// groupLists lists groups by states and types; only the one of this conversation counts.
func (o *odd) groupLists(group string) {
	o.each(versions{0, 5, 0, 5}, func(version int16) {
		list := func(states, types []string) {
			r := kmsg.NewPtrListGroupsRequest()
			r.StatesFilter, r.TypesFilter = states, types
			r.SetVersion(version)
			answer := raw.Do[*kmsg.ListGroupsResponse](o.c, r)
			var mine []kmsg.ListGroupsResponseGroup
			for _, g := range answer.Groups {
				if g.Group == group {
					mine = append(mine, g)
				}
			}
			answer.Groups = mine
			o.note(fmt.Sprintf("states %q, types %q", states, types), r, answer)
		}
		list(nil, nil)
		if version >= 4 {
			for _, states := range [][]string{{"Empty"}, {"empty"}, {"Stable"}, {"Empty", "Empty"}, {"Nonsense"}, {""}, {"Dead"}, {"Reconciling"}, {"Assigning"}, {"PreparingRebalance", "Empty"}} {
				list(states, nil)
			}
		}
		if version >= 5 {
			for _, types := range [][]string{{"classic"}, {"Classic"}, {"consumer"}, {"share"}, {"streams"}, {"nonsense"}, {""}, {"classic", "consumer"}, {"unknown"}} {
				list(nil, types)
				list([]string{"Empty"}, types)
			}
		}
	})
}

// groupDescriptions describes groups.
func (o *odd) groupDescriptions(group string) {
	o.each(versions{0, 5, 0, 6}, func(version int16) {
		for _, names := range [][]string{nil, {group}, {group, group}, {o.topic + "-none"}, {""}, {o.topic + "-none", o.topic + "-none"}} {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Groups, r.IncludeAuthorizedOperations = names, true
			o.ask(fmt.Sprintf("%q", names), version, r)
		}
	})
	o.each(versions{0, 0, 0, 1}, func(version int16) {
		for _, names := range [][]string{nil, {group}, {group, group}, {o.topic + "-none"}, {""}} {
			r := kmsg.NewPtrConsumerGroupDescribeRequest()
			r.Groups, r.IncludeAuthorizedOperations = names, true
			o.ask(fmt.Sprintf("%q", names), version, r)
		}
	})
}

// coordinators looks for coordinators of odd things.
func (o *odd) coordinators(group string) {
	o.each(versions{0, 5, 0, 6}, func(version int16) {
		for _, kind := range []int8{0, 1, 2, 3, -1} {
			if version == 0 && kind != 0 || kind == 2 && version >= 6 {
				continue
			}
			for _, keys := range [][]string{{group}, {""}, {group, group}, nil} {
				if version < 4 && len(keys) != 1 {
					continue
				}
				r := kmsg.NewPtrFindCoordinatorRequest()
				r.CoordinatorType, r.CoordinatorKeys = kind, keys
				if len(keys) == 1 {
					r.CoordinatorKey = keys[0]
				}
				if kind == 1 && len(keys) > 0 && keys[0] != "" {
					continue // the topic of transactions may not be there yet
				}
				answer := raw.Do[*kmsg.FindCoordinatorResponse](o.c, raw.With(r, version))
				if version >= 4 {
					answer.NodeID = -1 // which these versions have not
				}
				o.note(fmt.Sprintf("type %d %q", kind, keys), r, answer)
			}
		}
	})
}

// transactionLists lists and describes transactions of nobody.
func (o *odd) transactionLists() {
	harness.Eventually(o.t, time.Minute, func() error {
		r := raw.With(kmsg.NewPtrDescribeTransactionsRequest(), 0)
		r.TransactionalIDs = []string{o.topic}
		code := raw.Do[*kmsg.DescribeTransactionsResponse](o.c, r).TransactionStates[0].ErrorCode
		if code == kerr.TransactionalIDNotFound.Code { // which one partition says; all must be there for a list
			list := raw.With(kmsg.NewPtrListTransactionsRequest(), 0)
			return kerr.ErrorForCode(raw.Do[*kmsg.ListTransactionsResponse](o.c, list).ErrorCode)
		}
		find := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 3) // which creates the topic
		find.CoordinatorKey, find.CoordinatorType = o.topic, 1
		raw.Do[*kmsg.FindCoordinatorResponse](o.c, find)
		return fmt.Errorf("the coordinator is not there: %v", kerr.ErrorForCode(code))
	})
	for _, ids := range [][]string{nil, {o.topic}, {o.topic, o.topic}, {""}} {
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = ids
		o.ask(fmt.Sprintf("%q", ids), 0, r)
	}
	o.each(versions{0, 1, 0, 2}, func(version int16) {
		for _, states := range [][]string{{"Nonsense"}, {"Ongoing", "Nonsense"}, {""}, {"Dead"}} {
			r := kmsg.NewPtrListTransactionsRequest()
			r.StateFilters, r.DurationFilterMillis = states, 1<<62
			o.ask(fmt.Sprintf("%q", states), version, r)
		}
		for _, pattern := range []string{"no such id", "[", "(?=x)", ""} {
			r := kmsg.NewPtrListTransactionsRequest()
			r.StateFilters, r.TransactionalIDPattern = []string{"Dead"}, &pattern
			if version >= 2 {
				o.ask(fmt.Sprintf("pattern %q", pattern), version, r)
			}
		}
	})
}

// resourceLists lists what has a configuration of types that there are not.
func (o *odd) resourceLists() {
	for _, types := range [][]int8{{1}, {0}, {-1}, {2, 99}, {64}, {16, 16}} {
		r := kmsg.NewPtrListConfigResourcesRequest()
		r.ResourceTypes = types
		o.ask(fmt.Sprint(types), 1, r)
	}
	o.ask("subscriptions", 0, kmsg.NewPtrListConfigResourcesRequest())
}
