package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gregor-broker/gregor/broker/quota"
)

// TestSendThrottle: a follower out of the ISR waits while more was sent of throttled replicas than the limit allows; one in
// it does not, nor does a consumer, nor what is not throttled.
func TestSendThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		throttle := quota.NewReplication(f.clock, quota.Windows{Num: 11, Size: time.Second})
		f.options.SendThrottle = throttle
		order := f.order("t", idOf(1), 2, 0, self, 2)
		for i := range order.TopicStates[0].PartitionStates {
			p := &order.TopicStates[0].PartitionStates[i]
			p.Replicas = []int32{self, 2, 3}
		}
		f.mustObey(order)
		for i := range int32(2) {
			p := f.find("t", i)
			if _, err := p.log.AppendAsFollower(one(t, "value")); err != nil {
				t.Fatal(err)
			}
		}
		throttle.SetLimit(1)
		throttle.Throttle("t", quota.Replicas{Partitions: []int32{0}})
		follower := func(id int32) FetchParams {
			return FetchParams{ReplicaID: id, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond}
		}
		got := f.get(follower(3), from("t", 0, 0))
		if n := got[0].Records.Size(); n == 0 || !throttle.Exceeded() {
			t.Fatalf("%d bytes below the limit, exceeded %v", n, throttle.Exceeded())
		}
		if n := f.get(follower(3), from("t", 1, 0))[0].Records.Size(); n == 0 {
			t.Error("a partition that is not throttled is held back")
		}
		if n := f.get(follower(2), from("t", 0, 0))[0].Records.Size(); n == 0 {
			t.Error("a follower in sync is held back")
		}
		waits := f.start(follower(3), from("t", 0, 0))
		synctest.Wait()
		select {
		case rs := <-waits:
			t.Fatalf("above the limit: %v", rs)
		default:
		}
		if rs := <-waits; rs[0].Err != nil || rs[0].Records.Size() != 0 || rs[0].HighWatermark < 0 {
			t.Errorf("at the end of the wait: %+v", rs[0])
		}
		sleep(20 * time.Second) // the rate falls
		if n := f.get(follower(3), from("t", 0, 0))[0].Records.Size(); n == 0 {
			t.Error("below the limit again, but held back")
		}
	})
}
