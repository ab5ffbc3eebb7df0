package broker

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGroupConfiguration: what is set for a group holds for it, and for no other, from its next heartbeat on.
func TestGroupConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, t.TempDir())
		cl := client(t, b)
		defer cl.Close()
		createTopic(t, cl, "t", 1, nil)
		if code := configureGroup(t, cl, "slow", "consumer.heartbeat.interval.ms", "6000"); code != 0 {
			t.Fatalf("error %d", code)
		}
		for group, want := range map[string]int32{"slow": 6000, "other": 5000} {
			r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			r.Group, r.MemberID, r.RebalanceTimeoutMillis, r.SubscribedTopicNames = group, "m", 60_000, []string{"t"}
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			var answer *kmsg.ConsumerGroupHeartbeatResponse
			eventually(t, "the coordinator is there", func() (there bool) {
				var err error
				answer, err = r.RequestWith(t.Context(), cl)
				return err == nil && answer.ErrorCode != kerr.CoordinatorLoadInProgress.Code
			})
			if answer.ErrorCode != 0 || answer.HeartbeatIntervalMillis != want {
				t.Errorf("%s: %+v; want a heartbeat every %d ms", group, answer, want)
			}
		}
	})
}
