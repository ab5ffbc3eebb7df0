package runtime

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// core is a loaded shard without its goroutine: the machine, what the turn in hand has produced, and what waits for the high
// watermark. Owned by the shard's goroutine.
type core struct {
	partition int32
	epoch     int32
	log       Log
	codec     record.Codec
	patience  time.Duration // how long an answer waits for the high watermark
	machine   Machine

	timers  timers
	out     Out
	batch   []record.Record // of this turn, not yet appended; slices of out's arena
	bytes   int             // at most what batch takes
	fresh   []Done          // of this turn: they wait for the end of its batch
	waiting fifo
	written int64 // offset after the last record that was replayed or appended
	refusal error // of this turn: why nothing can be appended
	checked bool  // refusal is known
	failed  error // an append failed after Apply
	begun   int   // events of this turn that were taken up
	record  Record
}

// parked is a Done that waits for the high watermark to reach end.
type parked struct {
	end      int64
	deadline time.Duration
	done     Done
}

func newCore(partition int32, o *Options, m Machine) *core {
	c := &core{partition: partition, log: o.Log, codec: o.Codec, patience: o.Patience, machine: m}
	c.out.timers = &c.timers
	return c
}

// turn handles events and due timers, appends what they wrote, and lets those go on whose writes are replicated. It returns
// why the shard must be loaded again, nil if it need not.
func (c *core) turn(now Time, leaderEpoch int32, events []Event) error {
	c.epoch, c.checked, c.begun = leaderEpoch, false, 0
	c.out.LeaderEpoch = leaderEpoch
	for _, ev := range events {
		c.begun++
		if c.failed != nil {
			ev.Refuse(ErrNotCoordinator)
			continue
		}
		c.handle(now, ev)
	}
	for c.failed == nil {
		t := c.timers.next(now.Mono)
		if t == nil {
			break
		}
		c.handle(now, t.Event)
	}
	c.flush(now)
	c.release(now)
	c.giveUp(now)
	return c.failed
}

func (c *core) handle(now Time, ev any) {
	c.out.begin(now)
	c.machine.Handle(ev, &c.out)
	c.settle(now)
}

// loaded tells the machine that the replay is over.
func (c *core) loaded(now Time, leaderEpoch int32) error {
	c.epoch, c.checked = leaderEpoch, false
	c.out.LeaderEpoch = leaderEpoch
	c.out.begin(now)
	c.machine.Loaded(&c.out)
	c.settle(now)
	c.flush(now)
	c.release(now)
	return c.failed
}

// settle takes what one call of the machine has put into out.
func (c *core) settle(now Time) {
	for {
		done := c.out.done
		if len(c.out.records) > 0 || c.out.end != nil {
			if err := c.admit(now); err != nil {
				c.out.begin(now)
				if done == nil {
					return
				}
				done(err, &c.out)
				continue
			}
		}
		if done != nil {
			c.fresh = append(c.fresh, done)
		}
		return
	}
}

// admit applies the records in out and adds them to the batch, or says why they are refused.
func (c *core) admit(now Time) error {
	if c.out.txn != nil || c.out.end != nil {
		return c.admitTxn(now)
	}
	if err := c.refused(); err != nil {
		return err
	}
	limit := c.log.MaxBatchBytes(c.partition)
	total, largest := record.HeaderSize, 0
	for _, s := range c.out.records {
		total += recordBytes(s)
		largest = max(largest, recordBytes(s))
	}
	if total > limit && !c.out.split || record.HeaderSize+largest > limit {
		return ErrTooLarge
	}
	if c.bytes+total > limit && !c.out.split {
		c.append() // the records of one call stay together
	}
	wallMs := now.WallMs()
	for _, s := range c.out.records {
		size := recordBytes(s)
		if len(c.batch) > 0 && record.HeaderSize+c.bytes+size > limit {
			c.append()
		}
		if c.failed != nil {
			return ErrNotCoordinator
		}
		key, value := c.out.cut(s)
		c.record = Record{Key: key, Value: value, Order: c.written + int64(len(c.batch)), ProducerID: -1}
		c.machine.Apply(&c.record)
		c.batch = append(c.batch, record.Record{Timestamp: wallMs, Key: key, Value: value})
		c.bytes += size
	}
	return nil
}

// recordBytes is at most what a record takes in a batch: attributes, and six numbers of variable length.
func recordBytes(s span) int { return s.keyLen + max(s.valueLen, 0) + 36 }

// refused asks the log once per turn whether it takes appends.
func (c *core) refused() error {
	if c.failed != nil {
		return ErrNotCoordinator
	}
	if !c.checked {
		c.checked, c.refusal = true, nil
		if err := c.log.CanAppend(c.partition, c.epoch); err != nil {
			c.refusal = refusal(err)
		}
	}
	return c.refusal
}

// refusal is what a client is told when the log says err. After GroupMetadataManager.appendGroupMetadataErrorToResponseError.
func refusal(err error) error {
	switch errcode.Of(err) {
	case kerr.NotLeaderForPartition.Code, kerr.KafkaStorageError.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code:
		return errors.Join(ErrNotCoordinator, err)
	}
	return errors.Join(ErrUnavailable, err)
}

// append writes the batch. The arena stays: records that are not applied yet may lie in it.
func (c *core) append() {
	if len(c.batch) == 0 || c.failed != nil {
		return
	}
	var end int64
	b, err := record.Build(record.BatchOptions{LeaderEpoch: c.epoch, Codec: c.codec}.NoProducer(), c.batch)
	if err == nil {
		end, err = c.log.Append(c.partition, c.epoch, b)
	}
	if err != nil {
		c.failed = fmt.Errorf("append %d records: %w", len(c.batch), err)
	} else {
		c.written = end
	}
	clear(c.batch)
	c.batch, c.bytes = c.batch[:0], 0
}

// flush appends the turn's batch and parks the turn's answers on its end.
func (c *core) flush(now Time) {
	c.append()
	if c.failed != nil {
		return
	}
	for _, done := range c.fresh {
		c.waiting.push(parked{c.written, now.Mono + c.patience, done})
	}
	clear(c.fresh)
	c.fresh = c.fresh[:0]
	c.out.arena = reuse(c.out.arena)
}

// reuse keeps a buffer for the next turn unless it has grown beyond what turns usually need.
func reuse(b []byte) []byte {
	const keep = 256 << 10
	if cap(b) > keep {
		return nil
	}
	return b[:0]
}

// release lets those go on whose writes are below the high watermark. They may write again.
func (c *core) release(now Time) {
	for c.failed == nil && c.waiting.len() > 0 {
		hw := c.log.HighWatermark(c.partition)
		if c.waiting.first().end > hw {
			return
		}
		for c.failed == nil && c.waiting.len() > 0 && c.waiting.first().end <= hw {
			c.conclude(now, nil)
		}
		c.flush(now)
	}
}

// giveUp tells those whose time is over that their writes were not replicated in time. The writes stay.
func (c *core) giveUp(now Time) {
	for c.failed == nil && c.waiting.len() > 0 && c.waiting.first().deadline <= now.Mono {
		c.conclude(now, ErrTimeout)
		c.flush(now)
	}
}

func (c *core) conclude(now Time, err error) {
	done := c.waiting.pop().done
	c.out.begin(now)
	done(err, &c.out)
	c.settle(now)
}

// deadline is when the shard must look again without being asked.
func (c *core) deadline() (time.Duration, bool) {
	at, ok := c.timers.earliest()
	if c.waiting.len() > 0 {
		if d := c.waiting.first().deadline; !ok || d < at {
			return d, true
		}
	}
	return at, ok
}

// drop ends the life of this state: everyone who waits is told err.
func (c *core) drop(now Time, err error) {
	c.out.dead = true
	for _, done := range c.fresh {
		c.out.begin(now)
		done(err, &c.out)
	}
	for c.waiting.len() > 0 {
		c.out.begin(now)
		c.waiting.pop().done(err, &c.out)
	}
	c.machine.Unloaded(err)
}

// fifo is a queue of parked answers: their ends and their deadlines both rise.
type fifo struct {
	items []parked
	head  int
}

func (f *fifo) len() int       { return len(f.items) - f.head }
func (f *fifo) first() *parked { return &f.items[f.head] }
func (f *fifo) push(p parked)  { f.items = append(f.items, p) }

func (f *fifo) pop() parked {
	p := f.items[f.head]
	f.items[f.head] = parked{}
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	} else if f.head > 1024 && f.head > len(f.items)/2 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return p
}
