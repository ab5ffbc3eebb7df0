package groupcoord

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinExpression lets a member join a group of the consumer protocol with a regular expression.
func (w *world) joinExpression(group, member, re string) *kmsg.ConsumerGroupHeartbeatResponse {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.RebalanceTimeoutMillis = group, member, 60000
	r.SubscribedTopicRegex, r.Topics = &re, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return w.do(1, r).(*kmsg.ConsumerGroupHeartbeatResponse)
}

// While the expressions of one group are matched, which takes for ever, the groups of the same partition are served; the time
// that it may take is bounded, and what is found out too late is nothing.
func TestHostileExpression(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		slow := make(chan struct{})
		w.c.matches.do(func(func() bool) { <-slow })
		if r := w.joinExpression("hostile", "m", "t|u"); r.ErrorCode != 0 {
			t.Fatal(r.ErrorCode)
		}
		beat := func() *kmsg.ConsumerGroupHeartbeatResponse {
			r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = "hostile", "m", 1, -1
			return w.do(1, r).(*kmsg.ConsumerGroupHeartbeatResponse)
		}
		if r := beat(); r.ErrorCode != 0 || r.MemberEpoch != 1 {
			t.Errorf("error %d, epoch %d while its expression is not resolved", r.ErrorCode, r.MemberEpoch)
		}
		if r := w.joinExpression("other", "m", strings.Repeat("((a?){31}){31}", 70)); r.ErrorCode != kerr.InvalidRegularExpression.Code {
			t.Errorf("error %d for an expression that is too large", r.ErrorCode)
		}
		close(slow)
		synctest.Wait()
		if r := beat(); r.ErrorCode != 0 || r.MemberEpoch != 2 || r.Assignment == nil || len(r.Assignment.Topics) != 1 {
			t.Errorf("error %d, epoch %d, %v once it is resolved", r.ErrorCode, r.MemberEpoch, r.Assignment)
		}
	})
}

// Jobs that wait when the worker is closed are told so, as are those that come later; close does not wait for ever.
func TestWorkerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w worker
		slow, stopped := make(chan struct{}), 0
		job := func(stop func() bool) {
			if stop() {
				stopped++
			}
		}
		w.do(func(func() bool) { <-slow })
		w.do(job)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.close(ctx); err != context.DeadlineExceeded {
			t.Errorf("close says %v", err)
		}
		close(slow)
		if err := w.close(t.Context()); err != nil {
			t.Error(err)
		}
		w.do(job)
		if stopped != 2 {
			t.Errorf("%d jobs were told, want 2", stopped)
		}
	})
}
