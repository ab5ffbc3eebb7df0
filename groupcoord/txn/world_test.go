package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/memlog"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
)

var noLimits record.Limits

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a coordinator with a log in memory and leaders that do as they are told.
type world struct {
	t       testing.TB
	c       *Coordinator
	log     *memlog.Log
	leaders *leaders
	level   int16 // of transaction.version
	kafka4  bool
	epoch   int32

	mu     sync.Mutex
	lastID int64
	idErr  error
}

// inWorld runs f in a bubble, with a coordinator that has loaded its only partition.
func inWorld(t *testing.T, level int16, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, level)
		w.c.Elected(0, 0)
		synctest.Wait()
		f(w)
		w.close()
	})
}

func newWorld(t testing.TB, level int16) *world {
	w := &world{t: t, log: memlog.New(), leaders: newLeaders(), level: level, lastID: 999}
	w.open()
	return w
}

func (w *world) open() {
	settings := DefaultSettings()
	settings.Kafka4 = w.level >= 0
	w.c = New(Options{
		Log: w.log, Transport: w.leaders, Clock: clock.System, Logger: zap.NewNop(), Config: settings,
		Partitions: func() int32 { return 1 }, Version: func() int16 { return w.level },
		NewProducerID: func(done func(int64, error)) {
			w.mu.Lock()
			w.lastID++
			id, err := w.lastID, w.idErr
			w.mu.Unlock()
			done(id, err)
		},
	})
}

func (w *world) close() {
	if err := w.c.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
}

// move has the coordinator lose the partition and get it back in the next epoch.
func (w *world) move() {
	w.c.Resigned(0, w.epoch+1)
	w.epoch += 2
	w.c.Elected(0, w.epoch)
	synctest.Wait()
}

// seed puts a state into the log, as if it had been written before.
func (w *world) seed(id string, v schema.TxnValue) {
	b, err := record.Build(record.BatchOptions{}.NoProducer(), []record.Record{{Key: schema.AppendTxnKey(nil, id), Value: v.Append(nil, 1)}})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.log.Append(0, 0, b); err != nil {
		w.t.Fatal(err)
	}
}

// values returns every state of an id that the log holds, nil for a tombstone.
func (w *world) values(id string) (list []*schema.TxnValue) {
	for _, e := range w.log.Entries(0) {
		for r, err := range e.Records(record.Limits{}) {
			if err != nil {
				w.t.Fatal(err)
			}
			key, err := schema.DecodeTxnKey(r.Key)
			if err != nil || string(key) != id {
				continue
			}
			var v *schema.TxnValue
			if r.Value != nil {
				if v, _, err = schema.DecodeTxnValue(r.Value); err != nil {
					w.t.Fatal(err)
				}
			}
			list = append(list, v)
		}
	}
	return list
}

// last is the state of an id as the log has it.
func (w *world) last(id string) *schema.TxnValue {
	if list := w.values(id); len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

// status is last's, in words.
func (w *world) status(id string) string {
	v := w.last(id)
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%v %d/%d", v.Status, v.ProducerID, v.ProducerEpoch)
}

// reply is an answer that may not have come yet.
type reply struct {
	mu   sync.Mutex
	text string
}

func (r *reply) set(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != "" {
		text = r.text + " AND " + text
	}
	r.text = text
}

// now is the answer that is there once nothing moves any more.
func (r *reply) now() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == "" {
		return "waits"
	}
	return r.text
}

func word(code int16) string {
	if err := kerr.ErrorForCode(code); err != nil {
		text, _, _ := strings.Cut(err.Error(), ":")
		return text
	}
	return "ok"
}

// initAs asks for a producer id with a former one, -1 for none.
func (w *world) initAs(id string, producer int64, epoch int16) *reply {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.Version, r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = 5, &id, 60000, producer, epoch
	a := &reply{}
	w.c.InitProducerID(r, func(resp kmsg.Response) {
		p := resp.(*kmsg.InitProducerIDResponse)
		a.set(answerOf(p.ErrorCode, p.ProducerID, p.ProducerEpoch))
	})
	return a
}

func (w *world) init(id string) *reply { return w.initAs(id, -1, -1) }

func answerOf(code int16, id int64, epoch int16) string {
	if code != 0 {
		return word(code)
	}
	return fmt.Sprintf("ok %d/%d", id, epoch)
}

func (w *world) end(version int16, id string, producer int64, epoch int16, commit bool) *reply {
	r := kmsg.NewPtrEndTxnRequest()
	r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = version, id, producer, epoch, commit
	a := &reply{}
	w.c.EndTxn(r, func(resp kmsg.Response) {
		p := resp.(*kmsg.EndTxnResponse)
		if version < 5 {
			a.set(word(p.ErrorCode))
			return
		}
		a.set(answerOf(p.ErrorCode, p.ProducerID, p.ProducerEpoch))
	})
	return a
}

func (w *world) add(addition Addition) *reply {
	a := &reply{}
	w.c.AddPartitions(addition, func(missing []schema.TxnTopic, err error) {
		switch {
		case len(missing) > 0:
			a.set("missing")
		default:
			a.set(word(errcode.Of(err)))
		}
	})
	return a
}

// joins adds partitions of topic t.
func (w *world) joins(id string, producer int64, epoch int16, second bool, partitions ...int32) *reply {
	return w.add(Addition{ID: id, ProducerID: producer, Epoch: epoch, Second: second, Topics: []schema.TxnTopic{{Topic: "t", Partitions: partitions}}})
}

// must fails the test unless an answer is the wanted one.
func (w *world) must(what string, a *reply, want string) {
	w.t.Helper()
	if got := a.now(); got != want {
		w.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// leaders are the other brokers. By default broker 1 leads everything and takes every marker.
type leaders struct {
	mu      sync.Mutex
	of      map[partition]int32 // -1 nobody, -2 does not exist
	codes   map[partition]int16 // what the next marker for a partition is answered with; once
	failing int                 // so many requests fail
	held    bool
	waiting []func()
	taken   []string // every marker that was taken
	sent    int      // requests
}

func newLeaders() *leaders { return &leaders{of: map[partition]int32{}, codes: map[partition]int16{}} }

func (l *leaders) Leader(topic string, index int32) (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader, ok := l.of[partition{topic, index}]; ok {
		return max(leader, -1), leader > -2
	}
	return 1, true
}

func (l *leaders) lead(index, broker int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[partition{"t", index}] = broker
}

func (l *leaders) answer(index int32, err *kerr.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.codes[partition{"t", index}] = err.Code
}

func (l *leaders) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

func (l *leaders) release() {
	l.mu.Lock()
	waiting := l.waiting
	l.held, l.waiting = false, nil
	l.mu.Unlock()
	for _, f := range waiting {
		f()
	}
	synctest.Wait()
}

// markers returns what was taken since the last call.
func (l *leaders) markers() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.taken
	l.taken = nil
	slices.Sort(taken)
	return taken
}

func (l *leaders) Write(broker int32, r *kmsg.WriteTxnMarkersRequest, done func(*kmsg.WriteTxnMarkersResponse, error)) {
	run := func() { done(l.write(broker, r)) }
	l.mu.Lock()
	l.sent++
	held := l.held
	if held {
		l.waiting = append(l.waiting, run)
	}
	l.mu.Unlock()
	if !held {
		run()
	}
}

func (l *leaders) write(broker int32, r *kmsg.WriteTxnMarkersRequest) (*kmsg.WriteTxnMarkersResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing > 0 {
		l.failing--
		return nil, errors.New("connection reset")
	}
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	for _, m := range r.Markers {
		rm := kmsg.NewWriteTxnMarkersResponseMarker()
		rm.ProducerID = m.ProducerID
		for _, t := range m.Topics {
			rt := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				rp.Partition = p
				at := partition{t.Topic, p}
				if rp.ErrorCode = l.codes[at]; rp.ErrorCode == 0 {
					l.taken = append(l.taken, fmt.Sprintf("%s-%d %d/%d commit=%t by %d v%d to %d", t.Topic, p, m.ProducerID, m.ProducerEpoch,
						m.Committed, m.CoordinatorEpoch, m.TransactionVersion, broker))
				}
				delete(l.codes, at)
				rt.Partitions = append(rt.Partitions, rp)
			}
			rm.Topics = append(rm.Topics, rt)
		}
		resp.Markers = append(resp.Markers, rm)
	}
	return resp, nil
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	over, _ := clock.System.NewTimer(d)
	<-over
	synctest.Wait()
}
