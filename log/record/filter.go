package record

import "iter"

// Filtering is what compaction wants of an entry.
type Filtering struct {
	Keep func(r *Record) bool // called once for each record in order; r is valid during the call
	// KeepEmpty keeps the header of a batch that loses all records, with its offsets and its producer's sequence.
	// Magic 0 and 1 have no such thing.
	KeepEmpty bool
	// Horizon is the time in ms that becomes the delete horizon of a batch of magic 2 with tombstones that has none
	// (KIP-534), of any with Marker.
	Horizon int64
	Marker  bool
}

// Filter returns the entry without the records that f does not keep: e itself if nothing changes, nil if nothing is
// left, else an entry in memory of its own. kept is the number of records in it. Offsets, sequences and epochs stay;
// the codec's level is its default. After MemoryRecords.filterTo of Kafka.
func Filter(e Entry, f *Filtering, lim Limits) (out Entry, kept int, err error) {
	s, err := f.sift(e, lim)
	if err != nil {
		return nil, 0, err
	}
	b, current := e.Batch()
	horizon := current && (s.tombstones || f.Marker) && !b.HasDeleteHorizon()
	switch {
	case s.kept == 0 && f.KeepEmpty && current:
		return emptied(b), 0, nil
	case s.kept == 0:
		return nil, 0, nil
	case s.kept == s.total && !horizon:
		return e, s.kept, nil
	case !current:
		out, err = s.rewriteLegacy(e, lim)
		return out, s.kept, err
	}
	base := s.firstTimestamp
	if horizon {
		base = f.Horizon
	} else if horizon = b.HasDeleteHorizon(); horizon {
		base = b.BaseTimestamp()
	}
	b, err = s.rewrite(b, base, horizon, lim)
	return Entry(b), s.kept, err
}

// sifted is which records of an entry stay.
type sifted struct {
	keep           []uint64 // bits by index
	total, kept    int
	firstTimestamp int64 // of those that stay
	tombstones     bool  // among them
}

func (f *Filtering) sift(e Entry, lim Limits) (s sifted, err error) {
	for r, err := range e.Records(lim) {
		if err != nil {
			return s, err
		}
		if s.total%64 == 0 {
			s.keep = append(s.keep, 0)
		}
		if f.Keep(&r) {
			if s.kept == 0 {
				s.firstTimestamp = r.Timestamp
			}
			s.keep[s.total/64] |= 1 << (s.total % 64)
			s.kept++
			s.tombstones = s.tombstones || r.Value == nil
		}
		s.total++
	}
	return s, nil
}

// records reads the entry again.
func (s *sifted) records(e Entry, lim Limits) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		i := 0
		for r, err := range e.Records(lim) {
			stays := err != nil || s.keep[i/64]>>(i%64)&1 == 1
			i++
			if stays && !yield(r, err) {
				return
			}
		}
	}
}

// rewrite builds a batch of what stays.
func (s *sifted) rewrite(b Batch, baseTimestamp int64, horizon bool, lim Limits) (Batch, error) {
	o := BatchOptions{
		BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(), Codec: b.Codec(), TimestampType: b.TimestampType(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Transactional: b.IsTransactional(), Control: b.IsControl(),
	}
	w, err := newBuilder(&o, baseTimestamp, len(b)+16, maxEntryBytes)
	if err != nil {
		return nil, err
	}
	defer w.free()
	for r, err := range s.records(Entry(b), lim) {
		if err == nil {
			err = w.add(r.Offset, &r)
		}
		if err != nil {
			return nil, err
		}
	}
	w.last, w.horizon = int64(b.LastOffsetDelta()), horizon
	if o.TimestampType == LogAppendTime {
		w.maxTimestamp = b.MaxTimestamp()
	}
	return w.finish()
}

// rewriteLegacy builds a wrapper of what stays; a message that is no wrapper stays or goes as a whole.
func (s *sifted) rewriteLegacy(e Entry, lim Limits) (Entry, error) {
	attributes := byte(0)
	if e.TimestampType() == LogAppendTime {
		attributes = attrLogAppendTime
	}
	set, _, err := appendSet(nil, e, e.Magic(), attributes, s.records(e, lim))
	return set, err
}

// emptied is the header of b without records.
func emptied(b Batch) Entry {
	o := BatchOptions{
		BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(), TimestampType: b.TimestampType(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Transactional: b.IsTransactional(), Control: b.IsControl(),
	}
	w := builder{BatchOptions: &o, baseTimestamp: NoTimestamp, maxTimestamp: b.MaxTimestamp(), last: int64(b.LastOffsetDelta())}
	out := make(Batch, HeaderSize)
	w.header(out)
	return Entry(out)
}
