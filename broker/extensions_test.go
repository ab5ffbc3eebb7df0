package broker

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/controller"
)

// setExtensions switches gregor.extensions (1 on, 0 off) and returns the words of a refusal.
func setExtensions(t *testing.T, cl *kgo.Client, level int16) string {
	t.Helper()
	r := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = controller.Extensions, level, 1
	if level == 0 {
		u.UpgradeType, u.AllowDowngrade = 2, true
	}
	r.FeatureUpdates = append(r.FeatureUpdates, u)
	resp, err := r.RequestWith(t.Context(), cl)
	if err != nil || resp.ErrorCode != 0 || len(resp.Results) != 1 {
		t.Fatal(err, resp)
	}
	if m := resp.Results[0].ErrorMessage; m != nil {
		return *m
	}
	return ""
}

// configureGroup sets one key of a group and returns the code of the answer.
func configureGroup(t *testing.T, cl *kgo.Client, group, key, value string) int16 {
	t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}}
	r.Resources = append(r.Resources, resource)
	resp, err := r.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Resources[0].ErrorCode
}

// groupConfig is what a broker says of one key of a group.
func groupConfig(t *testing.T, cl *kgo.Client, broker int32, group, key string) string {
	t.Helper()
	r := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	r.Resources = append(r.Resources, resource)
	resp, err := r.RequestWith(t.Context(), cl.Broker(int(broker)))
	if err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	for _, k := range resp.Resources[0].Configs {
		if k.Name == key && k.Value != nil {
			return *k.Value
		}
	}
	return ""
}

// epochOf is the epoch of the producer with a transactional id.
func epochOf(t *testing.T, cl *kgo.Client, id string) int16 {
	t.Helper()
	all, err := kadm.NewClient(cl).DescribeTransactions(t.Context(), id)
	if err != nil || all[id].Err != nil {
		t.Fatal(err, all)
	}
	return all[id].ProducerEpoch
}

// TestExtensions: what gregor.extensions brings is there while it is on, for clients that are connected already as for new ones, and
// moves with its coordinators; without it, before and after, all is as with 3.9.
func TestExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		settings := []string{
			"min.insync.replicas=2", "default.replication.factor=3", "transaction.state.log.num.partitions=3", "group.consumer.min.heartbeat.interval.ms=100",
			"group.consumer.heartbeat.interval.ms=300",
		}
		for id := int32(1); id <= 3; id++ {
			c.start(id, settings...)
		}
		admin := c.client()
		defer admin.Close()
		createTopic(t, admin, "t", 6, nil)
		producer := c.client(kgo.TransactionalID("id"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer producer.Close()
		n := 0
		run := func(cl *kgo.Client) {
			t.Helper()
			n++
			if err := transact(t, cl, "t", fmt.Sprint(n), true, 0, 1, 2, 3, 4, 5); err != nil {
				t.Fatal(err)
			}
		}
		rises := func(id string, cl *kgo.Client) int {
			t.Helper()
			before := epochOf(t, admin, id)
			run(cl)
			run(cl)
			return int(epochOf(t, admin, id) - before)
		}
		run(producer)
		if by := rises("id", producer); by != 0 {
			t.Errorf("off: the epoch rises by %d", by)
		}
		const session = "consumer.session.timeout.ms"
		if code := configureGroup(t, admin, "g", session, "50000"); code != kerr.InvalidRequest.Code {
			t.Errorf("off: a group's configuration is answered with %d", code)
		}
		if words := setExtensions(t, admin, 1); words != "" {
			t.Fatal(words)
		}
		eventually(t, "on everywhere", func() bool { return c.extended(3) })
		if code := configureGroup(t, admin, "g", session, "50000"); code != 0 {
			t.Errorf("on: a group's configuration is answered with %d", code)
		}
		for id := int32(1); id <= 3; id++ {
			eventually(t, "the group's configuration", func() bool { return groupConfig(t, admin, id, "g", session) == "50000" })
		}
		run(producer) // over the connections that it has
		fresh := c.client(kgo.TransactionalID("fresh"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer fresh.Close()
		run(fresh)
		if by := rises("fresh", fresh); by != 2 {
			t.Errorf("on: the epoch rises by %d, not with each transaction", by)
		}

		member := func() *kgo.Client {
			return c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ServerSideBalancer(), kgo.DisableAutoCommit(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		}
		reader := member()
		consumeThrough(t, reader, n) // n different values
		for id := int32(1); id <= 3; id++ {
			eventually(t, "all in sync", func() bool {
				return c.inSync("t", 3) && c.inSync("__transaction_state", 3) && c.inSync("__consumer_offsets", 3)
			})
			c.stop(id)
			run(fresh)
			run(producer)
			consumeThrough(t, reader, 2)
			c.start(id, settings...)
		}
		if words := setExtensions(t, admin, 0); !strings.Contains(words, "have members: g. ") {
			t.Errorf("off with members: %q", words)
		}
		if err := reader.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader.Close()
		eventually(t, "off", func() bool { return setExtensions(t, admin, 0) == "" }) // the group may be at another coordinator by now
		eventually(t, "off everywhere", func() bool { return c.extended(0) })
		last := c.client(kgo.TransactionalID("id"), kgo.RecordPartitioner(kgo.ManualPartitioner())) // kgo does not go back by itself
		defer last.Close()
		run(last)
		if by := rises("id", last); by != 0 {
			t.Errorf("off again: the epoch rises by %d", by)
		}
		classic := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		defer classic.Close()
		for last := false; !last; {
			got := consume(t, classic, 1)
			if last = got[fmt.Sprint(n)]; got["1"] {
				t.Fatal("the group does not go on where it stopped")
			}
		}
	})
}

// consumeThrough reads until it has seen n different values, whatever becomes of connections meanwhile.
func consumeThrough(t *testing.T, cl *kgo.Client, n int) {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < n {
		fetches := cl.PollFetches(t.Context())
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
	}
}

// extended says whether n brokers have the setting on, and the others off.
func (c *cluster) extended(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.brokers {
		if b.services.Controller.Features().Level(controller.Extensions) > 0 {
			n--
		}
	}
	return n == 0
}
