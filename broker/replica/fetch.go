package replica

import (
	"time"

	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/payload"
)

// Replica ids of those who are no replica (FetchRequest and ListOffsetsRequest of Apache Kafka).
const (
	Consumer = -1
	Debugger = -2 // a tool that may read from any replica
)

// FetchParams are what holds for a whole Fetch.
type FetchParams struct {
	ReplicaID int32 // Consumer, Debugger, or the id of a follower
	MaxWait   time.Duration
	MinBytes  int
	MaxBytes  int
	// HardLimit makes MaxBytes and the partitions' limits hold for the first batch too, which then arrives in part
	// (Fetch v0 to v2). Without it the first non-empty partition answers at least one batch (KIP-74).
	HardLimit bool
	Committed bool // read_committed
	// RefuseZstdTopics is for clients that may not know zstd. It goes by the topic's compression.type alone: zstd batches
	// elsewhere pass as they are (KIP-110).
	RefuseZstdTopics bool
	// Gone says that the client is no longer there, so that waiting can end. May be nil.
	Gone func() bool
}

// FetchEntry is what is wanted of one partition.
type FetchEntry struct {
	Topic              string
	TopicID            log.TopicID // zero: not to be checked
	Partition          int32
	CurrentLeaderEpoch int32 // -1: not to be checked
	LastFetchedEpoch   int32 // -1: not to be checked
	MaxBytes           int
	Offset             int64
	Err                error // already refused, for this reason

	partition *Partition // once looked up
}

// FetchResult is what a partition has to say. The offsets are -1 with an error.
type FetchResult struct {
	Err            error
	HighWatermark  int64
	LastStable     int64
	LogStartOffset int64
	Aborted        []log.AbortedTxn // nil unless read_committed
	Records        payload.Part     // its file is to be released by the receiver
	Diverging      *EpochEnd        // the client's records end differently: it must truncate
}

// EpochEnd is a leader epoch and the offset after its last record; -1 and -1 when neither is known.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// Fetch reads the entries in order until the byte budget is spent, waiting for MinBytes at most MaxWait, and calls done
// with the results, at once or later. It owns entries until then.
func (m *Manager) Fetch(p FetchParams, entries []FetchEntry, done func([]FetchResult)) {
	results := make([]FetchResult, len(entries))
	if m.read(&p, entries, results) || p.MaxWait <= 0 {
		done(results)
		return
	}
	release(results)
	op := &fetchOp{manager: m, params: p, entries: entries, results: results, done: done}
	lists := make([]*purgatory.List, 0, len(entries))
	for i := range entries {
		if entries[i].partition != nil {
			lists = append(lists, &entries[i].partition.fetches)
		}
	}
	m.purgatory.Watch(op, p.MaxWait, lists...)
}

func release(results []FetchResult) {
	for i := range results {
		if f := results[i].Records.File; f != nil {
			f.Release()
			results[i].Records = payload.Part{}
		}
	}
}

// read fills the results and reports whether they need not wait: enough bytes, an error, a divergence, nothing that
// could be waited for.
func (m *Manager) read(p *FetchParams, entries []FetchEntry, results []FetchResult) (answer bool) {
	left, total, readable := p.MaxBytes, 0, false
	minOne := !p.HardLimit
	for i := range entries {
		e, r := &entries[i], &results[i]
		*r = FetchResult{Err: e.Err, HighWatermark: -1, LastStable: -1, LogStartOffset: -1}
		if e.Err != nil {
			continue
		}
		readable = true
		if err := m.readOne(p, e, min(left, e.MaxBytes), minOne, r); err != nil {
			*r = FetchResult{Err: err, HighWatermark: -1, LastStable: -1, LogStartOffset: -1}
			answer = true
			continue
		}
		if r.Diverging != nil {
			answer = true
		}
		if n := r.Records.Size(); n > 0 {
			minOne = false
			left = max(0, left-n)
			total += n
		}
	}
	return answer || !readable || total >= p.MinBytes
}

// readOne reads one partition. With minOne its first batch comes whole, whatever its size.
func (m *Manager) readOne(p *FetchParams, e *FetchEntry, maxBytes int, minOne bool, r *FetchResult) error {
	if e.partition == nil {
		var err error
		if e.partition, err = m.lookup(e.Topic, e.TopicID, e.Partition); err != nil {
			return err
		}
	}
	if _, err := e.allowed(p); err != nil {
		return err
	}
	l := e.partition.log
	if c := l.Config().Compression; p.RefuseZstdTopics && c.Fixed && c.Codec == record.Zstd {
		return record.ErrCompression
	}
	if e.LastFetchedEpoch >= 0 {
		end, err := diverging(l, e)
		if err != nil {
			return err
		}
		if end != nil {
			b := l.Bounds()
			r.Diverging, r.HighWatermark, r.LastStable, r.LogStartOffset = end, b.HighWatermark, b.Stable, b.Start
			return nil
		}
	}
	got, err := l.Read(e.Offset, max(0, maxBytes), p.isolation(), minOne)
	if err != nil {
		return err
	}
	r.HighWatermark, r.LastStable, r.LogStartOffset, r.Records = got.HighWatermark, got.Stable, got.Start, got.Part
	if p.Committed {
		r.Aborted = []log.AbortedTxn{}
		if got.Part.Size() > 0 {
			r.Aborted = append(r.Aborted, l.AbortedTxns(e.Offset, got.Stable)...)
		}
	}
	return nil
}

func (p *FetchParams) isolation() log.Isolation {
	switch {
	case p.ReplicaID >= 0:
		return log.LogEnd
	case p.Committed:
		return log.Committed
	}
	return log.HighWatermark
}

// allowed returns the role in which the partition may be read. A follower must be one of the partition's replicas.
func (e *FetchEntry) allowed(p *FetchParams) (*role, error) {
	r, err := e.partition.leading(e.CurrentLeaderEpoch)
	switch {
	case err == ErrUnknownPartition && e.TopicID != log.TopicID{}:
		return nil, ErrUnknownTopicID
	case err != nil:
		return nil, err
	case p.ReplicaID < 0:
		return r, nil
	case e.CurrentLeaderEpoch >= 0:
		return nil, ErrUnknownEpoch
	}
	return nil, ErrNotLeader
}

// diverging returns where the client's log and ours part, nil if they do not (KIP-595).
func diverging(l *log.Log, e *FetchEntry) (*EpochEnd, error) {
	epoch, end := l.EndOffsetForEpoch(e.LastFetchedEpoch)
	switch {
	case epoch < 0 || end < 0:
		return nil, ErrEpochEndUnknown
	case e.Offset < l.Bounds().Start:
		return nil, log.ErrOffsetOutOfRange
	case epoch < e.LastFetchedEpoch || end < e.Offset:
		return &EpochEnd{epoch, end}, nil
	}
	return nil, nil
}

// fetchOp is a Fetch that waits for bytes.
type fetchOp struct {
	manager *Manager
	params  FetchParams
	entries []FetchEntry
	results []FetchResult
	done    func([]FetchResult)
}

// Ready follows DelayedFetch.tryComplete: enough bytes (case G), or something that no waiting mends: the leadership or
// the partition is gone (A to D), the epoch is fenced (E), the log was cut below the offset (F) or its history changed
// (H).
func (o *fetchOp) Ready() bool {
	if o.params.Gone != nil && o.params.Gone() {
		return true
	}
	total := 0
	for i := range o.entries {
		e := &o.entries[i]
		if e.partition == nil {
			continue
		}
		bytes, hopeless := e.waiting(&o.params)
		total += bytes
		if hopeless || total >= o.params.MinBytes {
			return true
		}
	}
	return false
}

// waiting returns how much of the partition could be answered now, or that an answer other than bytes is due.
func (e *FetchEntry) waiting(p *FetchParams) (bytes int, hopeless bool) {
	if _, err := e.allowed(p); err != nil {
		return 0, true
	}
	l := e.partition.log
	b := l.Bounds()
	if e.Offset > b.End || e.Offset < b.Start {
		return 0, true
	}
	if e.LastFetchedEpoch >= 0 {
		if end, err := diverging(l, e); end != nil || err != nil {
			return 0, true
		}
	}
	return int(min(l.BytesFrom(e.Offset, p.isolation()), int64(max(0, e.MaxBytes)))), false
}

// Finish answers with what is there.
func (o *fetchOp) Finish(bool) {
	o.manager.read(&o.params, o.entries, o.results)
	o.done(o.results)
}
