package groupcoord

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/offset"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// machine holds the groups of one partition of __consumer_offsets. Owned by its shard's goroutine.
type machine struct {
	settings  *Settings
	log       *zap.Logger
	env       group.Env
	consumers consumer.Env
	groups    map[string]*entry
	pending   offset.Pending         // of open transactions
	names     map[string]string      // topic names, so that each is kept once
	ids       map[[16]byte]*[16]byte // topic ids, likewise
	left      map[leftKind]int       // records that were not understood
	cleanup   runtime.Timer
	elsewhere func(resolution) // does what may take long, and tells the machine
	key       []byte           // scratch
	value     []byte
}

// resolution finds out what the regular expressions of a group stand for, until stop says that it takes too long.
type resolution = func(stop func() bool) *consumer.Resolved

// leftKind is a kind of record that is left as it is.
type leftKind struct {
	kind    schema.Type
	version int16
}

// cleanupDue is the event of the timer that looks for expired offsets.
type cleanupDue struct{}

func newMachine(o *Options, log *zap.Logger, newID func() string) *machine {
	s := &o.Config
	m := &machine{
		settings: s, log: log, env: group.Env{Settings: &s.Group, Log: log, NewID: newID},
		consumers: consumer.Env{Settings: &s.Consumer, Log: log, NewID: newShortID, Metadata: o.Metadata, Times: o.Times},
		groups:    map[string]*entry{}, names: map[string]string{}, ids: map[[16]byte]*[16]byte{}, left: map[leftKind]int{},
	}
	if m.consumers.Times == nil {
		m.consumers.Times = func(string) consumer.Times { return s.Consumer.Times }
	}
	m.cleanup.Event = cleanupDue{}
	return m
}

// Handle reacts to a request or a timer.
func (m *machine) Handle(ev any, out *runtime.Out) {
	switch ev := ev.(type) {
	case *heartbeat:
		m.heartbeat(ev, out)
	case *commit:
		m.commit(ev, out)
	case *txnCommit:
		m.txnCommit(ev, out)
	case *endTxn:
		m.endTxn(ev, out)
	case *fetch:
		m.fetch(ev, out)
	case *join:
		m.join(ev, out)
	case *sync:
		m.sync(ev, out)
	case *leave:
		m.leave(ev, out)
	case group.Due:
		ev.Fire(&m.env, out)
	case *describe:
		m.describe(ev, out)
	case *consumerHeartbeat:
		m.consumerHeartbeat(ev, out)
	case *consumerDescribe:
		m.consumerDescribe(ev, out)
	case consumer.Due:
		m.expired(ev, out)
	case consumer.Resolution:
		m.resolve(ev)
	case resolved:
		m.resolved(ev, out)
	case *list:
		m.list(ev, out)
	case *deleteGroups:
		m.deleteGroups(ev, out)
	case *offsetDelete:
		m.offsetDelete(ev, out)
	case *topicsDeleted:
		m.topicsDeleted(ev, out)
	case cleanupDue:
		m.cleanUp(out)
	}
}

// Loaded starts the members' sessions and the search for expired offsets.
func (m *machine) Loaded(out *runtime.Out) {
	for kind, n := range m.left {
		m.log.Warn("records of a kind that this version does not understand are left as they are",
			zap.Stringer("type", kind.kind), zap.Int16("version", kind.version), zap.Int("records", n))
	}
	for _, e := range m.groups {
		if e.consumer != nil {
			e.consumer.Loaded(&m.consumers, out)
			continue
		}
		e.Loaded(&m.env, out)
	}
	out.Set(&m.cleanup, m.settings.OffsetsRetentionCheckInterval)
}

// Unloaded answers the members that wait.
func (m *machine) Unloaded(err error) {
	for _, e := range m.groups {
		e.Unloaded(err)
	}
}

// Apply takes a record over into the groups.
func (m *machine) Apply(r *runtime.Record) {
	kind, err := schema.TypeOf(r.Key)
	version := int16(-1)
	if err == nil {
		switch kind {
		case schema.OffsetCommit, schema.OffsetCommitOld:
			version, err = m.applyOffset(r)
		case schema.GroupMetadata:
			version, err = m.applyGroup(r)
		default:
			if kind.IsConsumer() {
				version, err = m.applyConsumer(r)
				break
			}
			m.left[leftKind{kind, version}]++
			return
		}
	}
	if err == nil {
		return
	}
	m.left[leftKind{kind, version}]++
	var unknown *schema.UnknownVersionError
	if !errors.As(err, &unknown) {
		m.log.Warn("a record of the internal topic is malformed and left as it is", zap.Int64("offset", r.Order), zap.Error(err))
	}
}

func (m *machine) applyOffset(r *runtime.Record) (version int16, err error) {
	key, err := schema.DecodeOffsetKey(r.Key)
	if err != nil {
		return -1, err
	}
	if r.Value == nil {
		if e := m.groups[string(key.Group)]; e != nil {
			e.offsets.Delete(string(key.Topic), key.Partition)
			m.pending.Delete(e.ID(), string(key.Topic), key.Partition)
		}
		return -1, nil
	}
	v, version, err := schema.DecodeOffsetValue(r.Value)
	if err != nil {
		return version, err
	}
	e := m.groups[string(key.Group)] // no copy of the id, which entry would make
	if e == nil {
		e = m.entry(string(key.Group))
	}
	c := offset.Committed{
		Partition: key.Partition, LeaderEpoch: v.LeaderEpoch, Offset: v.Offset, CommitMs: v.CommitMs, ExpireMs: v.ExpireMs,
		Order: r.Order, Metadata: string(v.Metadata), TopicID: m.topicID(v.TopicID),
	}
	if r.ProducerID >= 0 {
		m.pending.Put(r.ProducerID, e.ID(), m.name(key.Topic), c)
		return version, nil
	}
	e.offsets.Put(m.name(key.Topic), c)
	return version, nil
}

func (m *machine) applyGroup(r *runtime.Record) (version int16, err error) {
	id, err := schema.DecodeGroupKey(r.Key)
	if err != nil {
		return -1, err
	}
	if r.Value == nil {
		if e := m.groups[string(id)]; e != nil {
			e.Apply(nil)
			m.vacate(e)
		}
		return -1, nil
	}
	v, version, err := schema.DecodeGroupValue(r.Value)
	if err == nil {
		e := m.entry(string(id))
		e.consumer = nil
		e.Apply(v)
	}
	return version, err
}

// EndTransaction commits or drops the offsets of a producer's transaction. A later commit outside of the transaction wins,
// so that compaction of the log cannot change which one counts.
func (m *machine) EndTransaction(producerID int64, commit bool) {
	for id, set := range m.pending.End(producerID) {
		e := m.entry(id)
		for topic, list := range set.Topics() {
			for _, c := range list {
				if old := e.offsets.Get(topic, c.Partition); commit && (old == nil || old.Order < c.Order) {
					e.offsets.Put(topic, c)
				}
			}
		}
	}
}

// entry returns a group, made if there is none.
func (m *machine) entry(id string) *entry {
	e := m.groups[id]
	if e == nil {
		e = &entry{Group: group.Make(id)}
		m.groups[id] = e
	}
	return e
}

// vacate forgets a group of which nothing is left.
func (m *machine) vacate(e *entry) {
	if e.consumer == nil && e.Stored() == nil && !e.Soft() && e.offsets.Empty() && !m.pending.Open(e.ID()) {
		delete(m.groups, e.ID())
	}
}

// name returns the one copy of a topic's name.
func (m *machine) name(topic []byte) string {
	if s, ok := m.names[string(topic)]; ok {
		return s
	}
	s := string(topic)
	m.names[s] = s
	return s
}

// topicID returns the one copy of a topic's id, nil for the zero id.
func (m *machine) topicID(id [16]byte) *[16]byte {
	if id == [16]byte{} {
		return nil
	}
	p := m.ids[id]
	if p == nil {
		p = new([16]byte)
		*p = id
		m.ids[id] = p
	}
	return p
}

// forgetOffset writes that an offset is deleted.
func (m *machine) forgetOffset(out *runtime.Out, groupID, topic string, partition int32) {
	m.key = schema.AppendOffsetKey(m.key[:0], groupID, topic, partition)
	out.Write(m.key, nil)
}

// forgetGroup drops what is soft of a group without members, and writes that the group is deleted if anything is stored.
func (m *machine) forgetGroup(out *runtime.Out, e *entry) {
	if e.consumer != nil {
		e.consumer.Forget(&m.consumers, out)
		return
	}
	e.Forget(out)
	if e.Stored() != nil || !e.offsets.Empty() || m.pending.Open(e.ID()) {
		m.key = schema.AppendGroupKey(m.key[:0], e.ID())
		out.Write(m.key, nil)
		return
	}
	m.vacate(e)
}

// forgetEmptied deletes a group without members of which deleted offsets are all there was, as Kafka 3.9 does at once;
// Kafka 4.4 leaves that to cleanUp.
func (m *machine) forgetEmptied(out *runtime.Out, e *entry, deleted int) {
	if !m.settings.Kafka4 && e.idle() && e.offsets.Len() == deleted && !m.pending.Open(e.ID()) {
		m.forgetGroup(out, e)
	}
}

// cleanUp deletes offsets whose time is over, and then the groups of which nothing is left.
// After GroupCoordinatorShard.cleanupGroupMetadata and OffsetMetadataManager.cleanupExpiredOffsets.
func (m *machine) cleanUp(out *runtime.Out) {
	out.Set(&m.cleanup, m.settings.OffsetsRetentionCheckInterval)
	out.Split()
	nowMs, expired, groups := out.Now.WallMs(), 0, 0
	for _, e := range m.groups {
		n, all := m.expire(out, e, nowMs)
		expired += n
		if all && e.idle() && !m.pending.Open(e.ID()) {
			m.forgetGroup(out, e)
			groups++
		}
	}
	if expired+groups > 0 {
		m.log.Info("committed offsets expired", zap.Int("offsets", expired), zap.Int("groups", groups))
	}
}

// expire writes which offsets of a group are over, and tells how many, and whether that is all of them.
func (m *machine) expire(out *runtime.Out, e *entry, nowMs int64) (n int, all bool) {
	if e.offsets.Empty() {
		return 0, true
	}
	since, ok := e.retention()
	if !ok {
		return 0, false
	}
	all = true
	for topic, list := range e.offsets.Topics() {
		if e.subscribed(topic) {
			all = false
			continue
		}
		for i := range list {
			if !m.isOver(&list[i], since, nowMs) || m.pending.Has(e.ID(), topic, list[i].Partition) {
				all = false
				continue
			}
			m.forgetOffset(out, e.ID(), topic, list[i].Partition)
			n++
		}
	}
	return n, all
}

// isOver reports whether an offset has been kept long enough, counted from since or, if that is -1, from its commit.
func (m *machine) isOver(c *offset.Committed, since, nowMs int64) bool {
	if c.ExpireMs >= 0 {
		return nowMs >= c.ExpireMs
	}
	if since < 0 {
		since = c.CommitMs
	}
	return time.Duration(nowMs-since)*time.Millisecond >= m.settings.OffsetsRetention
}

// topicsDeleted deletes the offsets of topics that do not exist any more.
func (m *machine) topicsDeleted(ev *topicsDeleted, out *runtime.Out) {
	out.Split()
	for id, e := range m.groups {
		deleted := 0
		for _, topic := range ev.topics {
			for _, c := range e.offsets.Topic(topic) {
				m.forgetOffset(out, id, topic, c.Partition)
				deleted++
			}
		}
		m.pending.Each(id, func(topic string, partition int32) {
			if slices.Contains(ev.topics, topic) && e.offsets.Get(topic, partition) == nil {
				m.forgetOffset(out, id, topic, partition)
			}
		})
		m.forgetEmptied(out, e, deleted)
	}
	for _, topic := range ev.topics {
		delete(m.names, topic)
	}
}
