package oldoffsets

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree is a ZooKeeper in memory, and a keeper on it that knows a topic "t" of three partitions.
func tree(t *testing.T, wrap func(store.Store) store.Store) (*storetest.Fake, *Keeper) {
	t.Helper()
	fake := storetest.NewFake(clock.System)
	s := store.Store(fake.Client())
	if wrap != nil {
		s = wrap(s)
	}
	k := New(Options{
		Store: s, Timeout: time.Minute, Logger: zap.NewNop(),
		Partitions: func(topic string) int32 { return map[string]int32{"t": 3}[topic] },
		Fits:       func(text string) bool { return len(text) <= 5 },
	})
	t.Cleanup(k.Close)
	return fake, k
}

// commit commits the offsets of partitions 0, 1 … of a topic and shows the codes.
func commit(k *Keeper, group, topic, metadata string, offsets ...int64) string {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group = group
	told := kmsg.NewOffsetCommitRequestTopic()
	told.Topic = topic
	for i, o := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(i), o, &metadata
		told.Partitions = append(told.Partitions, p)
	}
	r.Topics = append(r.Topics, told)
	answer := make(chan kmsg.Response, 1)
	k.Commit(r, func(a kmsg.Response) { answer <- a })
	var b strings.Builder
	for _, p := range (<-answer).(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		fmt.Fprintf(&b, "%d:%d ", p.Partition, p.ErrorCode)
	}
	return strings.TrimSpace(b.String())
}

func fetch(k *Keeper, group, topic string, partitions ...int32) string {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group = group
	r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: topic, Partitions: partitions})
	answer := make(chan kmsg.Response, 1)
	k.Fetch(r, func(a kmsg.Response) { answer <- a })
	var b strings.Builder
	for _, p := range (<-answer).(*kmsg.OffsetFetchResponse).Topics[0].Partitions {
		fmt.Fprintf(&b, "%d:%d:%d ", p.Partition, p.Offset, p.ErrorCode)
	}
	return strings.TrimSpace(b.String())
}

func TestKeeper(t *testing.T) {
	fake, k := tree(t, nil)
	for _, c := range []struct{ what, got, want string }{
		{"nothing yet", fetch(k, "g", "t", 0, 1, 2, 3), "0:-1:3 1:-1:3 2:-1:3 3:-1:3"},
		{"first commit", commit(k, "g", "t", "", 7, 8), "0:0 1:0"},
		{"read back", fetch(k, "g", "t", 1, 0), "1:8:0 0:7:0"},
		{"set again", commit(k, "g", "t", "", 9), "0:0"},
		{"and back, which it allows", commit(k, "g", "t", "", 2), "0:0"},
		{"read again", fetch(k, "g", "t", 0, 1), "0:2:0 1:8:0"},
		{"another group", fetch(k, "h", "t", 0), "0:-1:3"},
		{"a group with a slash", commit(k, "a/b", "t", "", 5), "0:0"},
		{"a group that is no path", commit(k, "a//b", "t", "", 5), "0:-1"},
		{"no group", fetch(k, "", "t", 0), "0:-1:-1"},
		{"another topic", commit(k, "g", "x", "", 5), "0:3"},
		{"a partition too many", commit(k, "g", "t", "", 1, 2, 3, 4), "0:0 1:0 2:0 3:3"},
		{"long metadata", commit(k, "g", "t", "longer", 99), "0:12"},
		{"unchanged by that", fetch(k, "g", "t", 0), "0:1:0"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	dump := fake.Dump()
	if dump["/consumers/g/offsets/t/2"] != "3" || dump["/consumers/a/b/offsets/t/0"] != "5" {
		t.Errorf("%v", dump)
	}
	if _, err := fake.Client().Commit(t.Context(), store.Set("/consumers/g/offsets/t/0", []byte("soon"), store.AnyVersion)); err != nil {
		t.Fatal(err)
	}
	if got := fetch(k, "g", "t", 0); got != "0:-1:-1" {
		t.Errorf("a node that holds no number: %s", got)
	}
}

// TestLostReplies: a commit whose reply is lost is written again.
func TestLostReplies(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.LoseReply, storetest.LoseRequest} {
		fake, k := tree(t, nil)
		lost := map[string]bool{}
		fake.OnCommit = func(_ *storetest.Client, ops []store.Op) storetest.Fault {
			key := fmt.Sprint(ops[0].Kind, ops[0].Path)
			if lost[key] {
				return storetest.NoFault
			}
			lost[key] = true
			return fault
		}
		// A new group's path takes a loss for each of its nodes: the client tries again.
		for try := 0; commit(k, "g", "t", "", 4) != "0:0"; try++ {
			if try == 10 {
				t.Fatal("the offset is never written")
			}
		}
		if got := fetch(k, "g", "t", 0); got != "0:4:0" {
			t.Error(got)
		}
	}
}

// silent is a ZooKeeper that does not answer.
type silent struct{ store.Store }

func (silent) Read(ctx context.Context, _ ...store.Req) ([]store.Node, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) CommitEach(ctx context.Context, txns []store.Txn) []store.Outcome {
	<-ctx.Done()
	out := make([]store.Outcome, len(txns))
	for i := range out {
		out[i].Err = ctx.Err()
	}
	return out
}

// TestSilence: without ZooKeeper a request ends with REQUEST_TIMED_OUT after the time that it may take, and more than fit get that at once.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, k := tree(t, func(s store.Store) store.Store { return silent{s} })
		began := time.Now()
		if got := commit(k, "g", "t", "", 1); got != "0:7" || time.Since(began) != time.Minute {
			t.Errorf("%s after %v", got, time.Since(began))
		}
		answers := make(chan string, 2*queued)
		for range queued + 2 {
			go func() { answers <- fetch(k, "g", "t", 0) }()
			synctest.Wait()
		}
		if got := <-answers; got != "0:-1:7" {
			t.Error(got)
		}
		k.Close()
		for range queued + 1 {
			if got := <-answers; got != "0:-1:7" {
				t.Error(got)
			}
		}
		if got := fetch(k, "g", "t", 0); got != "0:-1:7" {
			t.Errorf("when it has ended: %s", got)
		}
	})
}
