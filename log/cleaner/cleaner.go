package cleaner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Logs is the logs that there are; *log.Manager is it.
type Logs interface {
	All() []*log.Log
	Get(log.TopicPartition) *log.Log
	Dirs() []log.DirInfo
}

// Options configure a Cleaner. Zero values mean the defaults named here.
type Options struct {
	Logs   Logs
	FS     vfs.FS      // that of the logs; the operating system's
	Clock  clock.Clock // clock.System
	Logger *zap.Logger // none

	Settings
}

// Settings are what Reconfigure changes. Zero values mean the defaults named here.
type Settings struct {
	Backoff     time.Duration // between looks when there is nothing to clean (log.cleaner.backoff.ms); 15 s
	DedupeBytes int64         // memory for the keys of a round (log.cleaner.dedupe.buffer.size); 128 MiB
	LoadFactor  float64       // how much of it is used (log.cleaner.io.buffer.load.factor); 0.9
	// BytesPerSecond bounds what is read and written (log.cleaner.io.max.bytes.per.second); ≤ 0: nothing does.
	BytesPerSecond float64
}

func (s Settings) withDefaults() *Settings {
	if s.Backoff <= 0 {
		s.Backoff = 15 * time.Second
	}
	if s.DedupeBytes <= 0 {
		s.DedupeBytes = 128 << 20
	}
	if s.LoadFactor <= 0 {
		s.LoadFactor = 0.9
	}
	return &s
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// failurePause is how long a log is left alone after it could not be cleaned.
const failurePause = 10 * time.Minute

// Cleaner compacts logs on a goroutine of its own.
type Cleaner struct {
	o        Options
	settings atomic.Pointer[Settings] // that the next round goes by
	changed  chan struct{}            // has room for one
	cancel   context.CancelFunc
	ended    chan struct{}

	// The goroutine's own.
	reader reader
	pace   pace
	clean  map[*log.Log]int64   // up to which offset a log is clean
	failed map[*log.Log]failure // that are left alone
	seen   Stats

	stats atomic.Pointer[Stats] // seen, as it was last
}

// failure is why a log is not cleaned: it could not be.
type failure struct {
	until time.Duration
	bytes int64 // that are dirty
}

// Start begins to clean. Close must be called before the logs are closed.
func Start(o Options) (*Cleaner, error) {
	c, err := newCleaner(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go c.loop(ctx)
	return c, nil
}

// newCleaner reads the checkpoints. A file that cannot be read means, as in Kafka, that all is dirty.
func newCleaner(o Options) (*Cleaner, error) {
	c := &Cleaner{
		o: o.withDefaults(), changed: make(chan struct{}, 1), ended: make(chan struct{}), clean: map[*log.Log]int64{},
		failed: map[*log.Log]failure{},
	}
	c.settings.Store(o.Settings.withDefaults())
	c.pace = pace{clock: c.o.Clock, settings: c.settings.Load, changed: c.changed, due: c.o.Clock.Monotonic()}
	c.seen.LookedAt = c.o.Clock.Monotonic()
	c.publish()
	if o.Logs == nil {
		return nil, errors.New("the cleaner needs logs")
	}
	onDisk := map[string]checkpoint.Offsets{}
	for _, d := range c.o.Logs.Dirs() {
		offsets, err := checkpoint.ReadOffsets(c.o.FS, d.Path, checkpoint.CleanerOffsets)
		if err != nil {
			c.o.Logger.Warn("what was cleaned before is not known, all is taken for dirty", zap.String("dir", d.Path), zap.Error(err))
		}
		onDisk[d.Path] = offsets
	}
	for _, l := range c.o.Logs.All() {
		if offset, ok := onDisk[logDir(l)][l.TopicPartition()]; ok {
			c.clean[l] = offset
		}
	}
	return c, nil
}

// Reconfigure changes the settings: the next round goes by them, and a rest ends.
func (c *Cleaner) Reconfigure(s Settings) {
	c.settings.Store(s.withDefaults())
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Close stops a round under way, which changes nothing more, and waits for the goroutine.
func (c *Cleaner) Close() error {
	c.cancel()
	<-c.ended
	return nil
}

func (c *Cleaner) loop(ctx context.Context) {
	defer close(c.ended)
	for ctx.Err() == nil {
		if c.once(ctx) {
			continue
		}
		due, timer := c.o.Clock.NewTimer(c.settings.Load().Backoff)
		select {
		case <-due:
		case <-c.changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// once cleans the dirtiest log, and says whether there was one.
func (c *Cleaner) once(ctx context.Context) bool {
	nowMs := c.o.Clock.Now().UnixMilli()
	c.forget()
	c.seen.LookedAt = c.o.Clock.Monotonic()
	defer c.publish()
	dirtiest, ok := c.dirtiest(nowMs)
	c.publish() // a round may take long
	if !ok {
		return false
	}
	began, settings := c.o.Clock.Monotonic(), c.settings.Load()
	r := round{
		candidate: &dirtiest, ctx: ctx, reader: &c.reader, pace: &c.pace, nowMs: nowMs,
		offsets: newOffsetMap(settings.DedupeBytes, settings.LoadFactor),
	}
	to, err := r.run()
	if err == nil && to == dirtiest.firstDirty {
		err = fmt.Errorf("the keys of one batch do not fit into %d bytes (log.cleaner.dedupe.buffer.size)", settings.DedupeBytes)
	}
	fields := identify(dirtiest.log)
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, errAborted), err != nil && c.o.Logs.Get(dirtiest.log.TopicPartition()) != dirtiest.log:
		c.o.Logger.Info("cleaning was given up: the log changed", append(fields, zap.Error(err))...)
		return false
	case err != nil:
		c.o.Logger.Error("a log could not be cleaned and is left alone for a while", append(fields, zap.Error(err))...)
		c.failed[dirtiest.log] = failure{c.o.Clock.Monotonic() + failurePause, dirtiest.dirtyBytes}
		return true
	}
	c.clean[dirtiest.log] = to
	c.save(logDir(dirtiest.log))
	s := &r.stats
	took := c.o.Clock.Monotonic() - began
	c.seen.cleaned(&r, took)
	c.o.Logger.Info("a log was cleaned", append(fields,
		zap.Int64("from", dirtiest.firstDirty), zap.Int64("to", to), zap.Int("keys", r.offsets.used),
		zap.Int64("bytes_before", s.bytesRead), zap.Int64("bytes_after", s.bytesWritten),
		zap.Int64("records_before", s.recordsRead), zap.Int64("records_after", s.recordsWritten),
		zap.Int("segments_before", s.segmentsRead), zap.Int("segments_after", s.segments),
		zap.Duration("dur", took))...)
	return true
}

func identify(l *log.Log) []zap.Field {
	tp := l.TopicPartition()
	return []zap.Field{zap.String("topic", tp.Topic), zap.Int32("partition", tp.Partition)}
}

// forget drops what is known of logs that are gone; another of the same name begins anew.
func (c *Cleaner) forget() {
	dirs := map[string]bool{}
	for l := range c.clean {
		if c.o.Logs.Get(l.TopicPartition()) != l {
			delete(c.clean, l)
			dirs[logDir(l)] = true
		}
	}
	for l := range c.failed {
		if c.o.Logs.Get(l.TopicPartition()) != l || !l.Config().Compact {
			delete(c.failed, l)
		}
	}
	for dir := range dirs {
		c.save(dir)
	}
}

// dirtiest picks the log to clean.
func (c *Cleaner) dirtiest(nowMs int64) (best candidate, found bool) {
	ratio, delayMs := 0.0, int64(0)
	for _, l := range c.o.Logs.All() {
		if f, failed := c.failed[l]; !l.Config().Compact || failed && f.until > c.o.Clock.Monotonic() {
			continue
		}
		delete(c.failed, l)
		from, ok := c.clean[l]
		if !ok {
			from = -1
		}
		next, ok, err := assess(l, from, nowMs)
		if err != nil {
			c.o.Logger.Error("a log could not be looked at for cleaning and is left alone for a while", append(identify(l), zap.Error(err))...)
			c.failed[l] = failure{c.o.Clock.Monotonic() + failurePause, next.dirtyBytes}
			continue
		}
		ratio, delayMs = max(ratio, next.ratio), max(delayMs, next.delayMs)
		if ok && (!found || next.ratio > best.ratio) {
			best, found = next, true
		}
	}
	c.seen.DirtyPercent, c.seen.Delay = int(100*ratio), time.Duration(delayMs)*time.Millisecond
	return best, found
}

// save writes the checkpoint of a directory.
func (c *Cleaner) save(dir string) {
	offsets := checkpoint.Offsets{}
	for l, offset := range c.clean {
		if logDir(l) == dir {
			offsets[l.TopicPartition()] = offset
		}
	}
	if err := checkpoint.WriteOffsets(c.o.FS, dir, checkpoint.CleanerOffsets, offsets); err != nil {
		c.o.Logger.Error("what was cleaned could not be noted; after a restart it is cleaned again", zap.String("dir", dir), zap.Error(err))
	}
}

// logDir is the log directory that a log is in.
func logDir(l *log.Log) string { return path.Dir(l.Dir()) }
