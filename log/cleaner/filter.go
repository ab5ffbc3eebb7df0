package cleaner

import "github.com/gregor-broker/gregor/log/record"

// filter decides what stays of the entries of one segment. Owned by one goroutine.
type filter struct {
	*round
	last                 map[int64]lastRecord
	keepLegacyTombstones bool
}

// entry returns what stays of e: e itself, another, nil for nothing.
func (f *filter) entry(e record.Entry) (record.Entry, error) {
	f.stats.bytesRead += int64(len(e))
	dispensable, marker, err := f.follow(e)
	if err != nil {
		return nil, err
	}
	discard := dispensable
	if marker {
		b, _ := e.Batch()
		discard = dispensable && b.HasDeleteHorizon() && b.BaseTimestamp() <= f.nowMs
	}
	keepEmpty := f.isLastOfProducer(e) || e.NextOffset() == f.end
	if discard && !keepEmpty {
		return nil, nil
	}
	how := record.Filtering{
		KeepEmpty: keepEmpty, Marker: marker && dispensable, Horizon: f.nowMs + f.config.DeleteRetentionMs,
		Keep: func(rec *record.Record) bool {
			f.stats.recordsRead++
			return !discard && (marker || f.keep(e, rec))
		},
	}
	out, kept, err := record.Filter(e, &how, record.Limits{})
	f.stats.recordsWritten += int64(kept)
	return out, err
}

// follow takes note of transactions. dispensable says that the entry is data that was aborted, or the marker of a
// transaction that has no data left.
func (f *filter) follow(e record.Entry) (dispensable, marker bool, err error) {
	if !e.IsControl() {
		return f.txns.data(e), false, nil
	}
	dispensable, err = f.txns.control(e)
	return dispensable, true, err
}

// isLastOfProducer says whether e carries the last sequence of a live producer, or if there is none its epoch.
func (f *filter) isLastOfProducer(e record.Entry) bool {
	last, ok := f.last[e.ProducerID()]
	if !ok || e.ProducerID() < 0 || e.ProducerEpoch() != last.epoch {
		return false
	}
	if last.sequence < 0 {
		return e.IsControl()
	}
	return !e.IsControl() && e.LastSequence() == last.sequence
}

// keep says whether a record of a data batch stays.
func (f *filter) keep(e record.Entry, rec *record.Record) bool {
	switch {
	case rec.Offset > f.offsets.latest:
		return true
	case rec.Key == nil || rec.Offset < f.offsets.get(rec.Key):
		return false
	}
	return rec.Value != nil || f.keepTombstones(e)
}

func (f *filter) keepTombstones(e record.Entry) bool {
	b, current := e.Batch()
	if !current {
		return f.keepLegacyTombstones
	}
	return !b.HasDeleteHorizon() || f.nowMs < b.BaseTimestamp()
}
