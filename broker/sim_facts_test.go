package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// simTopics are the partitions of every simulation: of the first topic a record is committed when two have it, of the second
// even when its leader is alone in sync.
var simTopics = []log.TopicPartition{{Topic: "a", Partition: 0}, {Topic: "a", Partition: 1}, {Topic: "b", Partition: 0}}

func simMinISR(topic string) int {
	if topic == "a" {
		return 2
	}
	return 1
}

// simRecord is a record as a log has it.
type simRecord struct {
	epoch int32
	value string
}

// simMirror is what a replica's log contains, also after its process died.
type simMirror struct {
	proc    *simProc // that it was looked at in
	epoch   int32    // leader epoch then
	hw      int64
	records []simRecord // by offset; what lies below the log start may be missing
	start   int64
	agreed  int // so many records are known to be the committed ones
}

// simFacts are what must never change: it watches everything, after every event.
type simFacts struct {
	w         *simWorld
	observer  *storetest.Client
	committed map[log.TopicPartition][]simRecord
	state     map[log.TopicPartition]znode.State
	trimmed   map[log.TopicPartition]int64 // up to where somebody was allowed to delete
	where     map[string]int64             // offset at which a value was committed; no value is sent twice, but by producers that try again
	leader    map[simEpoch]int32           // by whoever took the role
	elected   map[simEpoch]int32           // by the store
	acking    map[simEpoch]int32           // who has acknowledged a record of the epoch
	obeyed    map[simReign]uint64          // the last order that was carried out
	late      int                          // orders that were not, as they had been repeated
	sent      int
	acked     int
	read      int
	epochs    int
	cuts      int // truncations
}

type simEpoch struct {
	log.TopicPartition
	epoch int32
}

// simReign is a controller as one process obeys it.
type simReign struct {
	proc  *simProc
	epoch int32
}

func (f *simFacts) begin(w *simWorld) {
	*f = simFacts{
		w: w, committed: map[log.TopicPartition][]simRecord{}, state: map[log.TopicPartition]znode.State{}, leader: map[simEpoch]int32{},
		trimmed: map[log.TopicPartition]int64{}, where: map[string]int64{}, elected: map[simEpoch]int32{}, acking: map[simEpoch]int32{},
		obeyed: map[simReign]uint64{},
	}
}

func (f *simFacts) wrong(format string, args ...any) {
	f.w.t.Helper()
	f.w.t.Errorf("event %d at %v: %s", f.w.counted.n, f.w.now, fmt.Sprintf(format, args...))
}

// only notes who did something that only one may do in an epoch.
func (f *simFacts) only(table map[simEpoch]int32, tp log.TopicPartition, epoch, id int32, what string) {
	if other, ok := table[simEpoch{tp, epoch}]; ok && other != id {
		f.wrong("%d and %d both %s %s in epoch %d", other, id, what, tpName(tp), epoch)
	}
	table[simEpoch{tp, epoch}] = id
}

func (f *simFacts) leads(p *simProc, tp log.TopicPartition, epoch int32) {
	f.w.say("%d leads %s in epoch %d", p.id, tpName(tp), epoch)
	f.epochs++
	if tp != simChurn { // whose epochs begin anew with each topic
		f.only(f.leader, tp, epoch, p.id, "lead")
	}
}

// obeys: a process carries a controller's orders out in the order in which they were given.
func (f *simFacts) obeys(p *simProc, order controller.Send, answer kmsg.Response) {
	reign := simReign{proc: p}
	var refused int16
	switch answer := answer.(type) {
	case nil:
		f.late++
		return
	case *kmsg.LeaderAndISRResponse:
		reign.epoch, refused = order.Request.(*kmsg.LeaderAndISRRequest).ControllerEpoch, answer.ErrorCode
	case *kmsg.UpdateMetadataResponse:
		reign.epoch, refused = order.Request.(*kmsg.UpdateMetadataRequest).ControllerEpoch, answer.ErrorCode
	case *kmsg.StopReplicaResponse:
		reign.epoch, refused = order.Request.(*kmsg.StopReplicaRequest).ControllerEpoch, answer.ErrorCode
	default:
		return // a question
	}
	if refused != 0 {
		return
	}
	if order.ID < f.obeyed[reign] {
		f.wrong("%d carries out order %d of epoch %d after %d", p.id, order.ID, reign.epoch, f.obeyed[reign])
	}
	f.obeyed[reign] = order.ID
}

// states looks at the partitions' states after a commit.
func (f *simFacts) states() {
	if f.observer == nil {
		f.observer = f.w.store.Client()
	}
	reqs := make([]store.Req, len(simTopics))
	for i, tp := range simTopics {
		reqs[i].Path = znode.StatePath(tp.Topic, tp.Partition)
	}
	nodes, err := f.observer.Read(context.Background(), reqs...)
	if err != nil {
		f.wrong("the observer: %v", err)
		return
	}
	for i, tp := range simTopics {
		if !nodes[i].Exists {
			continue
		}
		s, err := znode.DecodeState(nodes[i].Data)
		if err != nil {
			f.wrong("%s: %v", nodes[i].Path, err)
			continue
		}
		if old, ok := f.state[tp]; !ok || fmt.Sprint(old) != fmt.Sprint(s) {
			f.w.say("%s: %+v", tpName(tp), s)
		}
		if s.Leader >= 0 {
			f.only(f.elected, tp, s.LeaderEpoch, s.Leader, "are elected for")
		}
		f.state[tp] = s
	}
}

// look looks at every log that may have changed.
func (f *simFacts) look() {
	for _, b := range f.w.brokers {
		if p := b.proc; p != nil && !p.dead {
			for _, tp := range simTopics {
				f.lookAt(p, tp)
			}
		}
	}
	for _, tp := range simTopics {
		f.inSync(tp)
	}
}

// lookAt brings a mirror up to date, and with it what is committed.
func (f *simFacts) lookAt(p *simProc, tp log.TopicPartition) {
	l := p.logs.Get(tp)
	if l == nil {
		delete(p.broker.mirrors, tp)
		return
	}
	m := p.broker.mirrors[tp]
	if m == nil {
		m = &simMirror{}
		p.broker.mirrors[tp] = m
	}
	b := l.Bounds()
	if have := int64(len(m.records)); b.End < have {
		f.w.say("%d cuts %s from %d to %d", p.id, tpName(tp), have, b.End)
		f.cuts++
		m.records = m.records[:b.End]
		m.agreed = min(m.agreed, len(m.records))
	} else if b.End > have {
		if have < b.Start { // it began anew, at what the leader has left
			m.records = append(m.records, make([]simRecord, b.Start-have)...)
			have = b.Start
		}
		m.records = append(m.records, f.w.records(l, have, b.End)...)
	}
	if m.start = b.Start; b.Start > f.trimmed[tp] {
		f.wrong("%s at %d begins at %d, although nobody deleted beyond %d", tpName(tp), p.id, b.Start, f.trimmed[tp])
	}
	epoch, ok := p.epochs[tp]
	if !ok {
		epoch = -1
	}
	if m.proc == p && m.epoch == epoch && b.HighWatermark < m.hw {
		f.wrong("the high watermark of %s at %d went from %d to %d within epoch %d", tpName(tp), p.id, m.hw, b.HighWatermark, epoch)
	}
	m.proc, m.epoch, m.hw = p, epoch, b.HighWatermark
	f.commit(p, tp, m)
}

// records reads a range of a log.
func (w *simWorld) records(l *log.Log, from, to int64) []simRecord {
	if from == to {
		return nil
	}
	r, err := l.Read(from, 1<<30, log.LogEnd, true)
	if err != nil {
		w.t.Fatalf("reading a log: %v", err)
	}
	var all []simRecord
	w.each(w.contents(&replica.FetchResult{Records: r.Part}), func(offset int64, rec simRecord) {
		if offset >= from && offset < to {
			all = append(all, rec)
		}
	})
	if int64(len(all)) != to-from {
		w.t.Fatalf("%d records from %d to %d", len(all), from, to)
	}
	return all
}

// each calls f for every record.
func (w *simWorld) each(buf []byte, f func(offset int64, r simRecord)) {
	for len(buf) > 0 {
		e, rest, err := record.NextEntry(buf)
		if errors.Is(err, record.ErrTruncated) {
			return // the limit of a Fetch
		}
		if err != nil {
			w.t.Fatalf("records that cannot be read: %v", err)
		}
		for r, err := range e.Records(record.Limits{}) {
			if err != nil {
				w.t.Fatalf("a record that cannot be read: %v", err)
			}
			f(r.Offset, simRecord{e.LeaderEpoch(), string(r.Value)})
		}
		buf = rest
	}
}

// commit takes what lies below a high watermark as committed, and compares.
func (f *simFacts) commit(p *simProc, tp log.TopicPartition, m *simMirror) {
	all := f.committed[tp]
	for ; m.agreed < int(m.hw) && m.agreed < len(m.records); m.agreed++ {
		r := m.records[m.agreed]
		if int64(m.agreed) < m.start && m.agreed < len(all) {
			continue
		}
		if m.agreed == len(all) {
			if at, twice := f.where[r.value]; twice && at >= f.trimmed[tp] { // a replica may never have had what was deleted
				f.wrong("%q was committed at offset %d of %s, and again at %d", r.value, at, tpName(tp), m.agreed)
			}
			f.where[r.value] = int64(m.agreed)
			all = append(all, r)
			f.committed[tp] = all
		} else if all[m.agreed] != r {
			f.wrong("offset %d of %s was committed as %v; below the high watermark of %d there is %v", m.agreed, tpName(tp), all[m.agreed], p.id, r)
			return
		}
	}
}

// inSync: every member of the ISR has every committed record.
func (f *simFacts) inSync(tp log.TopicPartition) {
	all := f.committed[tp]
	for _, id := range f.state[tp].ISR {
		m := f.w.brokers[id-1].mirrors[tp]
		if m == nil {
			if len(all) > 0 {
				f.wrong("%d is in sync for %s and has nothing", id, tpName(tp))
			}
			continue
		}
		for ; m.agreed < len(all); m.agreed++ {
			if m.agreed >= len(m.records) {
				f.wrong("%d is in sync for %s and ends at %d, although %d are committed (%+v)", id, tpName(tp), len(m.records), len(all), f.state[tp])
				return
			}
			if int64(m.agreed) >= m.start && m.records[m.agreed] != all[m.agreed] {
				f.wrong("%d is in sync for %s and has %v at %d, where %v is committed", id, tpName(tp), m.records[m.agreed], m.agreed, all[m.agreed])
				return
			}
		}
	}
}

// acknowledged is what a producer was told.
func (f *simFacts) acknowledged(p *simProc, tp log.TopicPartition, acks int16, offset int64, value string) {
	f.look()
	m := p.broker.mirrors[tp]
	if m == nil || offset >= int64(len(m.records)) || m.records[offset].value != value {
		f.wrong("%d acknowledged %q at %d of %s, which it has not", p.id, value, offset, tpName(tp))
		return
	}
	f.only(f.acking, tp, m.records[offset].epoch, p.id, "acknowledged records of")
	if acks != -1 {
		return
	}
	f.acked++
	if all := f.committed[tp]; offset >= int64(len(all)) || all[offset].value != value {
		f.wrong("%d acknowledged %q at %d of %s, which is not committed", p.id, value, offset, tpName(tp))
	}
	have := 0
	for _, b := range f.w.brokers {
		if m := b.mirrors[tp]; m != nil && offset < int64(len(m.records)) && m.records[offset].value == value {
			have++
		}
	}
	if have < simMinISR(tp.Topic) {
		f.wrong("%d acknowledged %q at %d of %s, which %d have", p.id, value, offset, tpName(tp), have)
	}
}

// acknowledgedOnce is what an idempotent producer was told. The broker may have been told the record by another leader, so the
// epoch says nothing of who acknowledges.
func (f *simFacts) acknowledgedOnce(p *simProc, tp log.TopicPartition, offset int64, value string) {
	f.look()
	f.acked++
	if all := f.committed[tp]; offset >= int64(len(all)) || all[offset].value != value {
		f.wrong("%d acknowledged %q at %d of %s, which is not committed", p.id, value, offset, tpName(tp))
	}
}

// seen is what a consumer was given.
func (f *simFacts) seen(p *simProc, tp log.TopicPartition, offset int64, r simRecord) {
	f.read++
	if all := f.committed[tp]; offset >= int64(len(all)) || all[offset] != r {
		f.wrong("a consumer saw %v at %d of %s on %d, which is not committed", r, offset, tpName(tp), p.id)
	}
}

// settled looks at the end, when everything has been in order for a while.
func (f *simFacts) settled() {
	for _, p := range f.w.producers {
		if p.pending {
			f.wrong("%q was never acknowledged", p.value())
		}
	}
	for _, tp := range simTopics {
		s := f.state[tp]
		topic, err := znode.DecodeTopic([]byte(f.w.store.Dump()[znode.TopicPath(tp.Topic)]))
		if err != nil {
			f.wrong("%s: %v", tp.Topic, err)
			continue
		}
		replicas := topic.Replicas[tp.Partition]
		if s.Leader < 0 || len(s.ISR) != len(replicas) || len(topic.Adding)+len(topic.Removing) > 0 {
			f.wrong("%s has not settled: %+v of %v, adding %v, removing %v", tpName(tp), s, replicas, topic.Adding, topic.Removing)
			for _, b := range f.w.brokers {
				f.w.t.Logf("%d: %+v, waiting proposals %d %v", b.id, b.proc.image.Image().Partition(tp.Topic, tp.Partition), len(b.proc.waiting.list), b.proc.proposing)
			}
			continue
		}
		for _, b := range f.w.brokers {
			at := b.proc.image.Image().Partition(tp.Topic, tp.Partition)
			if at == nil || at.Leader != s.Leader || at.LeaderEpoch != s.LeaderEpoch {
				f.wrong("%d says of %s %+v, the store %+v", b.id, tpName(tp), at, s)
			}
		}
		want := len(f.w.brokers[s.Leader-1].mirrors[tp].records)
		if len(f.committed[tp]) != want {
			f.wrong("of %d records of %s only %d are committed", want, tpName(tp), len(f.committed[tp]))
		}
		for _, b := range f.w.brokers {
			if l := b.proc.logs.Get(tp); l != nil && !slices.Contains(replicas, b.id) {
				f.wrong("%d still has %s, which is on %v", b.id, tpName(tp), replicas)
			}
		}
		for _, id := range replicas {
			m := f.w.brokers[id-1].mirrors[tp]
			if m == nil || len(m.records) != want || m.agreed != want || m.hw != int64(want) {
				f.wrong("%d has not all of %s: %d", id, tpName(tp), want)
			}
		}
	}
}
