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
	for range readAttempts {
		v := l.pub.view()
		r := Read{Bounds: v.Bounds}
		if offset < v.Start || offset > v.End {
			return r, l.errorf("offset %d, the log is [%d, %d): %w", offset, v.Start, v.End, ErrOffsetOutOfRange)
		}
		limit := v.end(iso)
		if offset >= limit || maxBytes <= 0 && !minOne {
			return r, nil
		}
		part, err := l.find(&v, offset, limit, maxBytes, minOne)
		if err == nil {
			r.Part = part
			return r, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return r, l.storage("read", err)
		}
		// A segment was deleted or replaced after its list was loaded: look again.
	}
	return Read{}, l.storage("read", fs.ErrNotExist)
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

// find returns the range of the first batch that ends at or after offset, and what follows it in its segment before limit.
func (l *Log) find(v *view, offset, limit int64, maxBytes int, minOne bool) (payload.Part, error) {
	segs := *l.segs.Load()
	if segs[0].Base() > offset {
		return payload.Part{}, fs.ErrNotExist // the log start moved since v was taken
	}
	for i := floorSegment(segs, offset); i < len(segs) && segs[i].Base() < limit; i++ {
		s := segs[i]
		end, err := l.endIn(v, segs, i, limit)
		if err != nil {
			return payload.Part{}, err
		}
		f, err := s.Acquire()
		if err != nil {
			return payload.Part{}, err
		}
		at, found, err := s.FindIn(f, offset, end)
		if err != nil {
			f.Release()
			return payload.Part{}, err
		}
		if !found {
			f.Release()
			continue // compaction left a gap up to the next segment
		}
		n := int(min(end-at.Pos, int64(maxBytes)))
		if n < at.Size {
			if !minOne {
				f.Release()
				return payload.Part{}, nil
			}
			n = at.Size
		}
		return payload.Part{File: f, Pos: at.Pos, Len: n, Cold: i < len(segs)-1 || !s.Recent(at.Pos)}, nil
	}
	return payload.Part{}, nil
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

// AbortedTxns lists the aborted transactions that a read_committed reader of [from, to) must skip.
func (l *Log) AbortedTxns(from, to int64) []AbortedTxn {
	segs := *l.segs.Load()
	var list []segment.AbortedTxn
	for i := floorSegment(segs, from); i < len(segs); i++ {
		var done bool
		var err error
		if list, done, err = segs[i].Aborted(list, from, to); err != nil || done {
			break
		}
	}
	if len(list) == 0 {
		return nil
	}
	out := make([]AbortedTxn, len(list))
	for i, a := range list {
		out[i] = AbortedTxn{a.ProducerID, a.FirstOffset, a.LastOffset}
	}
	return out
}
