package log

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/epoch"
	"github.com/gregor-broker/gregor/log/producer"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
)

// newLog returns a log without segments.
func newLog(d *dir, tp TopicPartition, path string, c *Config) *Log {
	l := &Log{dir: d, tp: tp, path: path}
	l.config.Store(c)
	l.epochs.Store(new(epoch.History))
	l.pub.unstable.Store(-1)
	return l
}

// saved is what the directory's checkpoints say of a partition.
type saved struct {
	clean     bool  // the directory was left in order
	recovery  int64 // first offset that may not be durable
	start, hw int64
}

// load opens the log in d.path/name. Source: org.apache.kafka.storage.internals.log.LogLoader.
func (d *dir) load(name string, tp TopicPartition, c *Config, s saved) (*Log, error) {
	l := newLog(d, tp, d.path+"/"+name, c)
	if err := l.load(s); err != nil {
		return nil, fmt.Errorf("loading %s: %w", l.path, err)
	}
	return l, nil
}

func (l *Log) load(s saved) error {
	names, err := l.listFiles()
	if err != nil {
		return err
	}
	l.openSegments(names, s.start)
	if err := l.loadID(); err != nil {
		return err
	}
	if err := l.loadEpochs(names.epochs); err != nil {
		return err
	}
	end, err := l.findEnd(&s, names)
	if err != nil {
		return err
	}
	if end < s.start {
		l.dir.logger.Warn("the log ends before its start and is begun anew", zap.String("dir", l.path), zap.Int64("offset", end), zap.Int64("start", s.start))
		return l.truncateFully(s.start)
	}
	if err := l.rest(); err != nil {
		return err
	}
	return l.settle(s, end)
}

// rest leaves the active segment, like the others, without descriptors and index in memory until it is used.
func (l *Log) rest() error {
	s := l.active()
	if err := s.Finish(); err != nil {
		return err
	}
	s.Unload()
	s.Close()
	return nil
}

// loadID reads the topic id. A damaged file beside an empty log is what a crash left of a creation that nobody was told
// of: it counts as none.
func (l *Log) loadID() error {
	id, err := checkpoint.ReadPartitionMetadata(l.dir.fs, l.path)
	if err != nil && l.Size() == 0 {
		l.dir.logger.Warn("the topic id of an empty log is not used", zap.String("dir", l.path), zap.Error(err))
		return nil
	}
	l.mu.id = id
	return err
}

// settle publishes the bounds of a loaded log that ends at end.
func (l *Log) settle(s saved, end int64) error {
	segs := *l.segs.Load()
	start := max(s.start, segs[0].Base())
	h, changedEnd := l.epochs.Load().TruncateEnd(end)
	h, changedStart := h.TruncateStart(start)
	if changedEnd || changedStart {
		l.epochs.Store(&h)
		l.mu.epochsDirty = true
	}
	l.recovered.Store(min(s.recovery, end))
	if s.clean {
		l.recovered.Store(end)
	}
	hw := min(max(s.hw, start), end)
	l.mu.producers.Replicated(hw)
	l.dropSnapshots(func(at int64) bool {
		return at != l.mu.snapshots[len(l.mu.snapshots)-1] && segs[floorSegment(segs, at)].Base() != at
	})
	active := l.active()
	l.mu.segCreated = l.dir.nowMs()
	l.pub.reset(start, end, hw, position{active.Base(), active.Size()}, l.mu.producers.FirstUnstable())
	return nil
}

// listing is the files of a partition's directory.
type listing struct {
	logs   []loggedFile // by base
	epochs bool         // there is a leader-epoch-checkpoint
}

type loggedFile struct {
	base, size int64
	txn        bool // there is a .txnindex
}

// listFiles reads the directory after what an interrupted deletion, compaction or split left was put in order.
func (l *Log) listFiles() (listing, error) {
	entries, err := l.dir.fs.ReadDir(l.path)
	if err != nil {
		return listing{}, err
	}
	if slices.ContainsFunc(entries, unfinished) {
		if err := l.finishSwaps(entries); err != nil {
			return listing{}, err
		}
		if entries, err = l.dir.fs.ReadDir(l.path); err != nil {
			return listing{}, err
		}
	}
	var out listing
	for _, e := range entries {
		base, kind, ok := segment.ParseName(e.Name())
		if !ok {
			out.epochs = out.epochs || e.Name() == epoch.FileName
			continue
		}
		last := len(out.logs) - 1
		mine := last >= 0 && out.logs[last].base == base
		switch kind {
		case segment.SnapshotSuffix:
			l.mu.snapshots = append(l.mu.snapshots, base)
		case segment.LogSuffix: // comes after .index and before .snapshot, .timeindex and .txnindex in the order of names
			info, err := e.Info()
			if err != nil {
				return listing{}, err
			}
			out.logs = append(out.logs, loggedFile{base: base, size: info.Size()})
		case segment.TimeIndexSuffix, segment.TxnIndexSuffix:
			if !mine {
				if err := l.dir.fs.Remove(l.path + "/" + e.Name()); err != nil {
					return listing{}, err
				}
				break
			}
			if kind == segment.TxnIndexSuffix {
				out.logs[last].txn = true
			}
		}
	}
	return out, nil
}

// openSegments opens what the listing has, or plans a first segment at start.
func (l *Log) openSegments(names listing, start int64) {
	segs := make([]*segment.Segment, 0, max(len(names.logs), 1))
	for _, f := range names.logs {
		segs = append(segs, segment.Open(l.dir.files, l.path, f.base, f.size))
	}
	if len(segs) == 0 {
		segs = append(segs, segment.Plan(l.dir.files, l.path, start))
	}
	l.setSegments(segs)
}

// loadEpochs reads the leader epochs; from the batches if the file is damaged.
func (l *Log) loadEpochs(there bool) error {
	if !there {
		return nil
	}
	raw, err := l.dir.fs.ReadFile(l.path+"/"+epoch.FileName, epoch.MaxFileBytes)
	if err != nil {
		return err
	}
	h, err := epoch.Parse(raw)
	if err == nil {
		l.epochs.Store(&h)
		return nil
	}
	l.dir.logger.Warn("the leader epochs are damaged and read from the batches", zap.String("dir", l.path), zap.Error(err))
	for _, s := range *l.segs.Load() {
		err := s.Scan(0, s.Size(), func(sc *segment.Scanner) (bool, error) {
			l.noteEpoch(sc.Head())
			return true, nil
		})
		if err != nil && !damaged(err) {
			return err
		}
	}
	return nil
}

// noteEpoch takes the leader epoch of an entry that is in the log.
func (l *Log) noteEpoch(head record.Entry) {
	if e := head.LeaderEpoch(); e >= 0 {
		l.assignEpoch(e, record.Batch(head).BaseOffset())
	}
}

func damaged(err error) bool {
	return errors.Is(err, segment.ErrCorrupt) || errors.Is(err, record.ErrTruncated)
}

// findEnd returns the log end and brings the producer state there. What may not be whole is recovered.
func (l *Log) findEnd(s *saved, names listing) (int64, error) {
	segs := *l.segs.Load()
	first := len(segs) // to be recovered
	if !s.clean {
		first = floorSegment(segs, s.recovery)
	}
	damagedAt := func(i int, err error) {
		l.dir.logger.Warn("a log that should be in order is damaged", zap.String("dir", l.path), zap.Int64("offset", segs[i].Base()), zap.Error(err))
		first = min(first, i)
	}
	for i, f := range names.logs[:min(first, len(names.logs))] {
		if f.txn {
			if err := segs[i].CheckTxnIndex(); err != nil {
				damagedAt(i, err)
				break
			}
		}
	}
	if first == len(segs) {
		end, err := segs[first-1].EndOffset()
		if err == nil {
			return end, l.loadProducers(end)
		}
		if !damaged(err) {
			return 0, err
		}
		damagedAt(first-1, err)
	}
	if s.clean {
		s.clean, s.recovery = false, min(s.recovery, segs[first].Base())
	}
	return l.recover(first)
}

// recover reads the segments from first on, cuts the log at the first entry that is not whole, and returns the end.
func (l *Log) recover(first int) (end int64, err error) {
	segs := *l.segs.Load()
	from := segs[first].Base()
	l.mu.touched = true
	if h, changed := l.epochs.Load().TruncateEnd(from); changed {
		l.setEpochs(h)
	}
	l.dropSnapshots(func(at int64) bool { return at > from })
	if err := l.loadProducers(from); err != nil {
		return 0, err
	}
	ends := make([]int64, 0, len(segs)-first)
	for i, s := range segs[first:] {
		end, cut, err := l.recoverSegment(s)
		if err != nil {
			return 0, err
		}
		ends = append(ends, end)
		rest := segs[first+i+1:]
		if cut {
			l.setSegments(segs[:first+i+1])
			l.dropSegments(rest, true)
			break
		}
		if len(rest) > 0 {
			if err := errors.Join(s.Finish(), l.writeSnapshot(rest[0].Base())); err != nil {
				return 0, err
			}
			s.Unload()
		}
	}
	return l.dropEmptyEnd(first, ends), nil
}

// recoverSegment reads one segment and returns its end, and whether something was cut off.
func (l *Log) recoverSegment(s *segment.Segment) (end int64, cut bool, err error) {
	end = s.Base()
	bytes, why, err := s.Recover(func(sc *segment.Scanner) error {
		end = sc.Head().NextOffset()
		l.noteEpoch(sc.Head())
		return l.applyProducer(s, sc.Head(), sc.Whole, true)
	})
	if bytes > 0 {
		l.dir.logger.Warn("the end of a segment was cut", zap.String("dir", l.path), zap.Int64("segment", s.Base()), zap.Int64("offset", end),
			zap.Int64("bytes", bytes), zap.NamedError("why", why))
	}
	return end, bytes > 0, err
}

// dropEmptyEnd takes empty segments off the end that do not continue the one before: a power failure kept their names
// and lost the end of that one. ends are the ends of the segments from first on. It returns the log end.
func (l *Log) dropEmptyEnd(first int, ends []int64) int64 {
	segs := *l.segs.Load()
	n := len(segs)
	for n-1 > first && segs[n-1].Size() == 0 && ends[n-2-first] < segs[n-1].Base() {
		n--
	}
	end := ends[n-1-first]
	if n < len(segs) {
		l.setSegments(segs[:n:n])
		l.dropSegments(segs[n:], true)
		l.dropSnapshots(func(at int64) bool { return at > end })
	}
	return end
}

// loadProducers brings the producer state to offset end: from the newest snapshot that can be read, and the batches
// after it. The caller holds mu, or is alone.
func (l *Log) loadProducers(end int64) error {
	l.mu.producers = producer.State{}
	from := (*l.segs.Load())[0].Base()
	for i := len(l.mu.snapshots) - 1; i >= 0; i-- {
		at := l.mu.snapshots[i]
		if at > end {
			continue
		}
		raw, err := l.dir.fs.ReadFile(l.snapshotPath(at), producer.MaxSnapshotBytes)
		if err == nil {
			err = l.mu.producers.Load(raw, l.dir.nowMs(), l.dir.producerMaxAgeMs.Load())
		}
		if err == nil {
			from = at
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			l.dir.logger.Warn("a producer snapshot is not used", zap.String("dir", l.path), zap.Int64("offset", at), zap.Error(err))
		}
		l.dropSnapshots(func(o int64) bool { return o == at })
	}
	return l.replay(from, end)
}

// rebuildProducers is loadProducers after a truncation to end. The caller holds mu.
func (l *Log) rebuildProducers(end int64) error {
	if err := l.loadProducers(end); err != nil {
		return err
	}
	l.mu.producers.Replicated(min(l.pub.hw.Load(), end))
	return nil
}

// replay applies the batches of [from, end) to the producer state.
func (l *Log) replay(from, end int64) error {
	segs := *l.segs.Load()
	for i := floorSegment(segs, from); i < len(segs) && segs[i].Base() < end; i++ {
		s := segs[i]
		at, found, err := s.Find(from, s.Size())
		if err != nil || !found {
			if err != nil {
				return err
			}
			continue
		}
		err = s.Scan(at.Pos, s.Size(), func(sc *segment.Scanner) (bool, error) {
			if sc.Head().LastOffset() >= end {
				return false, nil
			}
			return true, l.applyProducer(s, sc.Head(), sc.Whole, false)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
