package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gregor-broker/gregor/groupcoord/memlog"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/gregor-broker/gregor/wire/invariants"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a machine that keeps the values of keys.
type store struct {
	values  map[string]string
	pending map[int64]map[string]string
	orders  []int64
	timer   Timer
}

// put writes values under a key each; answer gets how it ended.
type put struct {
	key    string
	values int
	size   int
	split  bool
	answer chan error
}

func (p *put) Refuse(err error) { p.answer <- err }

// get reads a key once what was written before is safe.
type get struct {
	key    string
	answer chan string
}

func (g *get) Refuse(err error) { g.answer <- err.Error() }

// notice is an event of the broker's own.
type notice struct{ seen chan struct{} }

func (n *notice) Refuse(error) {}

// fault makes the machine panic.
type fault struct{}

func (*fault) Refuse(error) {}

func (s *store) Handle(ev any, out *Out) {
	switch ev := ev.(type) {
	case *put:
		for i := range max(ev.values, 1) {
			out.Write([]byte(ev.key), append(make([]byte, ev.size), byte('a'+i%26)))
		}
		if ev.split {
			out.Split()
		}
		out.Then(func(err error, _ *Out) { ev.answer <- err })
	case *get:
		v := s.values[ev.key]
		out.Then(func(err error, _ *Out) {
			if err != nil {
				v = err.Error()
			}
			ev.answer <- v
		})
	case *notice:
		close(ev.seen)
	case *fault:
		panic("fault")
	case string:
		out.Write([]byte(ev), []byte("fired"))
	}
}

func (s *store) Apply(r *Record) {
	if r.ProducerID >= 0 {
		if s.pending[r.ProducerID] == nil {
			s.pending[r.ProducerID] = map[string]string{}
		}
		s.pending[r.ProducerID][string(r.Key)] = string(r.Value)
		return
	}
	s.orders = append(s.orders, r.Order)
	s.values[string(r.Key)] = string(r.Value)
}

func (s *store) EndTransaction(producerID int64, commit bool) {
	for k, v := range s.pending[producerID] {
		if commit {
			s.values[k] = v
		}
	}
	delete(s.pending, producerID)
}

func (s *store) Loaded(out *Out) {
	s.timer.Event = "timer"
	out.Set(&s.timer, time.Hour)
}

func (s *store) Unloaded(error) {}

// bench is a runtime over a log in memory.
type bench struct {
	*Runtime
	log *memlog.Log
	mu  sync.Mutex
	all []*store
}

func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{log: memlog.New()}
		b.Runtime = New(Options{
			Log: b.log, Clock: clock.System, Logger: zap.NewNop(), Patience: 5 * time.Second,
			Machine: func(int32) Machine {
				s := &store{values: map[string]string{}, pending: map[int64]map[string]string{}}
				b.mu.Lock()
				b.all = append(b.all, s)
				b.mu.Unlock()
				return s
			},
		})
		f(b)
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) put(p *put) chan error {
	p.answer = make(chan error, 2)
	b.Submit(0, p)
	return p.answer
}

func (b *bench) get(key string) chan string {
	g := &get{key, make(chan string, 2)}
	b.Submit(0, g)
	return g.answer
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	over, _ := clock.System.NewTimer(d)
	<-over
}

// What comes in while the shard is busy, or in one go, goes out in one batch.
func TestOneBatchPerTurn(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Elected(0, 3)
		s := (*b.active.Load())[0]
		synctest.Wait()
		s.mail.mu.Lock() // the shard cannot take what is put meanwhile
		var answers []chan error
		for range 100 {
			p := &put{key: "k", answer: make(chan error, 1)}
			s.mail.mu.events = append(s.mail.mu.events, p)
			answers = append(answers, p.answer)
		}
		s.mail.mu.Unlock()
		s.mail.poke()
		for _, a := range answers {
			if err := <-a; err != nil {
				t.Error(err)
			}
		}
		entries := b.log.Entries(0)
		if len(entries) != 1 || entries[0].LastOffset() != 99 || entries[0].LeaderEpoch() != 3 {
			t.Errorf("%d batches", len(entries))
		}
		if o := b.all[0].orders; !slices.IsSorted(o) || o[0] != 0 || o[99] != 99 {
			t.Errorf("orders %v", o)
		}
	})
}

func TestBatchesStayBelowTheLimit(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.log.SetMaxBatchBytes(1000)
		b.Elected(0, 1)
		synctest.Wait()
		if err := <-b.put(&put{key: "large", size: 1000}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("one record above the limit: %v", err)
		}
		if err := <-b.put(&put{key: "many", size: 100, values: 20}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("many that belong together: %v", err)
		}
		if err := <-b.put(&put{key: "large", size: 1000, split: true}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("one record above the limit, split: %v", err)
		}
		if len(b.all[0].orders) != 0 {
			t.Error("what was refused was applied")
		}
		if err := <-b.put(&put{key: "split", size: 100, values: 20, split: true}); err != nil {
			t.Error(err)
		}
		if n := len(b.log.Entries(0)); n < 3 {
			t.Errorf("%d batches", n)
		}
		for _, e := range b.log.Entries(0) {
			if e.Size() > 1000 {
				t.Errorf("a batch of %d bytes", e.Size())
			}
		}
	})
}

func TestRefusedBeforeApply(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Elected(0, 1)
		synctest.Wait()
		for _, c := range []struct {
			refusal error
			want    int16
		}{
			{kerr.NotEnoughReplicas, 15}, {kerr.NotLeaderForPartition, 16}, {kerr.KafkaStorageError, 16}, {errors.New("surprise"), 15},
		} {
			b.log.Refuse(c.refusal)
			if err := <-b.put(&put{key: "k"}); errcode.Of(err) != c.want {
				t.Errorf("%v became %v, want code %d", c.refusal, err, c.want)
			}
		}
		b.log.Refuse(nil)
		if v := <-b.get("k"); v != "" || len(b.all) != 1 {
			t.Errorf("the state has changed: %q, %d loads", v, len(b.all))
		}
	})
}

func TestWhatWaitsForTheHighWatermark(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Elected(0, 1)
		synctest.Wait()
		b.log.Hold()
		written, read := b.put(&put{key: "k"}), b.get("k")
		synctest.Wait()
		if len(written)+len(read) != 0 {
			t.Fatal("answered before the high watermark passed")
		}
		b.log.Release()
		if err := <-written; err != nil {
			t.Error(err)
		}
		if v := <-read; v != "a" {
			t.Error(v)
		}
		b.log.Hold()
		begin := clock.System.Now()
		if err := <-b.put(&put{key: "k"}); !errors.Is(err, ErrTimeout) || clock.System.Now().Sub(begin) != 5*time.Second {
			t.Errorf("%v after %v", err, clock.System.Now().Sub(begin))
		}
		pass(time.Hour) // the timer fires and writes although nothing is replicated
		b.log.Release()
		if v := <-b.get("timer"); v != "fired" {
			t.Errorf("timer: %q", v)
		}
	})
}

func TestStatesOfAShard(t *testing.T) {
	inBubble(t, func(b *bench) {
		if err := <-b.put(&put{}); !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("before election: %v", err)
		}
		b.log.FailReplay(errors.New("disk"))
		b.Elected(0, 1)
		if err := <-b.put(&put{}); !errors.Is(err, ErrLoading) {
			t.Errorf("while loading: %v", err)
		}
		n := &notice{make(chan struct{})}
		b.Notify(func() Event { return n })
		<-n.seen // kept until it has loaded, after a second try
		if err := <-b.put(&put{key: "k"}); err != nil {
			t.Error(err)
		}
		b.Elected(0, 4)
		if err := <-b.put(&put{key: "k"}); err != nil {
			t.Error(err)
		}
		entries := b.log.Entries(0)
		if len(b.all) != 2 || entries[len(entries)-1].LeaderEpoch() != 4 {
			t.Errorf("a later epoch: %d loads, written in epoch %d", len(b.all), entries[len(entries)-1].LeaderEpoch())
		}
		b.Resigned(0, 3)
		if err := <-b.put(&put{key: "k"}); err != nil {
			t.Errorf("resignation of an older epoch: %v", err)
		}
		b.Resigned(0, 5)
		if err := <-b.put(&put{}); !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("after resignation: %v", err)
		}
		b.Elected(0, 6)
		synctest.Wait()
		if v := <-b.get("k"); v != "a" {
			t.Errorf("loaded again: %q", v)
		}
		if p := b.Partitions(); len(p) != 1 {
			t.Errorf("partitions %v", p)
		}
	})
}

// When the internal topic is deleted its shards are told a moment later than they notice: that is no error. A disk that fails is.
func TestEndOfAPartitionIsNoError(t *testing.T) {
	for _, c := range []struct {
		err   error
		level zapcore.Level
	}{
		{kerr.UnknownTopicOrPartition, zap.InfoLevel}, {fmt.Errorf("append: %w", kerr.NotLeaderForPartition), zap.InfoLevel},
		{errors.New("disk"), zap.ErrorLevel}, {errFault, zap.ErrorLevel},
	} {
		core, logged := observer.New(zap.InfoLevel)
		synctest.Test(t, func(t *testing.T) {
			b := &bench{log: memlog.New()}
			b.Runtime = New(Options{
				Log: b.log, Clock: clock.System, Logger: zap.New(core), Patience: 5 * time.Second,
				Machine: func(int32) Machine {
					return &store{values: map[string]string{}, pending: map[int64]map[string]string{}}
				},
			})
			b.log.FailReplay(c.err)
			b.Elected(0, 1)
			synctest.Wait()
			b.Resigned(0, 2)
			if err := b.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if lines := logged.FilterMessageSnippet("cannot load").All(); len(lines) != 1 || lines[0].Level != c.level {
			t.Errorf("%v: %+v", c.err, lines)
		}
	}
}

// A fault of the machine costs the shard its state, not the broker its life. Builds with invariants let it through.
func TestFaultReloads(t *testing.T) {
	if invariants.Enabled {
		t.Skip("this build lets faults through")
	}
	inBubble(t, func(b *bench) {
		b.Elected(0, 1)
		synctest.Wait()
		if err := <-b.put(&put{key: "k"}); err != nil {
			t.Error(err)
		}
		b.Submit(0, &fault{})
		synctest.Wait()
		if v := <-b.get("k"); v != "a" || len(b.all) != 2 {
			t.Errorf("after the fault: %q, %d loads", v, len(b.all))
		}
	})
}

func TestMailboxIsBounded(t *testing.T) {
	var filled atomic.Int32
	m := newMailbox(&filled)
	m.open()
	p := &put{answer: make(chan error, maxQueued+2)}
	for range maxQueued {
		if err := m.push(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.push(p); !errors.Is(err, ErrLoading) {
		t.Errorf("full: %v", err)
	}
	if err := m.notify(p); err != nil {
		t.Errorf("a notice knows no limit: %v", err)
	}
	if n := len(m.take(nil)); n != maxTurn+1 {
		t.Errorf("took %d", n)
	}
	if n := filled.Load(); n != 1 {
		t.Errorf("%d mailboxes hold requests, want this one", n)
	}
	m.close()
	if n := filled.Load(); n != 0 {
		t.Errorf("closed, and %d mailboxes hold requests", n)
	}
	if n := len(p.answer); n != maxQueued-maxTurn {
		t.Errorf("%d were refused", n)
	}
	if m.push(p) == nil || m.notify(p) == nil {
		t.Error("closed, but takes more")
	}
}

// TestFilledMailboxesAreCounted: each once, from its first request until all are taken or refused.
func TestFilledMailboxesAreCounted(t *testing.T) {
	var filled atomic.Int32
	a, b := newMailbox(&filled), newMailbox(&filled)
	p := &put{answer: make(chan error, 10)}
	for _, step := range []struct {
		name string
		do   func()
		want int32
	}{
		{"not open", func() { _ = a.push(p) }, 0},
		{"open", func() { a.open(); b.open() }, 0},
		{"two requests", func() { _, _ = a.push(p), a.push(p) }, 1},
		{"to another too", func() { _ = b.push(p) }, 2},
		{"taken", func() { a.take(nil) }, 1},
		{"nothing more to take", func() { a.take(nil) }, 1},
		{"a notice", func() { _ = a.notify(p); a.take(nil) }, 1},
		{"refused", func() { b.shut(ErrLoading) }, 0},
		{"closed", func() { a.close(); b.close() }, 0},
	} {
		if step.do(); filled.Load() != step.want {
			t.Errorf("%s: %d are counted, want %d", step.name, filled.Load(), step.want)
		}
	}
}

func TestReplayKeepsTransactionsApart(t *testing.T) {
	inBubble(t, func(b *bench) {
		offset := int64(0)
		add := func(e record.Batch) {
			e.SetBaseOffset(offset)
			offset = e.NextOffset()
			b.log.Put(0, record.Entry(e))
		}
		batch := func(o record.BatchOptions, key, value string) record.Batch {
			e, err := record.Build(o, []record.Record{{Key: []byte(key), Value: []byte(value)}})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		add(batch(record.BatchOptions{ProducerID: 1, Transactional: true}, "committed", "1"))
		add(batch(record.BatchOptions{ProducerID: 2, Transactional: true}, "aborted", "1"))
		add(batch(record.BatchOptions{}.NoProducer(), "plain", "1"))
		add(record.BuildMarker(2, 0, record.Abort, 0, 0))
		add(batch(record.BatchOptions{ProducerID: 2, Transactional: true}, "open", "1"))
		add(record.BuildMarker(1, 0, record.Commit, 0, 0))
		b.Elected(0, 1)
		synctest.Wait()
		for key, want := range map[string]string{"committed": "1", "aborted": "", "plain": "1", "open": ""} {
			if got := <-b.get(key); got != want {
				t.Errorf("%s: %q", key, got)
			}
		}
		if err := <-b.put(&put{key: "next"}); err != nil {
			t.Error(err)
		}
		if o := b.all[0].orders; o[len(o)-1] != offset {
			t.Errorf("the next record's order is %d, want %d", o[len(o)-1], offset)
		}
	})
}
