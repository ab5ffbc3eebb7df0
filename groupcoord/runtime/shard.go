package runtime

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/invariants"
)

// errLeaving ends a replay of a shard that is no longer wanted.
var errLeaving = errors.New("the shard is leaving")

// errFault says that the machine has panicked.
var errFault = errors.New("a fault in the coordinator")

// shard is one partition and its goroutine, from election to resignation.
type shard struct {
	partition int32
	epoch     atomic.Int32
	runtime   *Runtime
	log       *zap.Logger
	mail      *mailbox
	before    *shard        // the shard of an earlier term, which must have ended first
	stop      chan struct{} // closed when the shard shall leave
	ended     chan struct{} // closed when its goroutine has ended
	timer     clock.Timer
	ticks     <-chan time.Time
}

func newShard(p, epoch int32, r *Runtime, before *shard) *shard {
	s := &shard{
		partition: p, runtime: r, mail: newMailbox(r.o.Waiting), before: before,
		log:  r.o.Logger.With(zap.Int32("partition", p)),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	s.epoch.Store(epoch)
	return s
}

// leaving reports whether leave was called. The caller holds the runtime's lock.
func (s *shard) leaving() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// leave makes the goroutine end. The caller holds the runtime's lock.
func (s *shard) leave() {
	if !s.leaving() {
		close(s.stop)
	}
}

// raise notes a later leader epoch. The caller holds the runtime's lock.
func (s *shard) raise(epoch int32) {
	if epoch > s.epoch.Load() {
		s.epoch.Store(epoch)
	}
}

func (s *shard) now() Time {
	return Time{Wall: s.runtime.o.Clock.Now(), Mono: s.runtime.o.Clock.Monotonic()}
}

// run is the shard's goroutine: load, serve, and again after a failed append.
func (s *shard) run() {
	defer close(s.ended)
	if s.before != nil {
		<-s.before.ended
		s.before = nil
	}
	cancel := s.runtime.o.Log.Watch(s.partition, func(int64) { s.mail.poke() })
	defer cancel()
	s.ticks, s.timer = s.runtime.o.Clock.NewTimer(time.Hour)
	defer s.timer.Stop()
	for failures := 0; s.pause(backoff(failures)); failures++ {
		c, err := s.load()
		if err != nil {
			if !errors.Is(err, errLeaving) {
				s.log.Log(severity(err), "cannot load the coordinator's partition, will try again", zap.Error(err))
			}
			continue
		}
		s.mail.open()
		loaded := c.written
		err = s.serve(c)
		if c.written > loaded {
			failures = -1
		}
		if err != nil {
			s.log.Log(severity(err), "the coordinator drops its state and reads its partition again", zap.Error(err))
			s.mail.shut(ErrLoading)
		}
		c.drop(s.now(), ErrNotCoordinator)
	}
}

// severity is how bad an error of the log is: that the leadership or the whole topic is gone, of which the shard has not been
// told yet, is in order.
func severity(err error) zapcore.Level {
	for _, ended := range []error{kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch} {
		if errors.Is(err, ended) {
			return zap.InfoLevel
		}
	}
	return zap.ErrorLevel
}

// backoff is how long to wait before a replay after so many failures without a success: a disk that takes no appends must not
// make the shard read all the time.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(100*time.Millisecond<<min(failures-1, 10), 10*time.Second)
}

// pause waits; false when the shard shall leave.
func (s *shard) pause(d time.Duration) bool {
	if d == 0 {
		return !s.leaving()
	}
	s.timer.Reset(d)
	select {
	case <-s.stop:
		return false
	case <-s.ticks:
		return true
	}
}

// load replays the partition into a new machine.
func (s *shard) load() (*core, error) {
	select {
	case s.runtime.loads <- struct{}{}:
		defer func() { <-s.runtime.loads }()
	case <-s.stop:
		return nil, errLeaving
	}
	o := &s.runtime.o
	c := newCore(s.partition, o, o.Machine(s.partition))
	started, records := o.Clock.Monotonic(), 0
	err := o.Log.Replay(s.partition, func(e record.Entry) error {
		if s.leaving() {
			return errLeaving
		}
		n, err := c.replay(e)
		records += n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if err := c.loaded(s.now(), s.epoch.Load()); err != nil {
		return nil, err
	}
	level := zap.InfoLevel
	if records == 0 {
		level = zap.DebugLevel // as all 50 are at a first start
	}
	s.log.Log(level, "coordinator partition loaded", zap.Int32("leader_epoch", s.epoch.Load()), zap.Int("records", records),
		zap.Int64("offset", c.written), zap.Duration("dur", o.Clock.Monotonic()-started))
	return c, nil
}

// replay applies one entry of the log and returns the number of its records.
func (c *core) replay(e record.Entry) (n int, err error) {
	defer func() { c.written = e.NextOffset() }()
	producer := int64(-1)
	if e.IsTransactional() {
		producer = e.ProducerID()
	}
	for r, err := range e.Records(record.Limits{}) {
		if err != nil {
			return n, err
		}
		n++
		if !e.IsControl() {
			c.record = Record{Key: r.Key, Value: r.Value, Order: r.Offset, ProducerID: producer}
			c.machine.Apply(&c.record)
			continue
		}
		kind, err := record.ParseControl(r.Key)
		if err != nil {
			return n, err
		}
		if kind == record.Commit || kind == record.Abort {
			c.machine.EndTransaction(e.ProducerID(), kind == record.Commit)
		}
	}
	return n, nil
}

// serve takes turns until the shard shall leave (nil) or must load again (why).
func (s *shard) serve(c *core) error {
	var events []Event
	for {
		if s.leaving() {
			return nil
		}
		events = s.mail.take(events[:0])
		err := s.turn(c, events)
		clear(events)
		if err != nil {
			return err
		}
		s.wait(c)
	}
}

// turn is a turn of c. A fault of the machine fails the shard, which then loads again, and not the broker; test builds let
// it through.
func (s *shard) turn(c *core, events []Event) (err error) {
	if !invariants.Enabled {
		defer func() {
			if fault := recover(); fault != nil {
				err = fmt.Errorf("%w: %v\n%s", errFault, fault, debug.Stack())
				c.failed = err
				for _, ev := range events[c.begun:] {
					ev.Refuse(ErrNotCoordinator)
				}
			}
		}()
	}
	return c.turn(s.now(), s.epoch.Load(), events)
}

// wait returns when there is something to do.
func (s *shard) wait(c *core) {
	due, ok := c.deadline()
	if ok {
		s.timer.Reset(max(due-s.runtime.o.Clock.Monotonic(), 0))
	} else {
		s.timer.Stop()
	}
	select {
	case <-s.stop:
	case <-s.mail.wake:
	case <-s.ticks:
	}
}
