package controller

import (
	"errors"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file removes topics. A mark in /admin/delete_topics makes the wish durable; then clients are told (leader -2), the
// brokers remove the data, and at last the nodes go, the mark with them. After kafka.controller.TopicDeletionManager.
// Unlike Kafka, DeleteTopics is answered when all of that is done, so that a topic can be created again at once; only
// when a broker with a replica is down or does not answer, as soon as clients have been told.

// deletion is a topic's way out.
type deletion struct {
	pending  map[int32]map[int32]bool // replicas whose data is not known to be gone: broker → partitions
	told     bool                     // every broker knows that the topic is gone, or has had tellLimit to say so
	removing bool                     // the nodes are being removed
	waiters  []func()
}

// Deletions tells what the active controller still has to delete, and what of it waits for brokers that are down; nothing where another
// broker is the active controller. Replicas count until their data is known to be gone. done is called once, soon, on any goroutine, and
// must be quick.
func (c *Controller) Deletions(done func(topics, replicas, blockedTopics, blockedReplicas int)) {
	c.request(func(m *Machine) { done(m.deletions()) })
}

func (m *Machine) deletions() (topics, replicas, blockedTopics, blockedReplicas int) {
	if m.reign == nil {
		return 0, 0, 0, 0
	}
	for _, t := range m.reign.topics {
		if t.deletion == nil {
			continue
		}
		topics++
		blocked := 0
		for id, partitions := range t.deletion.pending {
			replicas += len(partitions)
			if m.reign.brokers[id] == nil {
				blocked += len(partitions)
			}
		}
		blockedReplicas += blocked
		blockedTopics += min(blocked, 1)
	}
	return topics, replicas, blockedTopics, blockedReplicas
}

// deleteTopics serves DeleteTopics.
func (m *Machine) deleteTopics(r *kmsg.DeleteTopicsRequest, permit Permit, done func(*kmsg.DeleteTopicsResponse)) {
	wanted := r.Topics
	if r.Version < 6 {
		wanted = nil
		for i := range r.TopicNames {
			wanted = append(wanted, kmsg.DeleteTopicsRequestTopic{Topic: &r.TopicNames[i]})
		}
	}
	var twice map[string]bool
	if m.o.Settings.RefuseUnknownReplicas && m.active() {
		twice, wanted = duplicates(wanted, m.nameOrID), once(wanted, m.nameOrID)
	}
	resp := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
	for i := range wanted {
		rt := kmsg.NewDeleteTopicsResponseTopic()
		rt.Topic, rt.TopicID = wanted[i].Topic, wanted[i].TopicID
		resp.Topics = append(resp.Topics, rt)
	}
	q := m.newRequest(len(wanted), r.TimeoutMillis, func(i int, code int16, message *string) {
		resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = code, message
	}, func(m *Machine) { m.do(Answer{resp, func() { done(resp) }}) })
	if !m.active() {
		q.abandon(m)
		return
	}
	var marks []*mark
	for i := range wanted {
		t, err := m.toDelete(r.Version, &wanted[i])
		if twice[m.nameOrID(&wanted[i])] {
			resp.Topics[i].Topic = nameAmong(r.Topics, t, wanted[i].Topic)
			err = errcode.New(kerr.InvalidRequest, "Duplicate topic name or id.")
		}
		if err == nil {
			err = permit.take(len(t.parts))
		}
		if err != nil {
			q.result(m, i, err)
			continue
		}
		if resp.Topics[i].Topic = &t.name; m.o.Settings.Embedded { // 3.9 tells no id that it was not told
			resp.Topics[i].TopicID = t.id
		}
		marks = append(marks, &mark{t, func(err error) {
			if err != nil {
				q.result(m, i, err)
			} else if q.begun(m, i) {
				m.awaitDeletion(t, func() { q.result(m, i, nil) })
			}
		}})
	}
	q.begin(m, r.TimeoutMillis)
	m.markTopics(marks)
}

// nameAmong is the name of a topic that is asked for twice, if it is once asked for by its name.
func nameAmong(asked []kmsg.DeleteTopicsRequestTopic, t *topic, otherwise *string) *string {
	if t != nil && slices.ContainsFunc(asked, func(w kmsg.DeleteTopicsRequestTopic) bool { return w.Topic != nil && *w.Topic == t.name }) {
		return &t.name
	}
	return otherwise
}

// nameOrID is the topic that an entry of DeleteTopics means, however it says so.
func (m *Machine) nameOrID(w *kmsg.DeleteTopicsRequestTopic) string {
	if w.Topic != nil {
		return *w.Topic
	}
	if t := m.reign.ids[w.TopicID]; t != nil {
		return t.name
	}
	return string(w.TopicID[:])
}

// toDelete finds the topic that an entry of DeleteTopics names.
func (m *Machine) toDelete(version int16, w *kmsg.DeleteTopicsRequestTopic) (*topic, error) {
	byID := w.TopicID != [16]byte{}
	switch {
	case !m.o.Settings.DeleteTopicEnable && version < 3:
		return nil, errcode.New(kerr.InvalidRequest, "Topic deletion is disabled.")
	case !m.o.Settings.DeleteTopicEnable:
		return nil, errcode.New(kerr.TopicDeletionDisabled, "Topic deletion is disabled.")
	case byID && w.Topic != nil:
		return nil, errcode.New(kerr.InvalidRequest, "Topic name and topic ID can not both be specified.")
	case byID:
		if t := m.reign.ids[w.TopicID]; t != nil {
			return t, nil
		}
		return nil, kerr.UnknownTopicID
	case w.Topic == nil:
		return nil, errcode.New(kerr.InvalidRequest, "Neither topic name nor id were specified.")
	}
	if t := m.reign.topics[*w.Topic]; t != nil {
		return t, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

// mark is a topic that is to be marked for deletion.
type mark struct {
	t    *topic
	done func(error)
}

// markTopics writes the marks. That one exists already is as good.
func (m *Machine) markTopics(marks []*mark) {
	if len(marks) == 0 {
		return
	}
	txns := make([]store.Txn, len(marks))
	for i, k := range marks {
		txns[i] = store.Txn{store.Create(znode.DeleteTopicPath(k.t.name), nil, store.Persistent)}
	}
	m.command(txns, func(outcomes []outcome) {
		var again []*mark
		for i, k := range marks {
			switch o := outcomes[i]; {
			case o.err == nil, errors.Is(o.err, store.ErrExists):
				m.startDeletion(k.t)
				k.done(nil)
			case o.unknown():
				again = append(again, k)
			default:
				k.done(o.err)
			}
		}
		m.markTopics(again)
	})
}

// markDeleted begins the deletion of topics that are marked in the store; marks without a topic are removed, and so are all of them
// if topics must not be deleted.
func (m *Machine) markDeleted(names []string) {
	var txns []store.Txn
	for _, name := range names {
		switch t := m.reign.topics[name]; {
		case t != nil && m.o.Settings.DeleteTopicEnable:
			m.startDeletion(t)
		case t == nil || t.deletion == nil:
			txns = append(txns, store.Txn{store.Delete(znode.DeleteTopicPath(name), store.AnyVersion)})
		}
	}
	if len(txns) > 0 {
		m.command(txns, func([]outcome) {})
	}
}

// startDeletion tells clients that the topic is gone, and brokers to remove it.
func (m *Machine) startDeletion(t *topic) {
	if t.deletion != nil {
		return
	}
	if t.growing {
		t.queue = append(t.queue, func() { m.startDeletion(t) })
		return
	}
	d := &deletion{pending: map[int32]map[int32]bool{}}
	t.deletion = d
	m.checkAwaits(t)
	for _, p := range slices.Sorted(maps.Keys(t.moves)) {
		m.releaseMove(t.moves[p])
	}
	t.moves = nil // the replicas that come and those that go are all removed
	for _, x := range t.refs() {
		m.reign.orders.metadata.add(x)
		for _, id := range x.part().replicas {
			if d.pending[id] == nil {
				d.pending[id] = map[int32]bool{}
			}
			d.pending[id][x.p] = true
		}
	}
	for id, strays := range m.reign.strays {
		for x := range strays {
			if x.t != t {
				continue
			}
			if d.pending[id] == nil {
				d.pending[id] = map[int32]bool{}
			}
			d.pending[id][x.p] = true
		}
	}
	for id := range d.pending {
		m.orderStops(t, id)
	}
	m.reign.orders.told = append(m.reign.orders.told, func() {
		d.told = true
		m.releaseBlocked(t)
		m.maybeRemove(t)
	})
	m.after(inReign, tellLimit, func() { m.toldEnough(t) })
}

// tellLimit is how long a broker that lives by its session, but does not answer, can hold up the deletion of a topic.
const tellLimit = time.Second

// toldEnough goes on without the answers of some brokers. They are told when they can be reached, before anything else that comes later
// in this reign.
func (m *Machine) toldEnough(t *topic) {
	if t.deletion.told {
		return
	}
	m.log.Warn("a topic is deleted although not every broker has answered yet that it knows", zap.String("topic", t.name))
	t.deletion.told = true
	if m.maybeRemove(t); len(t.deletion.pending) > 0 {
		m.release(t)
	}
}

// orderStops tells a broker, if it lives, to stop and remove the replicas that it may still have.
func (m *Machine) orderStops(t *topic, id int32) {
	r := m.reign
	if r.brokers[id] == nil {
		return
	}
	for p := range t.parts {
		if t.deletion.pending[id][int32(p)] {
			x := ref{t, int32(p)}
			r.orders.stops[id] = append(r.orders.stops[id],
				stop{ref: x, epoch: epochDuringDelete}, stop{ref: x, remove: true, epoch: epochDuringDelete})
		}
	}
}

// resumeDeletions goes on where brokers were missing.
func (m *Machine) resumeDeletions(ids []int32) {
	for _, name := range m.reign.topicNames() {
		if t := m.reign.topics[name]; t.deletion != nil {
			for _, id := range ids {
				m.orderStops(t, id)
			}
		}
	}
}

// awaitDeletion calls done when the topic is gone, or gone as far as it can be now.
func (m *Machine) awaitDeletion(t *topic, done func()) {
	switch {
	case t.gone:
		done()
	case t.deletion == nil: // begins after a change under way
		t.queue = append(t.queue, func() { m.awaitDeletion(t, done) })
	default:
		t.deletion.waiters = append(t.deletion.waiters, done)
	}
}

// releaseBlocked tells those who wait that a topic is as good as gone if only a broker that is down keeps it.
func (m *Machine) releaseBlocked(t *topic) {
	for id := range t.deletion.pending {
		if m.reign.brokers[id] == nil {
			m.release(t)
			return
		}
	}
}

func (m *Machine) release(t *topic) {
	waiters := t.deletion.waiters
	t.deletion.waiters = nil
	for _, done := range waiters {
		done()
	}
}

// stopsAnswered takes note of the data that is gone. What could not be removed is tried again when the broker starts.
func (m *Machine) stopsAnswered(id int32, stops []stop) func(kmsg.Response) {
	return func(resp kmsg.Response) {
		answer, ok := resp.(*kmsg.StopReplicaResponse)
		if !ok || answer.ErrorCode != 0 {
			m.log.Warn("a broker did not remove the data of deleted topics", zap.Int32("broker", id), zap.String("topic", stops[0].t.name))
			return
		}
		failed := map[ref]int16{}
		for _, p := range answer.Partitions {
			if t := m.reign.topics[p.Topic]; t != nil && p.ErrorCode != 0 {
				failed[ref{t, p.Partition}] = p.ErrorCode
			}
		}
		for _, s := range stops {
			if code := failed[s.ref]; code != 0 {
				m.log.Warn("a broker could not remove the data of a deleted topic", zap.Int32("broker", id), zap.String("topic", s.t.name),
					zap.Int32("partition", s.p), zap.Error(kerr.ErrorForCode(code)))
				continue
			}
			if delete(m.reign.strays[id], s.ref); s.t.deletion == nil {
				continue // a replica that was reassigned
			}
			pending := s.t.deletion.pending
			if delete(pending[id], s.p); len(pending[id]) == 0 {
				delete(pending, id)
				m.maybeRemove(s.t)
			}
		}
	}
}

// maybeRemove removes the nodes of a topic that no broker has or names any more, when no commit for it is under way. Kafka does not
// wait for brokers without a replica; one that misses the news because the controller fails then names the topic until it starts
// again. Here that takes a broker that does not answer within tellLimit, too.
func (m *Machine) maybeRemove(t *topic) {
	d := t.deletion
	if d == nil || d.removing || !d.told || len(d.pending) > 0 || slices.ContainsFunc(t.parts, func(p partition) bool { return p.busy }) {
		return
	}
	d.removing = true
	var txns []store.Txn
	for chunk := range slices.Chunk(t.refs(), statesPerCommit) {
		var txn store.Txn
		for _, x := range chunk {
			if x.part().version >= 0 {
				txn = append(txn, store.Delete(znode.StatePath(t.name, x.p), store.AnyVersion), store.Delete(znode.PartitionPath(t.name, x.p), store.AnyVersion))
			}
		}
		txns = append(txns, txn)
	}
	var last store.Txn
	if len(txns) > 0 {
		last = txns[len(txns)-1]
		txns = txns[:len(txns)-1]
	}
	if t.hasDir {
		last = append(last, store.Delete(znode.PartitionsPath(t.name), store.AnyVersion))
	}
	last = append(last, store.Delete(znode.TopicPath(t.name), store.AnyVersion), store.Delete(znode.TopicConfigPath(t.name), store.AnyVersion),
		store.Delete(znode.DeleteTopicPath(t.name), store.AnyVersion))
	m.command(append(txns, last), func(outcomes []outcome) {
		for _, o := range outcomes {
			if o.err != nil {
				m.removeWhatIsThere(t)
				return
			}
		}
		m.removed(t)
	})
}

// removeWhatIsThere looks before it deletes: the tree is not as we thought, or a reply was lost.
func (m *Machine) removeWhatIsThere(t *topic) {
	m.list([]string{znode.TopicPath(t.name)}, nil, func(paths []string) {
		rest := []string{znode.TopicConfigPath(t.name), znode.DeleteTopicPath(t.name)}
		m.read(inReign, datas(rest...), func(nodes []store.Node) {
			slices.Reverse(paths) // children first
			if nodes[0].Exists {
				paths = append(paths, rest[0])
			}
			if nodes[1].Exists && len(paths) == 0 {
				paths = append(paths, rest[1]) // the mark goes when nothing else is left, or the next reign would revive the rest
			}
			m.deletePaths(t, paths)
		})
	})
}

// list returns the nodes below and with level, parents before children.
func (m *Machine) list(level, found []string, then func([]string)) {
	if len(level) == 0 {
		then(found)
		return
	}
	m.read(inReign, childrens(level...), func(nodes []store.Node) {
		var next []string
		for _, n := range nodes {
			if n.Exists {
				found = append(found, n.Path)
			}
			for _, name := range sortedChildren(n) {
				next = append(next, path.Join(n.Path, name))
			}
		}
		m.list(next, found, then)
	})
}

// deletePaths deletes nodes one by one and looks again until nothing is left.
func (m *Machine) deletePaths(t *topic, paths []string) {
	if len(paths) == 0 {
		m.removed(t)
		return
	}
	txns := make([]store.Txn, len(paths))
	for i, p := range paths {
		txns[i] = store.Txn{store.Delete(p, store.AnyVersion)}
	}
	m.command(txns, func(outcomes []outcome) {
		for _, o := range outcomes {
			if o.err != nil && o.at < 0 && !o.unknown() {
				m.log.Error("the nodes of a deleted topic could not be removed; trying again", zap.String("topic", t.name), zap.Error(o.err))
				m.after(inReign, retryDelay, func() { m.removeWhatIsThere(t) })
				return
			}
		}
		m.removeWhatIsThere(t)
	})
}

// removed forgets a topic that is gone from the store.
func (m *Machine) removed(t *topic) {
	m.log.Info("topic deleted", zap.String("topic", t.name))
	m.unwatch(t)
	m.reign.remove(t)
	m.announce(znode.Topics+"/"+t.name, nil, false)
	m.release(t)
}
