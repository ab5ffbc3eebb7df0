package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestRollingRestart: brokers are stopped and started one after the other, the controller last, under an application that sees nothing
// of it.
func TestRollingRestart(t *testing.T) {
	c, _ := shared(t)
	topic := name("rolling")
	c.CreateTopic(t, topic, 6, 3)
	load := startLoad(t, c, topic, 6)
	controller := c.Controller(t)
	for id := 1; id <= 3; id++ {
		if id != controller {
			restartOne(t, c, id, load)
		}
	}
	restartOne(t, c, controller, load)
	load.finish(t)
}

func restartOne(t *testing.T, c *harness.Cluster, id int, load *load) {
	t.Helper()
	c.Stop(t, id)
	load.more(t, 100)
	c.Restart(t, id)
	c.AwaitInSync(t, limit)
	load.more(t, 100)
}

// TestGroupMoves: a group goes on when its coordinator dies, and finds its offsets with the next one, and with the one after that.
func TestGroupMoves(t *testing.T) {
	c, _ := shared(t)
	topic, group := name("moves"), name("moves")
	c.CreateTopic(t, topic, 3, 3)
	member := c.Client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(20*time.Second))
	ctx := harness.Context(t, 3*limit)
	consumed := 0
	read := func(n int) {
		t.Helper()
		for until := consumed + n; consumed < until; {
			fetches := member.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				t.Fatalf("%d records of %d: %v", consumed, until, err)
			}
			consumed += fetches.NumRecords()
		}
	}
	committed := func() int64 {
		t.Helper()
		var sum int64
		harness.Eventually(t, limit, func() error {
			offsets, err := c.Admin(t).FetchOffsets(ctx, group)
			if err != nil {
				return err
			}
			sum = 0
			offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
			return offsets.Error()
		})
		return sum
	}
	fill(t, c, topic, 3, 10, 100)
	read(30)
	if err := member.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	for round := 1; round <= 2; round++ {
		coordinator := c.Coordinator(t, group)
		c.Kill(coordinator)
		harness.Eventually(t, limit, func() error {
			if id := c.Coordinator(t, group); id == coordinator {
				return fmt.Errorf("the coordinator is still %d", id)
			}
			return nil
		})
		if got := committed(); got != int64(30*round) {
			t.Errorf("round %d: offsets sum up to %d, want %d", round, got, 30*round)
		}
		fill(t, c, topic, 3, 10, 100)
		read(30)
		harness.Eventually(t, limit, func() error { return member.CommitUncommittedOffsets(ctx) })
		if got := committed(); got != int64(30*(round+1)) {
			t.Errorf("round %d: offsets sum up to %d after the commit, want %d", round, got, 30*(round+1))
		}
		c.Restart(t, coordinator)
		c.AwaitInSync(t, limit)
	}
	if consumed != 90 {
		t.Errorf("%d records read, want 90", consumed)
	}
	described, err := c.Admin(t).DescribeGroups(ctx, group)
	if g := described[group]; err != nil || g.State != "Stable" || len(g.Members) != 1 {
		t.Errorf("the group in the end: %+v, %v", g, err)
	}
}
