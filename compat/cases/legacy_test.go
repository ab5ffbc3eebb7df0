package cases

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// messages returns a set of three messages of format v0 or v1 as a producer sends it, with offsets from 0, or compressed
// as one.
func messages(magic, codec int8, timestamp int64) []byte {
	var set []byte
	for i := range int64(3) {
		set = append(set, raw.Message(magic, 0, i, timestamp+i, fmt.Append(nil, "k", i), fmt.Append(nil, "v", i))...)
	}
	if codec == raw.None {
		return set
	}
	return raw.Wrap(magic, codec, timestamp+2, set, 2)
}

// TestLegacyProduce: message sets of the formats v0 and v1, in Produce v0 to v2, are stored as one batch of v2.
func TestLegacyProduce(t *testing.T) { everywhere(t, legacyProduce) }

func legacyProduce(t *testing.T, b *server) {
	only(t, b, legacy, harness.Gregor, harness.Kafka39)
	c := raw.Dial(t, b.Addr)
	for _, version := range []int16{0, 1, 2} {
		for _, codec := range []int8{raw.None, raw.Gzip, raw.Snappy} {
			t.Run(fmt.Sprintf("v%d codec %d", version, codec), func(t *testing.T) {
				topic := topic(t, b, 1)
				magic, timestamp := int8(0), int64(1_600_000_000_000)
				if version == 2 {
					magic = 1
				}
				for want := int64(0); want < 6; want += 3 {
					p := produceVersioned(t, c, version, topic, messages(magic, codec, timestamp))
					wantCode(t, "produce", p.ErrorCode, nil)
					if p.BaseOffset != want {
						t.Errorf("base offset %d, want %d", p.BaseOffset, want)
					}
				}
				if magic == 0 {
					timestamp = -1 // format v0 has none
				}
				checkStored(t, stored(t, c, topic, 0), codec, timestamp)
				for _, fetch := range []int16{0, 1, 2, 3} {
					if plain := readConverted(t, c, fetch, topic); plain != 0 && plain != 6 {
						t.Errorf("fetch v%d: %d messages, want 6", fetch, plain)
					}
				}
			})
		}
	}
}

func checkStored(t *testing.T, entries []raw.Stored, codec int8, timestamp int64) {
	t.Helper()
	if len(entries) != 2 {
		t.Fatalf("%d batches are stored, want 2", len(entries))
	}
	for n, e := range entries {
		if e.Magic != 2 || e.Codec() != codec || e.BaseOffset != int64(3*n) || e.LastOffset != int64(3*n+2) || e.ProducerID != -1 || len(e.Records) != 3 {
			t.Fatalf("stored: %+v", e)
		}
		for i, r := range e.Records {
			want := timestamp
			if timestamp >= 0 {
				want += int64(i)
			}
			if r.Timestamp != want || string(r.Value) != fmt.Sprint("v", i) || string(r.Key) != fmt.Sprint("k", i) {
				t.Errorf("record %d is stored as %q, %q, %d", i, r.Key, r.Value, r.Timestamp)
			}
		}
	}
}

// readConverted reads a topic from its start to its end in Fetch v0 to v3, and returns how many messages that are not compressed it got; of
// compressed ones it checks the wrapper. Kafka gives an answer the size of what is stored, so that what becomes larger takes another fetch.
func readConverted(t *testing.T, c *raw.Conn, version int16, topic string) (plain int) {
	t.Helper()
	end, want := listOffset(t, c, topic, -1).Offset, int8(version/2)
	if version == 3 {
		want = 1
	}
	for next := int64(0); next < end; {
		entries, _, err := raw.Entries(fetchFrom(t, c, version, topic, next).RecordBatches)
		if err != nil || len(entries) == 0 {
			t.Fatalf("fetch v%d at %d: %d messages, %v", version, next, len(entries), err)
		}
		for _, e := range entries {
			if e.BaseOffset < 0 {
				break // Kafka fills what is left with the beginning of a message that never comes
			}
			if e.Magic != want || !e.ValidCRC || e.LastOffset < next {
				t.Fatalf("fetch v%d at %d: a message of format v%d with offset %d, CRC valid: %v; want v%d", version, next, e.Magic, e.LastOffset, e.ValidCRC, want)
			}
			next = e.LastOffset + 1
			if e.Codec() == raw.None {
				plain++
			}
		}
	}
	return plain
}

// TestLegacyRefusals: what Kafka refuses of old message sets.
func TestLegacyRefusals(t *testing.T) { everywhere(t, legacyRefusals) }

func legacyRefusals(t *testing.T, b *server) {
	only(t, b, legacy, harness.Gregor, harness.Kafka39)
	c := raw.Dial(t, b.Addr)
	topic1, compacted := topic(t, b, 1), topic(t, b, 1, "cleanup.policy", "compact")

	broken := messages(1, raw.None, 1)
	broken[len(broken)-1] ^= 1
	wantCode(t, "a wrong CRC", produceVersioned(t, c, 2, topic1, broken).ErrorCode, kerr.CorruptMessage)
	keyless := raw.Message(1, 0, 0, 1, nil, []byte("v"))
	wantCode(t, "no key, to a compacted topic", produceVersioned(t, c, 2, compacted, keyless).ErrorCode, kerr.InvalidRecord)
	large := raw.Message(1, 0, 0, 1, []byte("k"), make([]byte, 2_000_000))
	wantCode(t, "two megabytes", produceVersioned(t, c, 2, topic1, large).ErrorCode, kerr.MessageTooLarge)
	if end := listOffset(t, c, topic1, -1).Offset; end != 0 {
		t.Errorf("the log ends at %d, not 0", end)
	}
}

// TestRefusals: what is refused of batches of format v2.
func TestRefusals(t *testing.T) { everywhere(t, refusals) }

func refusals(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic1, compacted := topic(t, b, 1), topic(t, b, 1, "cleanup.policy", "compact")
	batch := func() []byte { return raw.NewBatch(now(), "v").Encode() }

	broken := batch()
	broken[len(broken)-1] ^= 1
	wantCode(t, "a wrong CRC", produce(t, c, topic1, broken).ErrorCode, kerr.CorruptMessage)
	wantCode(t, "no key, to a compacted topic", produce(t, c, compacted, batch()).ErrorCode, kerr.InvalidRecord)
	wantCode(t, "two megabytes", produce(t, c, topic1, raw.NewBatch(now(), string(make([]byte, 2_000_000))).Encode()).ErrorCode, kerr.MessageTooLarge)
	wantCode(t, "two batches", produce(t, c, topic1, append(batch(), batch()...)).ErrorCode, kerr.InvalidRecord)
	wantCode(t, "an unknown topic", produce(t, c, name(t), batch()).ErrorCode, kerr.UnknownTopicOrPartition)
	control := raw.NewBatch(now(), "v")
	control.Attributes = 0x20
	wantCode(t, "a control batch", produce(t, c, topic1, control.Encode()).ErrorCode, kerr.InvalidRecord)
	if end := listOffset(t, c, topic1, -1).Offset; end != 0 {
		t.Errorf("the log ends at %d, not 0", end)
	}
}
