package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gregor-broker/gregor/broker/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a broker over pipes, on the data in dir, and stops it when the test ends or stop is called.
func start(t *testing.T, dir string, overrides ...string) (b *Broker, stop func()) {
	t.Helper()
	snapshot, _, err := config.Load(config.Sources{Overrides: append([]string{
		"log.dirs=" + dir, "listeners=PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions=3",
	}, overrides...)})
	if err != nil {
		t.Fatal(err)
	}
	b = New(Options{Config: snapshot, Logger: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)), Pipes: true})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := b.Stop(nil); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return b, stop
}

func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers("localhost:1"),
		kgo.Dialer(func(context.Context, string, string) (net.Conn, error) { return b.Dial("PLAINTEXT") }),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func createTopic(t *testing.T, cl *kgo.Client, topic string, partitions int32, configs map[string]*string) {
	t.Helper()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, -1, configs, topic); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i%7), Value: fmt.Append(nil, i)})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, cl *kgo.Client, n int) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < n {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
	}
	return seen
}

// TestSurvivesRestart: records, groups' offsets, topics and their configuration are there after a clean restart.
func TestSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b, stop := start(t, dir)
		cl := client(t, b)
		retention := "12345678"
		createTopic(t, cl, "t", 3, map[string]*string{"retention.ms": &retention})
		produce(t, cl, "t", 0, 100)
		group := client(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
		consume(t, group, 100)
		if err := group.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Close()
		cl.Close()
		stop()

		b, stop = start(t, dir)
		defer stop()
		cl = client(t, b)
		defer cl.Close()
		offsets, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) { total += o.At })
		if total != 100 {
			t.Errorf("committed offsets sum to %d after the restart, want 100", total)
		}
		configs, err := kadm.NewClient(cl).DescribeTopicConfigs(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range configs[0].Configs {
			if c.Key == "retention.ms" && (c.Value == nil || *c.Value != retention) {
				t.Errorf("retention.ms is %v after the restart", c.MaybeValue())
			}
		}
		produce(t, cl, "t", 100, 150)
		reader := client(t, b, kgo.ConsumeTopics("t"))
		defer reader.Close()
		consume(t, reader, 150)
	})
}

// TestGroupLosesMember: when a member falls silent, the others take over its partitions after the session timeout,
// under virtual time.
func TestGroupLosesMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := start(t, t.TempDir())
		defer stop()
		cl := client(t, b)
		defer cl.Close()
		createTopic(t, cl, "t", 4, nil)
		silent := make(chan struct{})
		member := func(dead <-chan struct{}) *kgo.Client {
			return client(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.SessionTimeout(20*time.Second),
				kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
					conn, err := b.Dial("PLAINTEXT")
					if err == nil && dead != nil {
						go func() { <-dead; conn.Close() }()
					}
					select {
					case <-dead:
						return nil, errors.New("cut off")
					default:
						return conn, err
					}
				}))
		}
		first, second := member(nil), member(silent)
		defer first.Close()
		produce(t, cl, "t", 0, 50)
		poll := func(cl *kgo.Client) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			cl.PollFetches(ctx)
		}
		admin := kadm.NewClient(cl)
		members := func() int {
			groups, err := admin.DescribeGroups(t.Context(), "g")
			if err != nil {
				t.Fatal(err)
			}
			if g := groups["g"]; g.State == "Stable" {
				return len(g.Members)
			}
			return -1
		}
		for members() != 2 {
			poll(first)
			poll(second)
		}
		began := time.Now()
		close(silent)
		for members() != 1 {
			poll(first)
		}
		if took := time.Since(began); took < 10*time.Second {
			t.Errorf("the silent member was dropped after %v, before its session had run out", took)
		}
		second.CloseAllowingRebalance()
	})
}

// TestDeletedTopicComesBackEmpty: a topic of the same name is another topic.
func TestDeletedTopicComesBackEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := start(t, t.TempDir())
		defer stop()
		cl := client(t, b)
		defer cl.Close()
		admin := kadm.NewClient(cl)
		for round := range 3 {
			createTopic(t, cl, "t", 2, nil)
			ends, err := admin.ListEndOffsets(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			ends.Each(func(o kadm.ListedOffset) {
				if o.Err != nil || o.Offset != 0 {
					t.Errorf("round %d: partition %d ends at %d (%v), want 0", round, o.Partition, o.Offset, o.Err)
				}
			})
			fresh := client(t, b)
			produce(t, fresh, "t", 0, 20)
			fresh.Close()
			if _, err := admin.DeleteTopic(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.DeleteTopic(t.Context(), "t"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
				t.Errorf("round %d: deleting it again: %v", round, err)
			}
		}
	})
}
