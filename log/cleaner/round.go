package cleaner

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
)

// errAborted ends a round whose log changed in a way that makes its work void: deletion, truncation, another policy.
var errAborted = errors.New("the log changed while it was being cleaned")

// round cleans one log. Owned by the cleaner's goroutine.
type round struct {
	*candidate
	ctx      context.Context
	reader   *reader
	pace     *pace
	offsets  *offsetMap
	nowMs    int64
	legacyMs int64 // tombstones of magic 0 and 1 go in segments that were not modified after this
	txns     *txns
	stats    stats
}

// stats is what a round has done.
type stats struct {
	bytesRead, bytesWritten     int64
	recordsRead, recordsWritten int64
	segmentsRead, segments      int
}

// run cleans and returns the offset up to which the log is clean now.
func (r *round) run() (cleanTo int64, err error) {
	if err := r.setLegacyHorizon(); err != nil {
		return 0, err
	}
	if err := r.buildMap(); err != nil {
		return 0, err
	}
	cleanTo = r.offsets.latest + 1
	if cleanTo <= r.firstDirty {
		return r.firstDirty, nil // a single batch has more keys than fit
	}
	var upTo []*segment.Segment
	for _, s := range r.segs {
		if s.Base() < cleanTo {
			upTo = append(upTo, s)
		}
	}
	r.txns = newTxns()
	for _, g := range groups(upTo, r.config, r.end) {
		if err := r.cleanGroup(g); err != nil {
			return 0, err
		}
	}
	return cleanTo, nil
}

// setLegacyHorizon takes the last clean segment's time, less delete.retention.ms.
func (r *round) setLegacyHorizon() error {
	clean := r.between(0, r.firstDirty)
	if len(clean) == 0 {
		return nil
	}
	modified, err := clean[len(clean)-1].ModTime()
	r.legacyMs = modified - r.config.DeleteRetentionMs
	return err
}

// check returns why the round has to stop, if it has to.
func (r *round) check() error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if !r.log.Config().Compact {
		return errAborted
	}
	return nil
}

// buildMap reads the dirty section until it ends or the map is full. Aborted records and control batches do not count.
func (r *round) buildMap() error {
	dirty := r.between(r.firstDirty, r.end)
	seen := newTxns()
	aborted, err := r.aborted(dirty, r.firstDirty, r.end)
	if err != nil {
		return err
	}
	seen.add(aborted)
	for i, s := range dirty {
		full, err := r.mapSegment(s, seen)
		if err != nil {
			return err
		}
		if full {
			return nil
		}
		next := r.end
		if i+1 < len(dirty) {
			next = dirty[i+1].Base()
		}
		r.offsets.advance(next - 1)
	}
	return nil
}

func (r *round) mapSegment(s *segment.Segment, seen *txns) (full bool, err error) {
	pos := int64(0)
	if s.Base() < r.firstDirty {
		at, found, err := s.Find(r.firstDirty, s.Size())
		if err != nil || !found {
			return false, err
		}
		pos = at.Pos
	}
	err = r.each(s, pos, func(e record.Entry) error {
		if e.IsControl() {
			_, err := seen.control(e)
			return err
		}
		if !seen.data(e) {
			if full, err = r.mapEntry(e); err != nil || full {
				return cmpErr(err, io.EOF)
			}
		}
		if e.LastOffset() >= r.firstDirty {
			r.offsets.advance(e.LastOffset())
		}
		return nil
	})
	return full, err
}

// cmpErr is err, or other if it is nil.
func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (r *round) mapEntry(e record.Entry) (full bool, err error) {
	for rec, err := range e.Records(record.Limits{}) {
		if err != nil {
			return false, err
		}
		if rec.Key != nil && rec.Offset >= r.firstDirty && !r.offsets.put(rec.Key, rec.Offset) {
			return true, nil
		}
	}
	return false, nil
}

// each calls f for the entries of a segment from pos on until it returns an error, io.EOF for enough.
func (r *round) each(s *segment.Segment, pos int64, f func(record.Entry) error) error {
	if err := r.reader.open(s, pos); err != nil {
		return err
	}
	defer r.reader.close()
	for {
		e, err := r.reader.next()
		if err == nil {
			err = r.pace.take(r.ctx, len(e))
		}
		if err == nil {
			err = r.check()
		}
		if err == nil {
			err = f(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// aborted lists the aborted transactions that overlap [from, to), which begins in the first of segs. The index of a
// marker is in the marker's segment, so that later segments are asked, too.
func (r *round) aborted(segs []*segment.Segment, from, to int64) (list []segment.AbortedTxn, err error) {
	if len(segs) == 0 {
		return nil, nil
	}
	for _, s := range r.segs[slices.Index(r.segs, segs[0]):] {
		var done bool
		if list, done, err = s.Aborted(list, from, to); done || err != nil {
			return list, err
		}
	}
	return list, nil
}

// cleanGroup rewrites neighbouring segments into one.
func (r *round) cleanGroup(group []*segment.Segment) error {
	if err := r.check(); err != nil {
		return err
	}
	cleaned, err := r.log.NewCleaned(group[0].Base())
	if err != nil {
		return r.lost(group, err)
	}
	changed, err := r.fill(cleaned, group)
	if err == nil && changed {
		err = r.install(cleaned, group)
	}
	if errors.Is(err, log.ErrStorage) {
		return err // the log has stopped, maybe in the middle of the swap, which its next start finishes
	}
	if err != nil || !changed {
		cleaned.Close()
		if rerr := cleaned.Remove(); err == nil {
			err = rerr
		}
		return r.lost(group, err)
	}
	r.stats.segmentsRead += len(group)
	r.stats.segments++
	return nil
}

// fill writes what stays of a group. changed says whether that is anything else than the group is.
func (r *round) fill(cleaned *segment.Segment, group []*segment.Segment) (changed bool, err error) {
	r.txns.keep = cleaned.AddAborted
	last := producers(r.log)
	changed = len(group) > 1
	for i, s := range group {
		end := r.end
		if at := slices.Index(r.segs, s); at+1 < len(r.segs) {
			end = r.segs[at+1].Base()
		}
		aborted, err := r.aborted(group[i:], s.Base(), end)
		if err != nil {
			return false, err
		}
		r.txns.add(aborted)
		modified, err := s.ModTime()
		if err != nil {
			return false, err
		}
		f := filter{round: r, last: last, keepLegacyTombstones: modified > r.legacyMs}
		err = r.each(s, 0, func(e record.Entry) error {
			out, err := f.entry(e)
			if err != nil || out == nil {
				changed = true
				return err
			}
			changed = changed || &out[0] != &e[0]
			r.stats.bytesWritten += int64(len(out))
			if err := cleaned.Append(out, out.LastOffset(), out.MaxTimestamp(), int(r.config.IndexIntervalBytes)); err != nil {
				return err
			}
			return r.pace.take(r.ctx, len(out))
		})
		if err != nil {
			return false, err
		}
	}
	return changed, nil
}

// install puts the cleaned segment into the log.
func (r *round) install(cleaned *segment.Segment, group []*segment.Segment) error {
	if err := cleaned.Finish(); err != nil {
		return err
	}
	modified, err := group[len(group)-1].ModTime() // what was cleaned is no newer than it was (Cleaner.cleanSegments)
	if err != nil {
		return err
	}
	if err := cleaned.SetModTime(modified); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	return r.log.Replace(group, []*segment.Segment{cleaned})
}

// lost turns an error into errAborted if it comes of group no longer being in the log, or of its being the end.
func (r *round) lost(group []*segment.Segment, err error) error {
	if err == nil || r.ctx.Err() != nil {
		return err
	}
	now := r.log.Segments()
	at := slices.Index(now, group[0])
	if at < 0 || at+len(group) >= len(now) || !slices.Equal(now[at:at+len(group)], group) {
		return errors.Join(errAborted, err)
	}
	return err
}

// lastRecord is what the last batch of a live producer is known by.
type lastRecord struct {
	epoch    int16
	sequence int32 // -1 if no data of that epoch is known
}

// producers lists the live producers of a log.
func producers(l *log.Log) map[int64]lastRecord {
	last := map[int64]lastRecord{}
	for _, p := range l.Producers() {
		last[p.ProducerID] = lastRecord{p.ProducerEpoch, p.LastSequence}
	}
	return last
}
