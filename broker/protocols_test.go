package broker

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// setFeature sets a feature to a level and returns the code of the answer.
func setFeature(t *testing.T, cl *kgo.Client, feature string, level int16, kind int8) int16 {
	t.Helper()
	r := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = feature, level, kind
	r.FeatureUpdates = append(r.FeatureUpdates, u)
	answer, err := r.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range answer.Results {
		if result.ErrorCode != 0 {
			return result.ErrorCode
		}
	}
	return answer.ErrorCode
}

// TestConsumerProtocolIsSwitchedOff: for one broker by group.coordinator.rebalance.protocols, for the cluster by group.version. Classic
// groups go on.
func TestConsumerProtocolIsSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		served := func(b *Broker, want int16) {
			t.Helper()
			cl := client(t, b)
			defer cl.Close()
			beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames = "modern", "m", 60_000, []string{"t"}
			beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			var beaten *kmsg.ConsumerGroupHeartbeatResponse
			eventually(t, "the coordinator is there", func() bool {
				var err error
				beaten, err = beat.RequestWith(t.Context(), cl)
				return err == nil && beaten.ErrorCode != kerr.CoordinatorLoadInProgress.Code
			})
			describe := kmsg.NewPtrConsumerGroupDescribeRequest()
			describe.Groups = []string{"modern"}
			described, err := describe.RequestWith(t.Context(), cl)
			if err != nil {
				t.Fatal(err)
			}
			if beaten.ErrorCode != want || described.Groups[0].ErrorCode != want {
				t.Errorf("a heartbeat is answered with %d, a question with %d, want %d", beaten.ErrorCode, described.Groups[0].ErrorCode, want)
			}
			classic := client(t, b, kgo.ConsumerGroup("classic"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
			defer classic.Close()
			if got := consume(t, classic, 3); len(got) != 3 {
				t.Errorf("a classic group reads %v", got)
			}
		}
		off := kerr.UnsupportedVersion.Code
		b, stop := start(t, dir)
		admin := client(t, b)
		createTopic(t, admin, "t", 1, nil)
		produce(t, admin, "t", 0, 3)
		served(b, 0)
		if code := setFeature(t, admin, "group.version", 0, 2); code != 0 {
			t.Fatalf("off for the cluster: error %d", code)
		}
		served(b, off)
		if code := setFeature(t, admin, "group.version", 1, 1); code != 0 {
			t.Fatalf("on again: error %d", code)
		}
		served(b, 0)
		admin.Close()
		stop()
		b, stop = start(t, dir, "group.coordinator.rebalance.protocols=classic")
		served(b, off)
		stop()
		b, _ = start(t, dir)
		served(b, 0)
	})
}
