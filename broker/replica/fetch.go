package replica

import (
	"slices"
	"time"

	"github.com/gregor-broker/gregor/broker/replica/insync"
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
	// AnyReplica says that the client may be served by a follower, and be sent to one (KIP-392).
	AnyReplica bool
	Rack       string // of the client; "" when unknown
	// RefuseZstdTopics is for clients that may not know zstd. It goes by the topic's compression.type alone: zstd batches
	// elsewhere pass as they are (KIP-110).
	RefuseZstdTopics bool
	// Gone says that the client is no longer there, so that waiting can end. May be nil.
	Gone func() bool
	// Standing is set for a follower whose session stands; the entries then have Places.
	Standing *Standing

	at    time.Duration // monotonic time of arrival
	first bool          // this is the first look, which tells how far a follower is
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
	LogStart           int64 // a follower's
	Err                error // already refused, for this reason
	Place              Place // where the partition tells that something happened to it; nil where the session does not stand

	partition *Partition // once looked up
	told      int64      // log start at the first look
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
	Preferred      int32            // broker from which the client should read instead; NoPreference
	Settled        bool             // the next Fetch need not look unless the entry's Place is touched
	Added          bool             // the records are for a replica that a reassignment adds
}

// NoPreference is the preferred replica where the client is at the right one.
const NoPreference = -1

// refusal is the result of an entry that failed.
func refusal(err error) FetchResult {
	return FetchResult{Err: err, HighWatermark: -1, LastStable: -1, LogStartOffset: -1, Preferred: NoPreference}
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
	p.at = m.clock.Monotonic()
	p.first = true
	answer := m.read(&p, entries, results, nil)
	p.first = false
	if p.Standing != nil {
		p.Standing.Looked(p.at)
		answer = answer && len(entries) > 0 // with none there is something to wait for all the same
	}
	switch {
	case answer || p.MaxWait <= 0:
		m.answer(&p, entries, results, done)
	case p.Standing != nil:
		m.parkStanding(&p, entries, results, done)
	default:
		m.park(&p, entries, results, done)
	}
}

// answer ends a Fetch.
func (m *Manager) answer(p *FetchParams, entries []FetchEntry, results []FetchResult, done func([]FetchResult)) {
	if t := m.options.SendThrottle; t != nil && p.ReplicaID >= 0 && t.Any() {
		countThrottled(t, entries, results)
	}
	done(results)
}

// Leads says whether this broker leads a partition now.
func (m *Manager) Leads(topic string, partition int32) bool {
	p := m.find(topic, partition)
	if p == nil {
		return false
	}
	_, err := p.leading(-1)
	return err == nil
}

// CanReadNow says whether a partition can be read at offset, by whoever, without waiting for a disk.
func (m *Manager) CanReadNow(topic string, partition int32, offset int64) bool {
	p := m.find(topic, partition)
	return p == nil || p.log.CanReadNow(offset, log.LogEnd)
}

func release(results []FetchResult) {
	for i := range results {
		if f := results[i].Records.File; f != nil {
			f.Release()
			results[i].Records = payload.Part{}
		}
	}
}

// read fills the results, of all entries or only of some, and reports whether they need not wait: enough bytes, an
// error, a divergence, nothing that could be waited for.
func (m *Manager) read(p *FetchParams, entries []FetchEntry, results []FetchResult, only bitset) (answer bool) {
	left, total, readable := p.MaxBytes, 0, false
	minOne := !p.HardLimit
	for i := range entries {
		if only != nil && !only.has(i) {
			continue
		}
		e, r := &entries[i], &results[i]
		*r = refusal(e.Err)
		if e.Err != nil {
			continue
		}
		readable = true
		if err := m.readOne(p, e, min(left, e.MaxBytes), minOne, r); err != nil {
			*r = refusal(err)
			answer = true
			continue
		}
		if r.Diverging != nil || r.Preferred != NoPreference {
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
	if e.Place != nil {
		e.partition.places.add(e.Place) // before the look, so that what comes after it is told
	}
	role, err := e.allowed(p)
	if err != nil {
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
	if r.Preferred = e.partition.preferred(p, role, e.Offset); r.Preferred != NoPreference {
		b := l.Bounds()
		r.HighWatermark, r.LastStable, r.LogStartOffset = b.HighWatermark, b.Stable, b.Start
		return nil
	}
	got, err := l.Read(e.Offset, maxBytes, p.isolation(), minOne)
	if err != nil {
		return err
	}
	if p.ReplicaID >= 0 && p.first {
		x := insync.Fetch{Offset: e.Offset, LogStart: e.LogStart, LeaderEnd: got.End, At: p.at}
		if e.Place != nil {
			x.Beat = e.Place
		}
		if err := e.partition.fetchedBy(p.ReplicaID, e.CurrentLeaderEpoch, &x); err != nil {
			if got.Part.File != nil {
				got.Part.File.Release()
			}
			return err
		}
		got.HighWatermark = l.Bounds().HighWatermark // the fetch may have moved it
	}
	if m.holdsBack(p, e, role) {
		if got.Part.File != nil {
			got.Part.File.Release()
		}
		got.Part, got.Aborted = payload.Part{}, nil
	}
	r.HighWatermark, r.LastStable, r.LogStartOffset, r.Records = got.HighWatermark, got.Stable, got.Start, got.Part
	r.Settled, r.Added = e.settled(p, got.End), p.ReplicaID >= 0 && slices.Contains(role.adding, p.ReplicaID)
	if r.Aborted = got.Aborted; p.Committed && r.Aborted == nil {
		r.Aborted = []log.AbortedTxn{}
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

// allowed returns the role in which the partition may be read: that of its leader, or of any replica for those who may
// read from a follower. A follower must be one of the partition's replicas, or still be in sync when it is none any more.
func (e *FetchEntry) allowed(p *FetchParams) (*role, error) {
	find := e.partition.leading
	if p.ReplicaID == Debugger || p.ReplicaID == Consumer && p.AnyReplica {
		find = e.partition.holding
	}
	r, err := find(max(-1, e.CurrentLeaderEpoch)) // in a Fetch every negative epoch means none
	switch {
	case err == ErrUnknownPartition && e.TopicID != log.TopicID{}:
		return nil, ErrUnknownTopicID
	case err != nil:
		return nil, err
	case p.ReplicaID < 0 || p.ReplicaID != r.leader && (slices.Contains(r.replicas, p.ReplicaID) || slices.Contains(r.isr, p.ReplicaID)):
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
