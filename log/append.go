package log

import (
	"math"

	"github.com/gregor-broker/gregor/log/producer"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
)

// Marker ends a transaction on a partition.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32
	Bumped           bool  // of transaction version 2: its epoch is greater than that of the transaction's data
	LeaderEpoch      int32 // of the partition
}

// Guard stands for a verification that BeginVerification began; zero for none.
type Guard = producer.Guard

// Writer is who appends a batch as a producer. The zero value is a client without guard.
type Writer struct {
	Coordinator bool  // a coordinator, whose transactional batches have no sequence
	Guard       Guard // for the first batch of a transaction, where those are verified
}

// BeginVerification says whether the transaction coordinator must be asked whether this log's partition is part of the
// producer's transaction before a batch of that epoch, beginning with that sequence, is appended; guard goes with the
// batch then. bumps is whether the client speaks transaction version 2 (KIP-890).
func (l *Log) BeginVerification(producerID int64, epoch int16, sequence int32, bumps bool) (guard Guard, ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.producers.BeginVerification(producerID, epoch, sequence, bumps, l.dir.nowMs())
}

// CanAppendNow says that a batch of the given size, with timestamps like the last one's, could be appended this moment
// without waiting for a lock, a roll, a sync or the indexes.
func (l *Log) CanAppendNow(bytes int) bool {
	c := l.config.Load()
	if c.FlushMessages != math.MaxInt64 || !l.mu.TryLock() {
		return false
	}
	defer l.mu.Unlock()
	active := l.active()
	stamp, loaded := active.LoadedMaxTimestamp()
	return active.Size()+int64(bytes) <= int64(c.SegmentBytes) && loaded && !active.IndexFull(c.SegmentIndexBytes) && !l.oldEnough(active, stamp, c)
}

// Append writes a checked batch as the leader. The batch's base offset and leader epoch are set in place. A batch that
// the producer sent before is answered with the offsets it got then. With flush.messages it returns when what was
// appended is durable.
func (l *Log) Append(c *record.Checked, leaderEpoch int32) (Appended, error) {
	return l.AppendBy(Writer{}, c, leaderEpoch)
}

// AppendBy is Append of a batch whose writer needs to be told.
func (l *Log) AppendBy(w Writer, c *record.Checked, leaderEpoch int32) (Appended, error) {
	if c.Batch == nil {
		return Appended{BaseOffset: -1, LastOffset: -1, LogAppendTime: -1, LogStartOffset: l.pub.start.Load()}, nil
	}
	var marker *endMarker
	if c.Batch.IsControl() {
		marker, _ = parseMarker(record.Entry(c.Batch))
	}
	l.mu.Lock()
	a, err := l.appendLeader(w, c, leaderEpoch, marker)
	l.mu.Unlock()
	if err == nil {
		err = l.flushIfDue()
	}
	return a, err
}

// WriteMarker appends the control batch that ends a producer's transaction, as the leader. One that is repeated is
// answered as a duplicate, with the last offset of the log.
func (l *Log) WriteMarker(m Marker) (Appended, error) {
	kind := record.Abort
	if m.Commit {
		kind = record.Commit
	}
	now := l.dir.nowMs()
	l.mu.Lock()
	l.mu.marker = record.BuildMarkerIn(l.mu.marker, m.ProducerID, m.ProducerEpoch, kind, m.CoordinatorEpoch, now)
	c := record.Trusted(l.mu.marker)
	a, err := l.appendLeader(Writer{}, &c, m.LeaderEpoch, &endMarker{producer.Marker{
		ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch, Bumped: m.Bumped, Timestamp: now,
	}, m.Commit})
	l.mu.Unlock()
	if err == nil {
		err = l.flushIfDue()
	}
	return a, err
}

type endMarker struct {
	producer.Marker
	commit bool
}

// appendLeader appends c; marker is what a control batch that ends a transaction says. The caller holds mu.
func (l *Log) appendLeader(w Writer, c *record.Checked, leaderEpoch int32, marker *endMarker) (Appended, error) {
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	if latest, ok := l.epochs.Load().Latest(); ok && leaderEpoch >= 0 && leaderEpoch < latest {
		return Appended{}, l.errorf("%w: epoch %d, but the log has records of %d", ErrOldEpoch, leaderEpoch, latest)
	}
	b := c.Batch
	start := l.pub.start.Load()
	if marker != nil {
		again, err := l.mu.producers.CheckMarker(marker.Marker)
		if err != nil {
			return Appended{}, l.errorf("%w", err)
		}
		if again {
			last := l.pub.end.Load() - 1
			return Appended{last, last, -1, start, true}, nil
		}
	} else if !b.IsControl() {
		dup, isDup, err := l.mu.producers.Check(b, producer.Origin{
			Coordinator: w.Coordinator, Guard: w.Guard, Verified: b.IsTransactional() && l.dir.verifyTxns(),
		})
		if err != nil {
			return Appended{}, l.errorf("%w", err)
		}
		if isDup {
			// Kafka tells a duplicate's own timestamp, whoever set it.
			return Appended{dup.FirstOffset, dup.LastOffset, dup.Timestamp, start, true}, nil
		}
	}
	base := l.pub.end.Load()
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(leaderEpoch)
	if err := l.write(b, base, c.MaxTimestamp, leaderEpoch); err != nil {
		return Appended{}, err
	}
	if marker != nil {
		marker.Offset = b.LastOffset()
		if err := l.endTxn(l.active(), marker); err != nil {
			return Appended{}, l.fail("transaction index", err) // the marker is in the file, and nothing may take its offset
		}
	} else {
		l.mu.producers.Apply(b)
	}
	l.publish(b.NextOffset(), int64(b.Count()))
	return Appended{base, b.LastOffset(), c.LogAppendTime, start, false}, nil
}

// write puts one entry with its offsets set at the end of the log. The caller holds mu, and publishes.
func (l *Log) write(b record.Batch, base, maxStamp int64, leaderEpoch int32) error {
	last := record.Entry(b).LastOffset()
	s, err := l.segmentFor(len(b), base, last, maxStamp)
	if err != nil {
		return err
	}
	if leaderEpoch >= 0 {
		l.assignEpoch(leaderEpoch, base)
	}
	l.mu.namesDirty = l.mu.namesDirty || s.Planned() // the append makes its files
	if err := s.Append(b, last, maxStamp, int(l.config.Load().IndexIntervalBytes)); err != nil {
		return l.storage("append", err)
	}
	return nil
}

// publish shows readers a new end. The caller holds mu.
func (l *Log) publish(end, records int64) {
	l.mu.touched = true
	s := l.active()
	l.pub.appended(end, position{s.Base(), s.Size()}, l.mu.producers.FirstUnstable())
	if before := l.unflushed.Add(records) - records; before == 0 {
		l.dir.recoveryChanged.set()
		if ms := l.config.Load().FlushMs; ms != math.MaxInt64 {
			l.dir.flushLater(l, ms)
		}
	}
}

// endTxn applies a marker, and notes in s what it aborted. The caller holds mu.
func (l *Log) endTxn(s *segment.Segment, m *endMarker) error {
	first, stable, ended := l.mu.producers.ApplyMarker(m.Marker)
	if !ended || m.commit {
		return nil
	}
	return s.AddAborted(segment.AbortedTxn{
		ProducerID: m.ProducerID, FirstOffset: first, LastOffset: m.Offset, StableOffset: stable,
	})
}

// AppendAsFollower writes entries of any magic exactly as they are, offsets included, which must begin at or after the
// log end.
func (l *Log) AppendAsFollower(raw []byte) (Appended, error) {
	for rest := raw; len(rest) > 0; {
		e, tail, err := record.NextEntry(rest)
		if err == nil {
			err = e.CheckCRC()
		}
		if err != nil {
			return Appended{}, l.errorf("%w: %w", ErrCorrupt, err)
		}
		rest = tail
	}
	l.mu.Lock()
	a, err := l.appendEntries(raw)
	l.mu.Unlock()
	if err == nil {
		err = l.flushIfDue()
	}
	return a, err
}

// appendEntries appends checked entries, run by run. The caller holds mu.
func (l *Log) appendEntries(raw []byte) (Appended, error) {
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	a := Appended{BaseOffset: -1, LastOffset: -1, LogAppendTime: -1, LogStartOffset: l.pub.start.Load()}
	for len(raw) > 0 {
		n, err := l.appendRun(raw, &a)
		if err != nil {
			return a, err
		}
		raw = raw[n:]
	}
	return a, nil
}

// appendRun writes the first entry of raw, and those after it that can be written with it, and returns their size.
func (l *Log) appendRun(raw []byte, a *Appended) (size int, err error) {
	e, rest, err := record.NextEntry(raw)
	if err != nil {
		return 0, l.errorf("%w: %w", ErrCorrupt, err)
	}
	base, end := e.BaseOffset(), l.pub.end.Load()
	if base < end || e.LastOffset() < base {
		return 0, l.errorf("%w: offset %d after %d", ErrUnexpectedOffset, base, end-1)
	}
	s, err := l.segmentFor(len(e), base, e.LastOffset(), e.MaxTimestamp())
	if err != nil {
		return 0, err
	}
	var few [8]segment.Placed
	run := l.runOf(few[:0], s, e, rest)
	for _, p := range run {
		size += p.Size
	}
	if epoch := e.LeaderEpoch(); epoch >= 0 {
		l.assignEpoch(epoch, base)
	}
	l.mu.namesDirty = l.mu.namesDirty || s.Planned() // the append makes its files
	if err := s.AppendAll(raw[:size], run, int(l.config.Load().IndexIntervalBytes)); err != nil {
		return 0, l.storage("append", err)
	}
	return size, l.appendedRun(s, raw[:size], a)
}

// runOf adds to run e and those after it, of which rest begins with the first, that can be written to the segment together with it: none of
// them needs a roll, and all are of one leader epoch.
func (l *Log) runOf(run []segment.Placed, s *segment.Segment, e record.Entry, rest []byte) []segment.Placed {
	c, first, size := l.config.Load(), e, len(e)
	run = append(run, placed(e))
	for room := s.IndexRoom(c.SegmentIndexBytes); len(run) < room; {
		next, tail, err := record.NextEntry(rest)
		if err != nil || !follows(next, e) {
			break // or it is refused when its turn comes
		}
		old := l.oldEnough(s, next.MaxTimestamp(), c)
		if s.Size() == 0 {
			old = next.MaxTimestamp()-first.MaxTimestamp() > c.maxSegmentMs()-l.mu.jitter
		}
		if old || s.Size()+int64(size+len(next)) > int64(c.SegmentBytes) || !s.FitsRelative(next.LastOffset()) {
			break
		}
		run = append(run, placed(next))
		e, rest, size = next, tail, size+len(next)
	}
	return run
}

func placed(e record.Entry) segment.Placed {
	return segment.Placed{Size: len(e), LastOffset: e.LastOffset(), MaxStamp: e.MaxTimestamp()}
}

// follows says whether next may be in the same run after e.
func follows(next, e record.Entry) bool {
	return next.BaseOffset() > e.LastOffset() && next.LastOffset() >= next.BaseOffset() && next.LeaderEpoch() == e.LeaderEpoch()
}

// appendedRun takes note of entries that were written to s, and publishes them.
func (l *Log) appendedRun(s *segment.Segment, raw []byte, a *Appended) error {
	records, end := int64(0), int64(0)
	for len(raw) > 0 {
		e, rest, err := record.NextEntry(raw)
		if err != nil {
			return l.errorf("%w: %w", ErrCorrupt, err)
		}
		if err := l.applyProducer(s, e, func() (record.Entry, error) { return e, nil }, true); err != nil {
			return l.fail("transaction index", err)
		}
		n := int64(1)
		if b, ok := e.Batch(); ok {
			n = int64(b.Count())
		}
		if a.BaseOffset < 0 {
			a.BaseOffset = e.BaseOffset()
		}
		a.LastOffset = e.LastOffset()
		records, end, raw = records+n, e.NextOffset(), rest
	}
	l.publish(end, records)
	return nil
}

// applyProducer takes note of an entry that is in s; of a control batch whole yields the records too. note says whether
// aborted transactions go to the index, where they may be already. The caller holds mu.
func (l *Log) applyProducer(s *segment.Segment, head record.Entry, whole func() (record.Entry, error), note bool) error {
	b, ok := head.Batch()
	if !ok || b.ProducerID() < 0 {
		return nil
	}
	if !b.IsControl() {
		l.mu.producers.Apply(b)
		return nil
	}
	e, err := whole()
	if err != nil {
		return err
	}
	m, ok := parseMarker(e)
	if !ok {
		return nil
	}
	if !note {
		m.commit = true
	}
	return l.endTxn(s, m)
}

// parseMarker reads a control batch that ends a transaction; ok is false for any other control record.
func parseMarker(e record.Entry) (m *endMarker, ok bool) {
	for r, err := range e.Records(record.Limits{}) {
		if err != nil {
			return nil, false
		}
		kind, err := record.ParseControl(r.Key)
		if err != nil || kind != record.Abort && kind != record.Commit {
			return nil, false
		}
		coordinator, err := record.CoordinatorEpoch(r.Value)
		if err != nil {
			return nil, false
		}
		b := record.Batch(e)
		return &endMarker{producer.Marker{
			ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), CoordinatorEpoch: coordinator, Offset: b.LastOffset(), Timestamp: r.Timestamp,
		}, kind == record.Commit}, true
	}
	return nil, false
}
