package clients

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// quick are configurations that make groups of the consumer protocol go on several times a second.
var quick = map[string]string{
	"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "300",
	"group.consumer.assignment.interval.ms": "0",
}

// nextGeneration returns a broker that serves groups of the consumer protocol.
func nextGeneration(t *testing.T) *harness.Broker {
	kind := harness.Peer()
	if kind == harness.Kafka39 {
		t.Skip("3.9 in ZooKeeper mode has no groups of the consumer protocol")
	}
	return harness.Start(t, harness.Options{Props: quick})
}

// TestConsumerProtocol: members of librdkafka and franz-go in groups of the consumer protocol (KIP-848).
func TestConsumerProtocol(t *testing.T) {
	b := nextGeneration(t)
	t.Run("confluent", func(t *testing.T) {
		wantSteps(t, python(t, "nextgen.py", b.Addr, name("nextgen")), "alone", "shared", "handed over", "expression", "migrated")
	})
	t.Run("franz", func(t *testing.T) { franzShares(t, b) })
	t.Run("franz migrates", func(t *testing.T) { franzMigrates(t, b) })
}

// reader is a member of a group, which reads until the test ends.
func reader(t *testing.T, b *harness.Broker, group, topic string, options ...kgo.Opt) *kgo.Client {
	c := harness.Client(t, b, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(300 * time.Millisecond),
	}, options...)...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			c.PollFetches(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return c
}

// shares waits until the members of a group of the consumer protocol have that many partitions each, in any order.
func shares(t *testing.T, b *harness.Broker, group string, want ...int) {
	t.Helper()
	client := harness.Client(t, b)
	harness.Eventually(t, time.Minute, func() error {
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Groups = []string{group}
		resp, err := r.RequestWith(harness.Context(t, time.Minute), client)
		if err != nil {
			return err
		}
		var got []int
		for _, m := range resp.Groups[0].Members {
			n := 0
			for _, topic := range m.Assignment.TopicPartitions {
				n += len(topic.Partitions)
			}
			got = append(got, n)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || resp.Groups[0].State != "Stable" {
			return fmt.Errorf("%s with %v partitions, want Stable with %v", resp.Groups[0].State, got, want)
		}
		return nil
	})
}

// kindOf returns type and state of a group.
func kindOf(t *testing.T, b *harness.Broker, group string) string {
	t.Helper()
	groups, err := kadm.NewClient(harness.Client(t, b)).ListGroups(harness.Context(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return groups[group].GroupType + " " + groups[group].State
}

func wantKind(t *testing.T, b *harness.Broker, group, want string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		if got := kindOf(t, b, group); got != want {
			return fmt.Errorf("the group is %q, want %q", got, want)
		}
		return nil
	})
}

// modern makes a franz-go client speak the consumer protocol.
var modern = []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}

func franzShares(t *testing.T, b *harness.Broker) {
	topic, group := name("nextgen"), name("nextgen-group")
	harness.CreateTopic(t, b, topic, 4)
	one := reader(t, b, group, topic, modern...)
	shares(t, b, group, 4)
	two := reader(t, b, group, topic, modern...)
	shares(t, b, group, 2, 2)
	one.Close()
	shares(t, b, group, 4)
	two.Close()
	wantKind(t, b, group, "consumer Empty")
}

// franzMigrates replaces the member of a classic group by one of the consumer protocol, and back, while the group lives.
func franzMigrates(t *testing.T, b *harness.Broker) {
	topic, group := name("migration"), name("migration-group")
	harness.CreateTopic(t, b, topic, 4)
	classic := reader(t, b, group, topic, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	wantKind(t, b, group, "classic Stable")
	next := reader(t, b, group, topic, modern...)
	shares(t, b, group, 2, 2)
	classic.Close()
	shares(t, b, group, 4)
	again := reader(t, b, group, topic, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	shares(t, b, group, 2, 2)
	next.Close()
	wantKind(t, b, group, "classic Stable")
	again.Close()
	wantKind(t, b, group, "classic Empty")
}
