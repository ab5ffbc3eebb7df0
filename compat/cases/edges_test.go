package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// What Kafka 3.9 and 4.4 do at the edges of requests, where no specification says it. The order of topics in the answers to
// Produce, ListOffsets and DeleteRecords is that of a hash map there, and is left out.

// TestMetadataOrder: known topics come before unknown names, each once; ids that are not
// known come first, and beside ids names count for nothing.
func TestMetadataOrder(t *testing.T) { everywhere(t, metadataOrder) }

func metadataOrder(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	known := topic(t, b, 1)
	ask := func(topics ...kmsg.MetadataRequestTopic) (said []string, ids map[string][16]byte) {
		r := raw.With(kmsg.NewPtrMetadataRequest(), 12)
		r.Topics = topics
		ids = map[string][16]byte{}
		for _, got := range raw.Do[*kmsg.MetadataResponse](c, r).Topics {
			word := fmt.Sprintf("%x", got.TopicID[:1])
			if got.Topic != nil {
				word = strings.ReplaceAll(*got.Topic, known, "known")
				ids[word] = got.TopicID
			}
			said = append(said, fmt.Sprint(word, " ", got.ErrorCode))
		}
		return said, ids
	}
	named := func(name string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &name} }
	said, ids := ask(named("nowhere"), named(known), named("nowhere"), named(known))
	if want := []string{"known 0", "nowhere 3"}; !slices.Equal(said, want) {
		t.Errorf("by name: %q, want %q", said, want)
	}
	of := func(id [16]byte) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{TopicID: id} }
	said, _ = ask(named("nowhere"), of(ids["known"]), of([16]byte{0xab}), named(known))
	if want := []string{"ab 100", "known 0"}; !slices.Equal(said, want) {
		t.Errorf("by id: %q, want %q", said, want)
	}
}

// TestFetchOrder: what is refused unread comes last, with an empty list of aborted transactions.
func TestFetchOrder(t *testing.T) { everywhere(t, fetchOrder) }

func fetchOrder(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	known := topic(t, b, 2)
	r := fetchRequest(fetchVersion, known, 1<<20, 1<<20, at{1, 0}, at{9, 0}, at{0, 77})
	r.MinBytes = 0
	elsewhere := fetchRequest(fetchVersion, "nowhere", 1<<20, 1<<20, at{0, 0}).Topics
	r.Topics = append(elsewhere, r.Topics...)
	var said []string
	for _, topic := range raw.Do[*kmsg.FetchResponse](c, r).Topics {
		for _, p := range topic.Partitions {
			said = append(said, fmt.Sprint(strings.ReplaceAll(topic.Topic, known, "known"), p.Partition, " ", p.ErrorCode, p.AbortedTransactions == nil))
		}
	}
	want := []string{"known1 0 true", "known0 1 true", "nowhere0 3 false", "known9 3 false"}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// TestUnsendableSets: what the version of the request does not allow is refused without the log start offset, and, as
// everything, only where there is a topic.
func TestUnsendableSets(t *testing.T) { everywhere(t, unsendableSets) }

func unsendableSets(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	known := topic(t, b, 1)
	batch := func() []byte { return raw.NewBatch(now(), "v").Encode() }
	old := batch()
	old[16] = 1
	for what, set := range map[string][]byte{"magic 1": old, "cut": batch()[:30], "none": {}, "two": append(batch(), batch()...)} {
		p := produce(t, c, known, set)
		wantCode(t, what, p.ErrorCode, kerr.InvalidRecord)
		if p.LogStartOffset != -1 {
			t.Errorf("%s: log start offset %d", what, p.LogStartOffset)
		}
		wantCode(t, what+", to no topic", produce(t, c, "nowhere", set).ErrorCode, kerr.UnknownTopicOrPartition)
	}
	damaged := batch()
	damaged[len(damaged)-1] ^= 1
	wantCode(t, "damaged, to no topic", produce(t, c, "nowhere", damaged).ErrorCode, kerr.UnknownTopicOrPartition)
	twice := produceRequest(produceVersion, -1, known, batch())
	twice.Topics = append(twice.Topics, produceRequest(produceVersion, -1, known, batch()).Topics...)
	wantCode(t, "a partition twice", partition0(t, raw.Do[*kmsg.ProduceResponse](c, twice)).ErrorCode, nil)
	if end := listOffset(t, c, known, -1).Offset; end != 1 {
		t.Errorf("a partition twice: the log ends at %d, want 1: only the last set counts", end)
	}
}

// TestIsolationLevels: there are two.
func TestIsolationLevels(t *testing.T) { everywhere(t, isolationLevels) }

func isolationLevels(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	known := topic(t, b, 1)
	for _, level := range []int8{-1, 2} {
		f := fetchRequest(fetchVersion, known, 1<<20, 1<<20, at{0, 0})
		f.IsolationLevel = level
		answer := raw.Do[*kmsg.FetchResponse](c, f)
		wantCode(t, "fetch", answer.ErrorCode, kerr.UnknownServerError)
		wantCode(t, "fetch, partition", answer.Topics[0].Partitions[0].ErrorCode, kerr.UnknownServerError)
		l := raw.With(kmsg.NewPtrListOffsetsRequest(), listVersion)
		l.ReplicaID, l.IsolationLevel = -1, level
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = -1
		l.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: known, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		wantCode(t, "list offsets", raw.Do[*kmsg.ListOffsetsResponse](c, l).Topics[0].Partitions[0].ErrorCode, kerr.UnknownServerError)
	}
}

// TestTimeIsOver: what 4.4 does not even begin, and 3.9 does and says that it took too long.
func TestTimeIsOver(t *testing.T) { everywhere(t, timeIsOver) }

func timeIsOver(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	known, other, late := topic(t, b, 1), topic(t, b, 1), name(t)
	create := raw.With(kmsg.NewPtrCreateTopicsRequest(), 5)
	create.TimeoutMillis = -1
	for _, n := range []string{late, "no name"} {
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = n, 1, 1
		create.Topics = append(create.Topics, ct)
	}
	created := raw.Do[*kmsg.CreateTopicsResponse](c, create).Topics
	grow := raw.With(kmsg.NewPtrCreatePartitionsRequest(), 1)
	grow.TimeoutMillis = -1
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: known, Count: 2}, {Topic: "nowhere", Count: 2}}
	grown := map[string]int16{}
	for _, g := range raw.Do[*kmsg.CreatePartitionsResponse](c, grow).Topics {
		grown[g.Topic] = g.ErrorCode
	}
	remove := raw.With(kmsg.NewPtrDeleteTopicsRequest(), 4)
	remove.TimeoutMillis, remove.TopicNames = -1, []string{other, "nowhere"}
	removed := map[string]int16{}
	for _, d := range raw.Do[*kmsg.DeleteTopicsResponse](c, remove).Topics {
		removed[*d.Topic] = d.ErrorCode
	}
	badName, nowhere := kerr.InvalidTopicException, kerr.UnknownTopicOrPartition
	if b.Kind != harness.Kafka39 {
		badName, nowhere = kerr.RequestTimedOut, kerr.RequestTimedOut
	}
	for _, ct := range created {
		want := kerr.RequestTimedOut
		if ct.Topic == "no name" {
			want = badName
		}
		wantCode(t, "create "+ct.Topic, ct.ErrorCode, want)
		if ct.Configs == nil {
			t.Errorf("create %s: null in place of no configs", ct.Topic)
		}
	}
	wantCode(t, "grow", grown[known], kerr.RequestTimedOut)
	wantCode(t, "grow no topic", grown["nowhere"], nowhere)
	wantCode(t, "delete", removed[other], kerr.RequestTimedOut)
	wantCode(t, "delete no topic", removed["nowhere"], nowhere)
	if b.Kind == harness.Kafka39 {
		return
	}
	if end := listOffset(t, c, other, -1).Offset; end != 0 {
		t.Errorf("what was not to be deleted ends at %d", end)
	}
	wantCode(t, "what was not to be created", listOffsets(t, c, listVersion, late, 0, -1)[0].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "what was not to grow", listOffsets(t, c, listVersion, known, 1, -1)[0].ErrorCode, kerr.UnknownTopicOrPartition)
}
