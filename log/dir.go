package log

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/segment"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

// dir is one log directory: what its logs share. Safe for concurrent use.
type dir struct {
	path   string
	fs     vfs.FS
	files  *segment.Files
	clock  clock.Clock
	logger *zap.Logger
	lock   io.Closer
	sched  *scheduler
	syncer *syncer

	// failed is set when something may not be on disk as it should: the clean-shutdown marker is withheld.
	failed atomic.Bool
	// retired is set when nothing is to be created here any more.
	retired atomic.Bool
	// What the checkpoints have to be written for.
	recoveryChanged, hwChanged, startChanged flag

	producerMaxAgeMs atomic.Int64
	verifyTxns       func() bool
	flushed          func(took time.Duration) // of one segment

	troubles troubles

	mu struct {
		sync.Mutex
		logs map[TopicPartition]*Log
	}
	checkpointing sync.Mutex // held while checkpoint files are written
}

// flag is a Bool that is often set and seldom taken.
type flag struct{ b atomic.Bool }

func (f *flag) set() {
	if !f.b.Load() {
		f.b.Store(true)
	}
}

func (f *flag) take() bool { return f.b.Swap(false) }

func (d *dir) nowMs() int64 { return d.clock.Now().UnixMilli() }

// delay is a time in ms from a topic's configuration.
func (d *dir) delay(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), int64(time.Duration(1<<62)/time.Millisecond))) * time.Millisecond
}

// all lists the directory's logs.
func (d *dir) all() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	logs := make([]*Log, 0, len(d.mu.logs))
	for _, l := range d.mu.logs {
		logs = append(logs, l)
	}
	return logs
}

func (d *dir) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.logs)
}

func (d *dir) add(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.logs[l.tp] = l
}

func (d *dir) remove(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.logs, l.tp)
}

// flushLater flushes l after ms, which is its flush.ms.
func (d *dir) flushLater(l *Log, ms int64) {
	d.sched.after(d.delay(ms), func() { d.syncer.later(l) })
}

// checkpoints are the offset checkpoints with what changes them and what they keep of a log; ok is false where the log
// has no line.
func (d *dir) checkpoints() []offsetCheckpoint {
	return []offsetCheckpoint{
		{checkpoint.RecoveryPoints, &d.recoveryChanged, func(l *Log) (int64, bool) { return l.recovered.Load(), true }},
		{checkpoint.HighWatermarks, &d.hwChanged, func(l *Log) (int64, bool) { return l.pub.hw.Load(), true }},
		{checkpoint.LogStartOffsets, &d.startChanged, func(l *Log) (int64, bool) {
			start := l.pub.start.Load()
			return start, start > (*l.segs.Load())[0].Base() || l.dropping.Load()
		}},
	}
}

type offsetCheckpoint struct {
	name    string
	changed *flag
	offset  func(*Log) (int64, bool)
}

// Places of the checkpoints in the list.
const (
	recoveryCheckpoint = iota
	hwCheckpoint
	startCheckpoint
)

// checkpoint writes one of the checkpoints if it changed, or always.
func (d *dir) checkpoint(which int, always bool) error {
	d.checkpointing.Lock()
	defer d.checkpointing.Unlock()
	c := d.checkpoints()[which]
	if !c.changed.take() && !always {
		return nil
	}
	offsets := checkpoint.Offsets{}
	for _, l := range d.all() {
		if o, ok := c.offset(l); ok {
			offsets[l.tp] = o
		}
	}
	if err := checkpoint.WriteOffsets(d.fs, d.path, c.name, offsets); err != nil {
		c.changed.set()
		return fmt.Errorf("%s/%s: %w", d.path, c.name, err)
	}
	return nil
}

// checkpointAll writes all of them, changed or not.
func (d *dir) checkpointAll() error {
	var errs []error
	for which := range d.checkpoints() {
		errs = append(errs, d.checkpoint(which, true))
	}
	return errors.Join(errs...)
}

// troubles keeps failures of the file system from filling the log: a full disk fails every append.
type troubles struct {
	mu struct {
		sync.Mutex
		quietUntil time.Duration // on the monotonic clock
		leftOut    int           // failures since the last line
	}
}

// troublePause is how long a directory says nothing more after a failure that it logged.
const troublePause = 10 * time.Second

// trouble logs a failed call of the file system, unless another one was logged a moment ago.
func (d *dir) trouble(tp TopicPartition, doing string, err error) {
	m := &d.troubles.mu
	m.Lock()
	defer m.Unlock()
	now := d.clock.Monotonic()
	if now < m.quietUntil {
		m.leftOut++
		return
	}
	d.logger.Error("a log could not be written or read", zap.String("dir", d.path), zap.String("topic", tp.Topic),
		zap.Int32("partition", tp.Partition), zap.String("doing", doing), zap.Int("left_out", m.leftOut), zap.Error(err))
	m.quietUntil, m.leftOut = now+troublePause, 0
}

// start begins the periodic work.
func (d *dir) start(o *Options) {
	report := func(what string, f func() error) func() {
		return func() {
			if err := f(); err != nil {
				d.logger.Error(what, zap.String("dir", d.path), zap.Error(err))
			}
		}
	}
	d.sched.every(o.InitialTaskDelay, o.RetentionCheckInterval, report("retention", d.retention))
	d.sched.every(o.InitialTaskDelay, o.FlushCheckpointInterval,
		report("recovery points could not be written", func() error { return d.checkpoint(recoveryCheckpoint, false) }))
	d.sched.every(o.HWCheckpointInterval, o.HWCheckpointInterval,
		report("high watermarks could not be written", func() error { return d.checkpoint(hwCheckpoint, false) }))
	d.sched.every(o.InitialTaskDelay, o.StartOffsetCheckpointInterval,
		report("log start offsets could not be written", func() error { return d.checkpoint(startCheckpoint, false) }))
	d.sched.every(o.ProducerIDCheckInterval, o.ProducerIDCheckInterval, d.expireProducers)
}

// retention lets every log drop what is too old.
func (d *dir) retention() error {
	var errs []error
	for _, l := range d.all() {
		if _, err := l.DeleteOldSegments(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d *dir) expireProducers() {
	now := d.nowMs()
	for _, l := range d.all() {
		l.mu.Lock()
		l.mu.producers.Expire(now, d.producerMaxAgeMs.Load())
		l.mu.Unlock()
	}
}
