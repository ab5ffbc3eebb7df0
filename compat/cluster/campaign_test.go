package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/cluster/history"
	"github.com/gregor-broker/gregor/compat/harness"
)

const (
	campaignTopic      = "campaign"
	campaignGroup      = "campaign" // of which one client commits rising offsets
	campaignMembers    = "members"  // in which clients read
	campaignPartitions = 3
	campaignSession    = 3 * time.Second // with ZooKeeper

	// staleness is how long a broker that stood still may go on to answer with what it knew before.
	staleness = 15 * time.Second
)

// campaign is clients that work while brokers are broken, and the history of what they were told.
type campaign struct {
	cluster *harness.Cluster
	record  *history.Recorder
	random  *rand.Rand

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	acked  [campaignPartitions]atomic.Int64
	read   atomic.Int64
	done   []string // the faults so far
	group  struct { // what the members of a group were given
		sync.Mutex
		seen [campaignPartitions]map[int64]bool
	}
}

func startCampaign(t *testing.T, c *harness.Cluster, seed uint64) *campaign {
	t.Helper()
	t.Logf("seed %d", seed)
	k := &campaign{cluster: c, record: history.NewRecorder(), random: rand.New(rand.NewPCG(seed, 1))}
	k.ctx, k.cancel = context.WithCancel(t.Context())
	c.CreateTopic(t, campaignTopic, campaignPartitions, 3, "min.insync.replicas", "2")
	idempotent := []kgo.Opt{kgo.StopProducerOnDataLossDetected()}
	inOrder := []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1)}
	for sender, options := range [][]kgo.Opt{idempotent, idempotent, inOrder} {
		producer := k.producer(t, options...)
		k.wg.Go(func() { k.send(producer, sender, sender != 2) })
	}
	for i := range 2 {
		reader := k.client(t, kgo.ConsumeTopics(campaignTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		k.wg.Go(func() { k.consume(reader, fmt.Sprint("reader-", i)) })
	}
	ends, commits, committed := k.client(t), k.client(t), k.client(t)
	k.wg.Go(func() { k.latest(kadm.NewClient(ends)) })
	k.wg.Go(func() { k.commit(kadm.NewClient(commits)) })
	k.wg.Go(func() { k.committed(kadm.NewClient(committed)) })
	for i := range k.group.seen {
		k.group.seen[i] = map[int64]bool{}
	}
	for i := range 2 {
		k.startMember(t, i)
	}
	k.progress(t)
	return k
}

// startMember starts a member of a group that reads and then commits. Who gets partitions begins anew, as far as the history goes, where
// the group has committed.
func (k *campaign) startMember(t *testing.T, i int) {
	var assignments atomic.Int64
	member := k.client(t, kgo.ConsumerGroup(campaignMembers), kgo.ConsumeTopics(campaignTopic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { assignments.Add(1) }))
	k.wg.Go(func() {
		for k.ctx.Err() == nil {
			fetches := member.PollFetches(k.ctx)
			k.note(fetches, fmt.Sprintf("member-%d-%d", i, assignments.Load()))
			k.group.Lock()
			fetches.EachRecord(func(r *kgo.Record) { k.group.seen[r.Partition][r.Offset] = true })
			k.group.Unlock()
			ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
			_ = member.CommitUncommittedOffsets(ctx) // the next one commits it too, or the next owner reads it again
			cancel()
			member.AllowRebalance()
		}
	})
}

// membersMissed fails the test for records that the group has passed by: committed beyond, but given to no member.
func (k *campaign) membersMissed(t *testing.T) {
	t.Helper()
	offsets, err := k.cluster.Admin(t).FetchOffsets(harness.Context(t, limit), campaignMembers)
	if err != nil {
		t.Fatalf("the members' committed offsets: %v", err)
	}
	passed := 0
	for partition := range int32(campaignPartitions) {
		o, ok := offsets.Lookup(campaignTopic, partition)
		if !ok || o.Err != nil {
			t.Errorf("the members have committed nothing of partition %d: %v", partition, o.Err)
			continue
		}
		for offset := range o.At {
			passed++
			if !k.group.seen[partition][offset] {
				t.Errorf("partition %d: the members have committed %d, but offset %d was given to none of them", partition, o.At, offset)
				break
			}
		}
	}
	t.Logf("the members have committed %d records", passed)
}

// client returns a client that soon gives up a broker that does not answer.
func (k *campaign) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	return k.cluster.Client(t, append([]kgo.Opt{kgo.DialTimeout(2 * time.Second), kgo.RequestTimeoutOverhead(3 * time.Second)}, options...)...)
}

// producer returns a client that gives up no record and that says all that it sends.
func (k *campaign) producer(t *testing.T, options ...kgo.Opt) *kgo.Client {
	return k.client(t, append([]kgo.Opt{
		kgo.DefaultProduceTopic(campaignTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(500),
		kgo.RecordRetries(1 << 30), kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}, options...)...)
}

// each calls f at that pace until the campaign ends.
func (k *campaign) each(pace time.Duration, f func(n int64)) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := int64(0); ; n++ {
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
			f(n)
		}
	}
}

// send writes to all partitions in turn; the callbacks come in until the producer is flushed.
func (k *campaign) send(producer *kgo.Client, sender int, idempotent bool) {
	k.each(4*time.Millisecond, func(n int64) {
		partition := int32(n % campaignPartitions)
		e := history.Event{Kind: history.Sent, Partition: partition, Idempotent: idempotent,
			ID: history.ID{Sender: sender, Seq: n / campaignPartitions}, Begin: k.record.Now()}
		producer.Produce(context.Background(), &kgo.Record{Partition: partition, Value: e.ID.Value(200)}, func(r *kgo.Record, err error) {
			if err != nil {
				e.Err = err.Error()
			} else {
				e.Offset = r.Offset
				k.acked[partition].Add(1)
			}
			k.record.Add(e)
		})
	})
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = producer.Flush(ctx) // what is not flushed is closed with an error
	producer.Close()
}

func (k *campaign) consume(reader *kgo.Client, name string) {
	for k.ctx.Err() == nil {
		k.note(reader.PollFetches(k.ctx), name)
	}
}

func (k *campaign) note(fetches kgo.Fetches, name string) {
	fetches.EachRecord(func(r *kgo.Record) {
		id, err := history.ParseValue(r.Value)
		if err != nil {
			id = history.ID{Sender: -1, Seq: -1} // which nobody sent
		}
		k.record.Add(history.Event{Kind: history.Read, Client: name, Partition: r.Partition, Offset: r.Offset, ID: id})
		k.read.Add(1)
	})
}

func (k *campaign) latest(admin *kadm.Client) {
	k.each(200*time.Millisecond, func(int64) {
		ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
		defer cancel()
		began := k.record.Now()
		ends, _ := admin.ListEndOffsets(ctx, campaignTopic) // each end has an error of its own
		ends.Each(func(o kadm.ListedOffset) {
			if o.Err == nil {
				k.record.Add(history.Event{Kind: history.Latest, Client: "latest", Partition: o.Partition, Offset: o.Offset, Begin: began})
			}
		})
	})
}

func (k *campaign) commit(admin *kadm.Client) {
	k.each(50*time.Millisecond, func(n int64) {
		ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
		defer cancel()
		e := history.Event{Kind: history.Commit, Client: campaignGroup, Offset: n, Begin: k.record.Now()}
		offsets := kadm.Offsets{}
		offsets.AddOffset(campaignTopic, 0, n, -1)
		if err := admin.CommitAllOffsets(ctx, campaignGroup, offsets); err != nil {
			e.Err = err.Error()
		}
		k.record.Add(e)
	})
}

func (k *campaign) committed(admin *kadm.Client) {
	k.each(50*time.Millisecond, func(int64) {
		ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
		defer cancel()
		e := history.Event{Kind: history.Committed, Client: campaignGroup, Offset: -1, Begin: k.record.Now()}
		offsets, err := admin.FetchOffsets(ctx, campaignGroup)
		if err == nil {
			err = offsets.Error()
		}
		if err != nil {
			return
		}
		if o, ok := offsets.Lookup(campaignTopic, 0); ok {
			e.Offset = o.At
		}
		k.record.Add(e)
	})
}

// progress waits until every partition takes more records, and readers get more.
func (k *campaign) progress(t *testing.T) {
	t.Helper()
	var before [campaignPartitions]int64
	for i := range before {
		before[i] = k.acked[i].Load()
	}
	read := k.read.Load()
	harness.Eventually(t, 2*limit, func() error {
		for i := range before {
			if k.acked[i].Load() < before[i]+20 {
				return fmt.Errorf("after %v: partition %d has acknowledged %d records more", k.done, i, k.acked[i].Load()-before[i])
			}
		}
		if k.read.Load() < read+20 {
			return fmt.Errorf("after %v: readers got %d records more", k.done, k.read.Load()-read)
		}
		return nil
	})
}

// inflict lets a fault happen, mends it, and waits until all is well again.
func (k *campaign) inflict(t *testing.T, f fault) {
	t.Helper()
	began := k.record.Now()
	what := f.strike(t, k)
	k.done = append(k.done, what)
	if f.lasts > 0 {
		harness.Elapse(t, f.lasts)
	}
	if f.serves {
		k.progress(t)
	}
	if f.mend != nil {
		f.mend(t)
	}
	if err := k.cluster.Mend(); err != nil {
		t.Fatalf("mend after %s: %v", what, err)
	}
	if f.lasts > 0 {
		k.record.Add(history.Event{Kind: history.Broken, Client: what, Begin: began})
		k.record.Add(history.Event{Kind: history.Broken, Client: what, Begin: k.record.Now()})
	}
	k.cluster.AwaitInSync(t, 2*limit)
	k.progress(t)
	t.Logf("%s: from %v to %v", what, began.Round(time.Millisecond), k.record.Now().Round(time.Millisecond))
}

// judge ends the campaign, reads what is there in the end, and fails the test for what does not fit.
func (k *campaign) judge(t *testing.T) {
	t.Helper()
	k.cancel()
	k.wg.Wait()
	k.cluster.AwaitInSync(t, 2*limit)
	k.readFinally(t)
	events := k.record.Events()
	for i, e := range events {
		if e.Kind == history.Broken {
			events[i].End += staleness
		}
	}
	summary, violations := history.Check(events)
	t.Logf("%d faults; %+v", len(k.done), summary)
	if summary.Acknowledged < 100 || summary.Reads < 100 || summary.Commits < 10 {
		t.Errorf("too little happened for a verdict: %+v", summary)
	}
	k.failures(t, events)
	k.sameLogs(t)
	k.membersMissed(t)
	for _, v := range violations {
		t.Error(v)
	}
	if t.Failed() {
		k.keep(t, events)
	}
}

// failures tells why records failed. A broker that serves before it knows its topics, as 3.9 does, makes clients give up.
func (k *campaign) failures(t *testing.T, events []history.Event) {
	t.Helper()
	byWords := map[string][]history.Event{}
	for _, e := range events {
		if e.Kind == history.Sent && e.Err != "" {
			byWords[e.Err] = append(byWords[e.Err], e)
		}
	}
	for words, failed := range byWords {
		t.Logf("%d records failed, from %v to %v: %s", len(failed), failed[0].End, failed[len(failed)-1].End, words)
		if harness.Peer() == harness.Gregor && strings.Contains(words, "UNKNOWN_TOPIC_OR_PARTITION") {
			t.Error("a client was told that the topic does not exist")
		}
	}
}

// readFinally reads the whole log and the committed offset of a cluster in which all is well.
func (k *campaign) readFinally(t *testing.T) {
	t.Helper()
	ctx := harness.Context(t, 5*limit)
	admin := k.cluster.Admin(t)
	ends, err := admin.ListEndOffsets(ctx, campaignTopic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatalf("the ends of the log: %v", err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		left += o.Offset
		k.record.Add(history.Event{Kind: history.Finish, Partition: o.Partition, Offset: o.Offset})
	})
	reader := k.cluster.Client(t, kgo.ConsumeTopics(campaignTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for left > 0 {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Errorf("%d records could not be read in the end: %v", left, err)
			break
		}
		fetches.EachRecord(func(r *kgo.Record) {
			id, _ := history.ParseValue(r.Value) // the zero id, if need be, is of another offset
			k.record.Add(history.Event{Kind: history.Final, Partition: r.Partition, Offset: r.Offset, ID: id})
			left--
		})
	}
	e := history.Event{Kind: history.FinalCommitted, Client: campaignGroup, Offset: -1, Begin: k.record.Now()}
	offsets, err := admin.FetchOffsets(ctx, campaignGroup)
	if err != nil {
		t.Fatalf("the committed offset: %v", err)
	}
	if o, ok := offsets.Lookup(campaignTopic, 0); ok {
		e.Offset = o.At
	}
	k.record.Add(e)
}

// sameLogs fails the test unless all replicas hold the same bytes.
func (k *campaign) sameLogs(t *testing.T) {
	t.Helper()
	for partition := range campaignPartitions {
		var first []byte
		for id := 1; id <= 3; id++ {
			paths, err := filepath.Glob(filepath.Join(k.cluster.Broker(id).PartitionDir(t, campaignTopic, partition), "*.log"))
			if err != nil || len(paths) == 0 {
				t.Fatalf("no segments of partition %d on broker %d: %v", partition, id, err)
			}
			slices.Sort(paths)
			var whole []byte
			for _, path := range paths {
				segment, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				whole = append(whole, segment...)
			}
			if first == nil {
				first = whole
			} else if !bytes.Equal(first, whole) {
				t.Errorf("partition %d: broker %d has %d bytes that are not the %d of broker 1", partition, id, len(whole), len(first))
			}
		}
	}
}

// keep writes the history of a failed campaign to a file that stays.
func (k *campaign) keep(t *testing.T, events []history.Event) {
	t.Helper()
	file, err := os.CreateTemp("", "gregor-history-*.jsonl")
	if err != nil {
		t.Errorf("keep the history: %v", err)
		return
	}
	defer file.Close()
	if err := history.Write(file, events); err != nil {
		t.Errorf("keep the history: %v", err)
	}
	t.Logf("the history is in %s; GREGOR_HISTORY=%s go test -run TestJudge ./compat/cluster/history judges it again; faults: %q",
		file.Name(), file.Name(), k.done)
}
