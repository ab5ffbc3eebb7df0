package broker

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/groupcoord"
	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/txn"
	"github.com/gregor-broker/gregor/log/record"
)

// TestCoordinatorSettings: each key of groups and transactions gets where it belongs; each has another value than the others.
func TestCoordinatorSettings(t *testing.T) {
	snapshot, _, err := config.Load(config.Sources{Overrides: []string{
		"log.dirs=" + t.TempDir(),
		"group.min.session.timeout.ms=7001", "group.max.session.timeout.ms=900001", "group.initial.rebalance.delay.ms=1234", "group.max.size=77",
		"offset.metadata.max.bytes=55", "offsets.retention.minutes=99", "offsets.retention.check.interval.ms=4321", "offsets.commit.timeout.ms=2222",
		"offsets.topic.compression.codec=2",
		"group.consumer.session.timeout.ms=50001", "group.consumer.heartbeat.interval.ms=5001", "group.consumer.assignment.interval.ms=17",
		"group.consumer.regex.refresh.interval.ms=11111", "group.consumer.max.size=66", "group.consumer.migration.policy=upgrade",
		"group.consumer.assignors=range,uniform",
		"transaction.max.timeout.ms=88001", "transaction.abort.timed.out.transaction.cleanup.interval.ms=88002", "transactional.id.expiration.ms=88003",
		"transaction.remove.expired.transaction.cleanup.interval.ms=88004", "request.timeout.ms=88005",
	}})
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	groups := groupcoord.Settings{
		Group: group.Settings{MinSessionTimeout: 7001 * ms, MaxSessionTimeout: 900001 * ms, InitialRebalanceDelay: 1234 * ms, MaxSize: 77},
		Consumer: consumer.Settings{
			Times:                consumer.Times{SessionTimeout: 50001 * ms, HeartbeatInterval: 5001 * ms, AssignmentInterval: 17 * ms},
			RegexRefreshInterval: 11111 * ms, MaxSize: 66, Migration: consumer.UpgradeOnly, Assignors: []string{"range", "uniform"},
		},
		OffsetMetadataMaxBytes: 55, OffsetsRetention: 99 * time.Minute, OffsetsRetentionCheckInterval: 4321 * ms, OffsetsCommitTimeout: 2222 * ms,
		OffsetsTopicCodec: record.Snappy, Kafka4: true,
	}
	if got := groupSettings(snapshot); !reflect.DeepEqual(got, groups) {
		t.Errorf("groups:\n got %+v\nwant %+v", got, groups)
	}
	transactions := txn.Settings{
		MaxTimeout: 88001 * ms, AbortTimedOutInterval: 88002 * ms, IDExpiration: 88003 * ms, RemoveExpiredInterval: 88004 * ms, RequestTimeout: 88005 * ms,
		Kafka4: true,
	}
	if got := transactionSettings(snapshot); got != transactions {
		t.Errorf("transactions:\n got %+v\nwant %+v", got, transactions)
	}
}

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
