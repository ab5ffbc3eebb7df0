package replica

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// TestF3 is case F3: the first record at or after a timestamp, with the epoch of its batch.
func TestF3(t *testing.T) {
	f := newFixture(t)
	f.mustObey(f.order("t", idOf(1), 1, 4, self))
	f.lead("empty", idOf(2), 1)
	f.mustPut("t", 0, batch(t, record.LZ4, "v", 2, 4, 6, 8))
	f.mustObey(f.order("t", idOf(1), 1, 6, self))
	f.mustPut("t", 0, batch(t, record.None, "v", 30, 20))
	for _, c := range []struct {
		topic string
		at    int64
		want  Offset
	}{
		{"t", 1, Offset{0, 2, 4}},
		{"t", 2, Offset{0, 2, 4}},
		{"t", 3, Offset{1, 4, 4}},
		{"t", 8, Offset{3, 8, 4}},
		{"t", 9, Offset{4, 30, 6}},
		{"t", 25, Offset{4, 30, 6}},
		{"t", 31, noOffset},
		{"t", Latest, Offset{6, -1, 6}},
		{"t", Earliest, Offset{0, -1, 4}},
		{"t", EarliestLocal, Offset{0, -1, 4}},
		{"t", MaxTimestamp, Offset{4, 30, 6}},
		{"t", LatestTiered, noOffset},
		{"t", EarliestPendingUpload, noOffset},
		{"empty", 0, noOffset},
		{"empty", 5, noOffset},
		{"empty", Latest, Offset{0, -1, 0}},
		{"empty", Earliest, Offset{0, -1, 0}},
		{"empty", MaxTimestamp, noOffset},
	} {
		for _, committed := range []bool{false, true} {
			got, err := f.Offset(&OffsetQuery{Topic: c.topic, Timestamp: c.at, CurrentLeaderEpoch: -1, ReplicaID: Consumer, Committed: committed})
			if err != nil || got != c.want {
				t.Errorf("%s at %d: %+v, %v; want %+v", c.topic, c.at, got, err, c.want)
			}
		}
	}
}

func TestOffsetRefusals(t *testing.T) {
	f := newFixture(t)
	f.mustObey(f.order("t", idOf(1), 1, 3, self, 2))
	f.mustPut("t", 0, batch(t, record.None, "v", 5))
	f.mustObey(f.order("t", idOf(1), 1, 4, self, 2)) // leads again, from offset 1 on, with the high watermark at 0
	for _, c := range []struct {
		name string
		q    OffsetQuery
		want *kerr.Error
		o    Offset
	}{
		{"unknown", OffsetQuery{Topic: "nope", CurrentLeaderEpoch: -1}, kerr.UnknownTopicOrPartition, noOffset},
		{"fenced", OffsetQuery{Topic: "t", CurrentLeaderEpoch: 3}, kerr.FencedLeaderEpoch, noOffset},
		{"ahead", OffsetQuery{Topic: "t", CurrentLeaderEpoch: 5}, kerr.UnknownLeaderEpoch, noOffset},
		{"latest while lagging", OffsetQuery{Topic: "t", Timestamp: Latest, ReplicaID: Consumer, CurrentLeaderEpoch: 4}, kerr.OffsetNotAvailable, noOffset},
		{"time while lagging", OffsetQuery{Topic: "t", Timestamp: 1, ReplicaID: Consumer, CurrentLeaderEpoch: -1}, kerr.OffsetNotAvailable, noOffset},
		{"earliest while lagging", OffsetQuery{Topic: "t", Timestamp: Earliest, ReplicaID: Consumer, CurrentLeaderEpoch: -1}, nil, Offset{0, -1, 3}},
		{"a tool's latest", OffsetQuery{Topic: "t", Timestamp: Latest, ReplicaID: Debugger, CurrentLeaderEpoch: -1}, nil, Offset{1, -1, 4}},
		{"a tool's time", OffsetQuery{Topic: "t", Timestamp: 1, ReplicaID: Debugger, CurrentLeaderEpoch: -1}, nil, Offset{0, 5, 3}},
	} {
		o, err := f.Offset(&c.q)
		if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) || o != c.o {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, o, err, c.o, c.want)
		}
	}
}

func TestLegacyOffsets(t *testing.T) {
	f := newFixture(t)
	c := log.DefaultConfig()
	c.SegmentBytes = 100
	f.configs["t"] = c
	f.lead("t", idOf(1), 1)
	for range 3 {
		f.mustPut("t", 0, batch(t, record.None, "value", 5)) // a segment each
	}
	now := f.clock.Now().UnixMilli() + 1000
	for _, q := range []struct {
		at    int64
		limit int
		want  []int64
	}{
		{now, 10, []int64{3, 2, 1, 0}}, {now, 2, []int64{3, 2}}, {Latest, 1, []int64{3}}, {Earliest, 10, []int64{0}},
		{1, 10, nil}, {Latest, 0, nil},
	} {
		got, err := f.LegacyOffsets(&OffsetQuery{Topic: "t", Timestamp: q.at, ReplicaID: Consumer}, q.limit)
		if err != nil || !slices.Equal(got, q.want) {
			t.Errorf("at %d, at most %d: %v, %v; want %v", q.at, q.limit, got, err, q.want)
		}
	}
	if _, err := f.LegacyOffsets(&OffsetQuery{Topic: "t", Timestamp: Latest, ReplicaID: Consumer}, -1); err != ErrNegativeCount {
		t.Errorf("less than none: %v", err)
	}
	if got := below([]int64{9, 7, 5}, 6); !slices.Equal(got, []int64{6, 5}) {
		t.Errorf("below 6: %v", got)
	}
}

// TestS3 is case S3: trimming at any offset, also inside a batch.
func TestS3(t *testing.T) {
	f := newFixture(t)
	compacted := log.DefaultConfig()
	compacted.Compact, compacted.Delete = true, false
	f.configs["compacted"] = compacted
	f.lead("t", idOf(1), 1)
	f.lead("compacted", idOf(2), 1)
	f.lead("__consumer_offsets", idOf(3), 1)
	for range 2 {
		f.mustPut("t", 0, batch(t, record.None, "v", 1, 2, 3, 4, 5))
	}
	start := func() int64 {
		o, err := f.Offset(&OffsetQuery{Topic: "t", Timestamp: Earliest, CurrentLeaderEpoch: -1, ReplicaID: Consumer})
		if err != nil {
			t.Fatal(err)
		}
		return o.Offset
	}
	for _, c := range []struct {
		topic     string
		partition int32
		to, low   int64
		want      *kerr.Error
	}{
		{"t", 0, 3, 3, nil},
		{"t", 0, 2, 3, nil}, // never back
		{"t", 0, 11, -1, kerr.OffsetOutOfRange},
		{"t", 0, -2, -1, kerr.OffsetOutOfRange},
		{"compacted", 0, 0, -1, kerr.PolicyViolation},
		{"__consumer_offsets", 0, 0, -1, kerr.InvalidTopicException},
		{"t", 9, 0, -1, kerr.UnknownTopicOrPartition},
	} {
		low, err := f.deleteRecords(c.topic, c.partition, c.to)
		if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) || low != c.low {
			t.Errorf("%s-%d to %d: %d, %v; want %d, %v", c.topic, c.partition, c.to, low, err, c.low, c.want)
		}
	}
	if got := start(); got != 3 {
		t.Errorf("the log starts at %d, want 3", got)
	}
	whole := len(batch(t, record.None, "v", 1, 2, 3, 4, 5))
	e := from("t", 0, 3)
	e.MaxBytes = whole
	if r := f.get(look(), e)[0]; r.Err != nil || r.Records.Size() != whole || r.LogStartOffset != 3 {
		t.Errorf("fetch at 3: %d bytes, %v; want the whole batch of %d", r.Records.Size(), r.Err, whole)
	}
	if r := f.get(look(), from("t", 0, 2))[0]; !errors.Is(r.Err, kerr.OffsetOutOfRange) {
		t.Errorf("fetch at 2: %v", r.Err)
	}
	if low, err := f.deleteRecords("t", 0, -1); low != 10 || err != nil || start() != 10 {
		t.Errorf("everything: %d, %v, start %d", low, err, start())
	}
	if r := f.mustPut("t", 0, one(t, "v")); r.BaseOffset != 10 || r.LogStartOffset != 10 {
		t.Errorf("the next record: %+v", r)
	}
}

func TestEpochEnd(t *testing.T) {
	f := newFixture(t)
	f.mustObey(f.order("t", idOf(1), 1, 2, self))
	f.mustPut("t", 0, one(t, "v"))
	f.mustObey(f.order("t", idOf(1), 1, 5, self))
	f.mustPut("t", 0, batch(t, record.None, "v", 1, 2))
	for _, c := range []struct {
		epoch int32
		want  EpochEnd
	}{{1, EpochEnd{1, 0}}, {2, EpochEnd{2, 1}}, {3, EpochEnd{2, 1}}, {5, EpochEnd{5, 3}}, {6, EpochEnd{-1, -1}}, {-1, EpochEnd{-1, -1}}} {
		got, err := f.EpochEnd("t", 0, 5, c.epoch)
		if err != nil || got != c.want {
			t.Errorf("epoch %d: %+v, %v; want %+v", c.epoch, got, err, c.want)
		}
	}
	if _, err := f.EpochEnd("t", 0, 4, 2); !errors.Is(err, kerr.FencedLeaderEpoch) {
		t.Errorf("%v", err)
	}
	if _, err := f.EpochEnd("nope", 0, -1, 2); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("%v", err)
	}
}
