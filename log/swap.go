package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/log/segment"
)

// unfinished says whether a file is one of a deletion, compaction or split that was interrupted.
func unfinished(e fs.DirEntry) bool {
	n := e.Name()
	return strings.HasSuffix(n, segment.DeletedSuffix) || strings.HasSuffix(n, segment.CleanedSuffix) ||
		strings.HasSuffix(n, segment.SwapSuffix) || strings.HasSuffix(n, ".tmp")
}

// finishSwaps puts in order what such an interruption left: segments that were complete (.swap) take the place of those
// that they replace, everything else goes. Source: org.apache.kafka.storage.internals.log.LogLoader.
func (l *Log) finishSwaps(entries []fs.DirEntry) error {
	l.mu.touched, l.mu.namesDirty = true, true
	firstCleaned := int64(math.MaxInt64)
	for _, e := range entries {
		if base, suffix, ok := segment.ParseName(e.Name()); ok && strings.HasSuffix(suffix, segment.CleanedSuffix) {
			firstCleaned = min(firstCleaned, base)
		}
	}
	var swaps []int64
	for _, e := range entries {
		base, suffix, ok := segment.ParseName(e.Name())
		swap := ok && strings.HasSuffix(suffix, segment.SwapSuffix) && base < firstCleaned // else of an unfinished split
		if swap && suffix == segment.LogSuffix+segment.SwapSuffix {
			swaps = append(swaps, base)
		}
		if !swap && unfinished(e) {
			if err := l.dir.fs.Remove(l.path + "/" + e.Name()); err != nil {
				return err
			}
		}
	}
	if err := l.installSwaps(entries, swaps); err != nil {
		return err
	}
	return l.installIndexes(entries, swaps)
}

// installIndexes gives their names to the indexes of segments whose log file had got its own before the interruption.
func (l *Log) installIndexes(entries []fs.DirEntry, swaps []int64) error {
	for _, e := range entries {
		base, suffix, ok := segment.ParseName(e.Name())
		kind, swap := strings.CutSuffix(suffix, segment.SwapSuffix)
		if !ok || !swap || slices.Contains(swaps, base) {
			continue
		}
		final := l.path + "/" + segment.Name(base, kind)
		err := l.dir.fs.Rename(final+segment.SwapSuffix, final)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// installSwaps removes the segments that lie within the swaps' offsets and gives the swaps their names.
func (l *Log) installSwaps(entries []fs.DirEntry, swaps []int64) error {
	if len(swaps) == 0 {
		return nil
	}
	from, to := int64(math.MaxInt64), int64(0)
	segs := make([]*segment.Segment, 0, len(swaps))
	for _, base := range swaps {
		s, err := segment.OpenAs(l.dir.files, l.path, base, segment.SwapSuffix)
		if err != nil {
			return err
		}
		end, err := s.EndOffset()
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path(), err)
		}
		from, to = min(from, base), max(to, end)
		segs = append(segs, s)
	}
	for _, e := range entries {
		base, suffix, ok := segment.ParseName(e.Name())
		if ok && base >= from && base < to && suffix != segment.SnapshotSuffix && !unfinished(e) {
			if err := l.dir.fs.Remove(l.path + "/" + e.Name()); err != nil {
				return err
			}
		}
	}
	for _, s := range segs {
		if err := s.Rename(""); err != nil {
			return err
		}
		s.Close()
	}
	return nil
}

// Segments lists the segments by base offset; the last one grows. For the cleaner.
func (l *Log) Segments() []*segment.Segment { return slices.Clone(*l.segs.Load()) }

// NewCleaned makes the files of a segment that is to replace others. For the cleaner.
func (l *Log) NewCleaned(base int64) (*segment.Segment, error) {
	return segment.Create(l.dir.files, l.path, base, segment.CleanedSuffix)
}

// Replace puts cleaned segments, made by NewCleaned, finished and with offsets within those of old, into the place of
// old, which must be neighbours and closed. After a crash either the old or the new ones are there. It fails if old are
// no longer all in the log. For the cleaner.
func (l *Log) Replace(old, cleaned []*segment.Segment) error {
	for _, s := range cleaned {
		if err := l.dir.syncSegment(s, true); err != nil {
			return l.storage("cleaned segment", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	segs := *l.segs.Load()
	at := slices.Index(segs, old[0])
	if at < 0 || at+len(old) >= len(segs) || !slices.Equal(segs[at:at+len(old)], old) {
		return l.errorf("the log changed while its segments were cleaned")
	}
	for i := len(cleaned) - 1; i >= 0; i-- { // the first base last: a smaller .cleaned one makes a start discard the .swap
		if err := cleaned[i].Rename(segment.SwapSuffix); err != nil {
			return l.fail("swap", err)
		}
	}
	if err := l.dir.fs.SyncDir(l.path); err != nil {
		return l.fail("swap", err)
	}
	l.dropSegments(old, false)
	for _, s := range cleaned {
		if err := s.Rename(""); err != nil {
			return l.fail("swap", err)
		}
	}
	l.setSegments(slices.Concat(segs[:at], cleaned, segs[at+len(old):]))
	l.mu.namesDirty = true
	return nil
}
