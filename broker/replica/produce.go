package replica

import (
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// Values of acks in a Produce.
const (
	AcksAll    = -1
	AcksLeader = 1
	AcksNone   = 0
)

// ProduceParams are what holds for a whole Produce.
type ProduceParams struct {
	Version  int16 // of the request: it decides which record formats and codecs may come
	Acks     int16
	Timeout  time.Duration // that acks=-1 waits for the in-sync replicas
	Internal bool          // may write to the brokers' own topics
	// TransactionalID is that of the producer, nil without. Whoever sends transactional batches must have one.
	TransactionalID *string
}

// ProduceEntry is a record set for one partition. Records may be modified, and are not kept once Produce has returned.
type ProduceEntry struct {
	Topic     string
	TopicID   log.TopicID // zero: not to be checked
	Partition int32
	Records   []byte
	Err       error // already refused, for this reason

	guard log.Guard // for the first batch of a transaction
}

// ProduceResult says what became of an entry. Offsets and time are -1 where there is nothing to say.
type ProduceResult struct {
	Err            error // a *record.Invalid in its chain tells which records are at fault
	BaseOffset     int64
	LogAppendTime  int64 // ms
	LogStartOffset int64
	Converted      int32 // records that had to be written anew

	epoch     int32      // of the leadership under which it was appended
	partition *Partition // where something was appended whose acks have not come yet; else nil
	end       int64      // the offset after it
}

// Messages is how many records were appended.
func (r *ProduceResult) Messages() int64 {
	if r.Err != nil || r.BaseOffset < 0 {
		return 0
	}
	return max(0, r.end-r.BaseOffset)
}

// CanAppendNow says whether producing bytes to a partition would neither wait for another writer, nor roll a segment,
// nor compress for the topic.
func (m *Manager) CanAppendNow(topic string, partition int32, bytes int) bool {
	p := m.find(topic, partition)
	if p == nil {
		return true // refused at once
	}
	c := p.log.Config().Compression
	return (!c.Fixed || c.Codec == record.None) && p.log.CanAppendNow(bytes)
}

// Produce appends the entries, in order, and calls done with their results: at once unless acks is -1 and the in-sync
// replicas do not have everything yet, or a transaction's coordinator must be asked first.
func (m *Manager) Produce(p ProduceParams, entries []ProduceEntry, done func([]ProduceResult)) {
	if j, asked := m.join(&p, entries); j != nil {
		m.produceJoined(p, entries, j, asked, done)
		return
	}
	m.appendAll(&p, entries, done)
}

// appendAll is Produce once nobody has to be asked.
func (m *Manager) appendAll(p *ProduceParams, entries []ProduceEntry, done func([]ProduceResult)) {
	results := make([]ProduceResult, len(entries))
	nowMs := m.clock.Now().UnixMilli()
	rules := new(record.Rules) // of one entry after the other
	for i := range entries {
		m.append(p, &entries[i], nowMs, rules, &results[i])
	}
	for i := range results {
		if q := results[i].partition; q != nil {
			q.appended() // only now, so that a Fetch of several partitions finds all that one Produce brought
		}
	}
	if p.Acks != AcksAll || settleAll(results) {
		done(results)
		return
	}
	m.awaitAcks(p, results, done)
}

// appended follows an append: the high watermark moves, and whoever waits is woken.
func (p *Partition) appended() {
	if p.moveHighWatermark() {
		p.acks.Notify()
		p.watched.notify(p)
	}
	p.happened()
}

// append checks and appends one entry. rules is memory for those of its topic.
func (m *Manager) append(p *ProduceParams, e *ProduceEntry, nowMs int64, rules *record.Rules, r *ProduceResult) {
	*r = ProduceResult{Err: e.Err, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1}
	if r.Err != nil {
		return
	}
	partition, role, err := m.writable(p, e)
	if err != nil {
		r.Err = err
		return
	}
	l := partition.log
	*rules = l.Config().Rules(nowMs)
	checked, err := record.Check(e.Records, p.Version, rules)
	if err != nil {
		r.Err = err
		if tellsLogStart(err) {
			r.LogStartOffset = l.Bounds().Start
		}
		return
	}
	if checked.Batch == nil {
		return
	}
	a, err := partition.appendLeading(log.Writer{Guard: e.guard}, &checked, role.leaderEpoch)
	if err != nil {
		r.Err, r.LogStartOffset = err, l.Bounds().Start
		return
	}
	r.BaseOffset, r.LogAppendTime, r.LogStartOffset, r.Converted = a.BaseOffset, a.LogAppendTime, a.LogStartOffset, int32(checked.Converted)
	r.partition, r.epoch, r.end = partition, role.leaderEpoch, a.LastOffset+1
}

// tellsLogStart says whether Kafka tells the log start offset with the refusal of a record set: not if it could not read it.
func tellsLogStart(err error) bool {
	var invalid *record.Invalid
	return !errors.Is(err, kerr.CorruptMessage) && !(errors.As(err, &invalid) && invalid.Unsendable)
}

// appendLeading appends as the leader in an epoch, if that is not over.
func (p *Partition) appendLeading(w log.Writer, c *record.Checked, epoch int32) (log.Appended, error) {
	p.writing.RLock()
	defer p.writing.RUnlock()
	switch r, err := p.leading(-1); {
	case err != nil:
		return log.Appended{}, err
	case r.leaderEpoch != epoch:
		return log.Appended{}, ErrNotLeader
	}
	a, err := p.log.AppendBy(w, c, epoch)
	return a, p.wrote(err)
}

// writable returns the partition of an entry if it may be written to.
func (m *Manager) writable(p *ProduceParams, e *ProduceEntry) (*Partition, *role, error) {
	if p.Acks != AcksAll && p.Acks != AcksLeader && p.Acks != AcksNone {
		return nil, nil, ErrAcks
	}
	if !p.Internal && metadata.IsInternal(e.Topic) {
		return nil, nil, ErrInternalTopic
	}
	partition, err := m.lookup(e.Topic, e.TopicID, e.Partition)
	if err != nil {
		return nil, nil, err
	}
	role, err := partition.leading(-1)
	if err != nil {
		return nil, nil, err
	}
	if p.Acks == AcksAll && !partition.enoughInSync(role) {
		return nil, nil, ErrNotEnoughReplicas
	}
	return partition, role, nil
}

// awaitAcks parks a Produce until its entries are on all in-sync replicas.
func (m *Manager) awaitAcks(p *ProduceParams, results []ProduceResult, done func([]ProduceResult)) {
	lists := make([]*purgatory.List, 0, len(results))
	for i := range results {
		if results[i].partition != nil {
			lists = append(lists, &results[i].partition.acks)
		}
	}
	op := &produceOp{manager: m, done: done}
	op.mu.results = results
	m.purgatory.Watch(op, p.Timeout, lists...)
}

// produceOp is a Produce that waits for its acks.
type produceOp struct {
	manager *Manager
	done    func([]ProduceResult)
	mu      struct {
		sync.Mutex
		results []ProduceResult
	}
}

// Ready follows DelayedProduce.tryComplete.
func (o *produceOp) Ready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return settleAll(o.mu.results)
}

// Finish answers. A late Ready finds everything settled and changes nothing.
func (o *produceOp) Finish(expired bool) {
	o.mu.Lock()
	results := o.mu.results
	settleAll(results)
	for i := range results {
		if r := &results[i]; r.partition != nil {
			r.fail(ErrTimeout)
			if expired {
				o.manager.expired.produces.Add(1)
			}
		}
	}
	o.mu.Unlock()
	o.done(results)
}

// settleAll reports whether nothing is left to wait for.
func settleAll(results []ProduceResult) bool {
	all := true
	for i := range results {
		if r := &results[i]; r.partition != nil && !r.settle() {
			all = false
		}
	}
	return all
}

// settle reports whether it is known how an appended entry ended, and notes that: the high watermark passed it, or the
// leadership ended. The watermark is read first: if the leadership is still the same afterwards, then what it covers is
// what was appended under it.
func (r *ProduceResult) settle() bool {
	committed := r.partition.log.Bounds().HighWatermark >= r.end
	role, err := r.partition.leading(-1)
	switch {
	case err != nil:
		r.fail(err)
	case role.leaderEpoch != r.epoch:
		r.fail(ErrNotLeader)
	case !committed:
		return false
	case !insync.EnoughInSync(role.maximalISR, len(role.replicas), int(r.partition.minISR.Load())):
		r.fail(ErrNotEnoughReplicasAfterAppend)
	default:
		r.partition = nil
	}
	return true
}

// fail ends the wait with an error, under which no offset is answered.
func (r *ProduceResult) fail(err error) {
	r.Err, r.BaseOffset, r.LogAppendTime, r.partition = err, -1, -1, nil
}
