package log

import (
	"errors"
	"io/fs"
	"sort"

	"github.com/gregor-broker/gregor/log/segment"
	"github.com/gregor-broker/gregor/wire/payload"
)

// Read finds the batches from the one on that contains offset, up to what iso shows and at most maxBytes bytes; the
// last one may be cut. Nothing is returned if the first does not fit, unless minOne. The caller releases Part.File, or
// passes it on. ErrOffsetOutOfRange for what is outside the log.
func (l *Log) Read(offset int64, maxBytes int, iso Isolation, minOne bool) (Read, error) {
	var err error
	for range readAttempts {
		v := l.pub.view()
		r := Read{Bounds: v.Bounds}
		if offset < v.Start || offset > v.End {
			return r, l.errorf("offset %d, the log is [%d, %d): %w", offset, v.Start, v.End, ErrOffsetOutOfRange)
		}
		limit := v.end(iso)
		if offset >= limit {
			return r, nil
		}
		if maxBytes < 0 {
			return r, ErrReadSize
		}
		if maxBytes == 0 && !minOne {
			return r, nil
		}
		r.Part, r.Aborted, err = l.find(&v, offset, limit, maxBytes, minOne, iso == Committed)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Read{Bounds: v.Bounds}, l.storage("read", err)
		}
		// A segment was deleted or replaced after its list was loaded: look again.
	}
	return Read{}, l.storage("read", err)
}

const readAttempts = 10

// CanReadNow says that Read at offset would not wait for a disk: there is nothing to read, or it is at the end of the
// log, where everything needed is in memory.
func (l *Log) CanReadNow(offset int64, iso Isolation) bool {
	v := l.pub.view()
	if offset < v.Start || offset >= v.end(iso) {
		return true
	}
	segs := *l.segs.Load()
	active := segs[len(segs)-1]
	return offset >= active.Base() && active.FindableNow(offset)
}

// floorSegment is the index of the last segment with a base of at most offset, 0 if there is none.
func floorSegment(segs []*segment.Segment, offset int64) int {
	if n := len(segs); segs[n-1].Base() <= offset {
		return n - 1 // most reads are at the end
	}
	return max(sort.Search(len(segs), func(i int) bool { return segs[i].Base() > offset })-1, 0)
}

// find returns the range of the first batch that ends at or after offset, and what follows it in its segment before limit; and
// if aborted is set which of that was aborted, as this very segment and those that followed it then have it: compaction may be
// replacing them, by segments that do not hold the aborted records any more.
func (l *Log) find(v *view, offset, limit int64, maxBytes int, minOne, aborted bool) (part payload.Part, list []AbortedTxn, err error) {
	segs := *l.segs.Load()
	if segs[0].Base() > offset {
		return payload.Part{}, nil, fs.ErrNotExist // the log start moved since v was taken
	}
	for i := floorSegment(segs, offset); i < len(segs) && segs[i].Base() < limit; i++ {
		end, err := l.endIn(v, segs, i, limit)
		if err != nil {
			return payload.Part{}, nil, err
		}
		part, found, err := findIn(segs[i], offset, end, maxBytes, minOne)
		if err != nil {
			return payload.Part{}, nil, err
		}
		if !found {
			continue // compaction left a gap up to the next segment
		}
		part.Cold = part.Cold || part.File != nil && i < len(segs)-1
		if aborted && part.File != nil {
			if list, err = abortedIn(segs[i:], offset, limit, part.Pos+int64(part.Len), end); err != nil {
				part.File.Release()
				return payload.Part{}, nil, err
			}
		}
		return part, list, nil
	}
	return payload.Part{}, nil, nil
}

// findIn is find in one segment, up to position end. Where nothing fits the part is empty.
func findIn(s *segment.Segment, offset, end int64, maxBytes int, minOne bool) (part payload.Part, found bool, err error) {
	f, err := s.Acquire()
	if err != nil {
		return payload.Part{}, false, err
	}
	at, found, err := s.FindIn(f, offset, end)
	n := int(min(end-at.Pos, int64(maxBytes)))
	if n < at.Size && minOne {
		n = at.Size
	}
	if err != nil || !found || n < at.Size {
		f.Release()
		return payload.Part{}, found, err
	}
	return payload.Part{File: f, Pos: at.Pos, Len: n, Cold: !s.Recent(at.Pos)}, true, nil
}

// endIn is the position in segment i up to which a reader may go whom offsets from limit on are hidden.
func (l *Log) endIn(v *view, segs []*segment.Segment, i int, limit int64) (int64, error) {
	s := segs[i]
	whole := s.Size()
	if s.Base() == v.at.base {
		whole = v.at.pos
	}
	if limit == v.End || i+1 < len(segs) && segs[i+1].Base() <= limit {
		return whole, nil
	}
	at, found, err := s.Find(limit, whole)
	if err != nil || !found {
		return whole, err
	}
	return at.Pos, nil
}

// BytesFrom is the number of bytes from the batch on that contains offset to what iso shows; 0 where that cannot be told.
func (l *Log) BytesFrom(offset int64, iso Isolation) int64 {
	v := l.pub.view()
	limit := v.end(iso)
	if offset >= limit || offset < v.Start {
		return 0
	}
	segs := *l.segs.Load()
	sum := int64(0)
	for i := floorSegment(segs, offset); i < len(segs) && segs[i].Base() < limit; i++ {
		end, err := l.endIn(&v, segs, i, limit)
		if err != nil {
			return sum
		}
		if sum == 0 && offset > segs[i].Base() {
			at, found, err := segs[i].Find(offset, end)
			if err != nil || !found {
				continue
			}
			sum -= at.Pos
		}
		sum += end
	}
	return sum
}

// AbortedTxns lists the aborted transactions that overlap [from, to).
func (l *Log) AbortedTxns(from, to int64) ([]AbortedTxn, error) {
	segs := *l.segs.Load()
	list, err := aborted(segs[floorSegment(segs, from):], from, to)
	if err != nil {
		return nil, l.storage("transaction index", err)
	}
	return list, nil
}

// abortedIn lists the aborted transactions that overlap what lies from offset on before position until of the first segment, and
// before offset limit. end is the position where the reader's view of the segment ends. After LocalLog.addAbortedTransactions.
func abortedIn(segs []*segment.Segment, offset, limit, until, end int64) ([]AbortedTxn, error) {
	if len(segs) > 1 {
		limit = min(limit, segs[1].Base())
	}
	for i, s := range segs {
		any, err := s.AnyAborted()
		if err != nil {
			return nil, err
		}
		if !any {
			continue
		}
		if until < end {
			if after, found, err := segs[0].OffsetAfter(until); err == nil && found {
				limit = min(limit, after)
			} else if err != nil {
				return nil, err
			}
		}
		return aborted(segs[i:], offset, limit)
	}
	return nil, nil
}

// aborted lists the aborted transactions that overlap [from, to), which begins in the first segment.
func aborted(segs []*segment.Segment, from, to int64) ([]AbortedTxn, error) {
	var list []segment.AbortedTxn
	for _, s := range segs {
		var done bool
		var err error
		if list, done, err = s.Aborted(list, from, to); err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]AbortedTxn, len(list))
	for i, a := range list {
		out[i] = AbortedTxn{a.ProducerID, a.FirstOffset, a.LastOffset}
	}
	return out, nil
}
