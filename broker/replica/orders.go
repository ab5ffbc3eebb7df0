package replica

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/replica/fetcher"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Leader epochs with a meaning of their own (LeaderAndIsr of Apache Kafka).
const (
	noEpoch           = -1 // StopReplica of a version without epochs
	epochDuringDelete = -2 // the topic goes, whatever the epoch
)

// change is one partition of a LeaderAndISR order.
type change struct {
	state *kmsg.LeaderAndISRRequestTopicPartition
	tp    log.TopicPartition
	id    log.TopicID
	p     *Partition // nil until its log is there
	isNew bool
	led   bool // before
	next  *role
	err   error

	// repeated says that the order tells what is so already: a new controller does, of every partition.
	repeated bool
	// outdated says that the store has a newer state than the order, whose own order will come: nothing is done then.
	outdated bool
}

// LeaderAndISR carries out a controller's order that this broker lead or follow partitions, creating the logs that are
// missing. It returns when the new leaders serve. connection is the number of the one that the order came on, which grows from one
// to the next; 0 for this broker's own controller. It returns nil, and does nothing, if the controller has given the order up: then
// that connection is to be closed.
//
// Errors per partition: STALE_CONTROLLER_EPOCH for a leader epoch that is not newer, INCONSISTENT_TOPIC_ID,
// UNKNOWN_TOPIC_OR_PARTITION for a partition of which this broker is no replica, KAFKA_STORAGE_ERROR; for the whole
// order STALE_CONTROLLER_EPOCH. After ReplicaManager.becomeLeaderOrFollower.
func (m *Manager) LeaderAndISR(r *kmsg.LeaderAndISRRequest, connection uint64) *kmsg.LeaderAndISRResponse {
	m.orders.Lock()
	defer m.orders.Unlock()
	if m.givenUp(r.ControllerID, r.ControllerEpoch, connection) {
		return nil
	}
	changes := changesOf(r)
	if m.deposed(r.ControllerID, r.ControllerEpoch) {
		for i := range changes {
			changes[i].err = kerr.StaleControllerEpoch
		}
		response := leaderAndISRResponse(r, changes)
		response.ErrorCode = kerr.StaleControllerEpoch.Code
		return response
	}
	for i := range changes {
		changes[i].err = m.admit(&changes[i])
	}
	m.createLogs(changes)
	m.apply(changes)
	return leaderAndISRResponse(r, changes)
}

// UpdateMetadata carries out a controller's order about what clients are told, which apply does. It is an order like the
// others: it waits for the one before, and an old controller's is refused with STALE_CONTROLLER_EPOCH; nil is as with LeaderAndISR.
// After ReplicaManager.maybeUpdateMetadataCache.
func (m *Manager) UpdateMetadata(r *kmsg.UpdateMetadataRequest, connection uint64, apply func()) *kmsg.UpdateMetadataResponse {
	m.orders.Lock()
	defer m.orders.Unlock()
	if m.givenUp(r.ControllerID, r.ControllerEpoch, connection) {
		return nil
	}
	response := kmsg.NewPtrUpdateMetadataResponse()
	response.Version = r.Version
	if m.deposed(r.ControllerID, r.ControllerEpoch) {
		response.ErrorCode = kerr.StaleControllerEpoch.Code
		return response
	}
	apply()
	m.reconsider()
	return response
}

// reconsider moves high watermarks that wait for a follower outside the ISR which is about to join it: brokers may have gone since, and
// with them what would look at the high watermark next.
func (m *Manager) reconsider() {
	for _, ps := range *m.topics.Load() {
		for _, p := range ps {
			if p == nil {
				continue
			}
			if r := p.role.Load(); r.leads && len(r.isr) < len(r.replicas) {
				p.advance()
			}
		}
	}
}

// deposed says whether an order comes from a controller that has a successor. Of the three fences against such it is the
// one that needs neither the store nor a new registration of this broker. The caller holds orders.
func (m *Manager) deposed(controller, epoch int32) bool {
	if epoch < m.orders.controllerEpoch {
		m.logger.Warn("an order of an old controller is ignored", zap.Int32("broker", controller), zap.Int32("controller_epoch", epoch),
			zap.Int32("current_epoch", m.orders.controllerEpoch))
		return true
	}
	m.orders.controllerEpoch = epoch
	return false
}

// givenUp says whether an order comes on an older connection than others of the same controller did. A controller has one connection to a
// broker, and makes another when it has given up an order on the one before, to repeat it there. If the first one came to be carried out
// after the repetition and what followed it, it would undo that: only roles are numbered. Kafka carries it out. A controller with two
// living connections, which 3.9's is not, would lose the older one and repeat on a new one. The caller holds orders.
func (m *Manager) givenUp(controller, epoch int32, connection uint64) bool {
	if connection == 0 || epoch < m.orders.controllerEpoch {
		return false
	}
	if epoch == m.orders.controllerEpoch && connection < m.orders.connection {
		m.logger.Warn("an order that the controller gave up and repeated comes late and is ignored", zap.Int32("broker", controller),
			zap.Int32("controller_epoch", epoch))
		return true
	}
	m.orders.connection = connection
	return false
}

// ControllerEpoch is that of the newest controller whose orders were carried out, 0 before the first.
func (m *Manager) ControllerEpoch() int32 {
	m.orders.Lock()
	defer m.orders.Unlock()
	return m.orders.controllerEpoch
}

// changesOf lists the partitions of every version's form.
func changesOf(r *kmsg.LeaderAndISRRequest) []change {
	var changes []change
	for i := range r.PartitionStates {
		s := &r.PartitionStates[i]
		changes = append(changes, change{state: s, tp: log.TopicPartition{Topic: s.Topic, Partition: s.Partition}})
	}
	for i := range r.TopicStates {
		t := &r.TopicStates[i]
		for j := range t.PartitionStates {
			s := &t.PartitionStates[j]
			tp := log.TopicPartition{Topic: t.Topic, Partition: s.Partition}
			changes = append(changes, change{state: s, tp: tp, id: t.TopicID})
		}
	}
	return changes
}

// admit judges one change and notes the role that it leads to.
func (m *Manager) admit(c *change) error {
	if m.offline(c) {
		return log.ErrStorage
	}
	current := int32(noEpoch)
	if c.p = m.find(c.tp.Topic, c.tp.Partition); c.p != nil {
		old := c.p.role.Load()
		current, c.led = old.leaderEpoch, old.leads
		c.outdated = c.state.ZKVersion < old.partitionEpoch
		if c.id != (log.TopicID{}) && c.p.id != (log.TopicID{}) && c.id != c.p.id {
			return log.ErrInconsistentTopicID
		}
	}
	switch {
	case c.tp.Partition < 0 || c.tp.Partition >= metadata.MaxPartitions || !slices.Contains(c.state.Replicas, m.options.BrokerID):
		return ErrUnknownPartition
	case c.state.LeaderEpoch <= current:
		c.repeated = c.state.LeaderEpoch == current
		return kerr.StaleControllerEpoch
	}
	c.next = &role{
		leads: c.state.Leader == m.options.BrokerID, leader: c.state.Leader, leaderEpoch: c.state.LeaderEpoch,
		partitionEpoch: c.state.ZKVersion, isr: c.state.ISR, replicas: c.state.Replicas,
		moving: len(c.state.AddingReplicas)+len(c.state.RemovingReplicas) > 0, adding: c.state.AddingReplicas,
	}
	return nil
}

// createLogs makes the partitions that are not held yet, all at once.
func (m *Manager) createLogs(changes []change) {
	var news []log.New
	var of []*change
	for i := range changes {
		if c := &changes[i]; c.err == nil && c.p == nil {
			if c.err = m.setAside(c); c.err != nil {
				continue
			}
			news = append(news, log.New{TopicPartition: c.tp, TopicID: c.id, Config: m.options.ConfigFor(c.tp.Topic)})
			of = append(of, c)
		}
	}
	if len(news) == 0 {
		return
	}
	lost := m.lost(of)
	errs := m.logs.Create(news)
	m.tellRemade(lost)
	for i, c := range of {
		if c.err = errs[i]; c.err != nil {
			continue
		}
		l := m.logs.Get(c.tp)
		l.SetConfig(news[i].Config) // one found on disk may have been opened with another
		c.p = &Partition{manager: m, tp: c.tp, id: c.id, log: l}
		tp := c.tp
		c.p.alive = func(broker int32) bool { return m.options.Online(broker, tp) }
		c.p.minISR.Store(int32(m.options.MinISR(c.tp.Topic)))
		c.isNew = true
	}
}

// setAside makes room for a new replica where the log of a former topic of that name was left: a topic that was deleted while this
// broker was away, as another controller saw it. (Kafka refuses the replica until somebody has removed the log by hand.) A single node
// refuses, too: what lies there may be waiting for its import.
func (m *Manager) setAside(c *change) error {
	l := m.logs.Get(c.tp)
	if m.fetchers == nil || !c.state.IsNew || l == nil || c.id == (log.TopicID{}) || l.TopicID() == (log.TopicID{}) || l.TopicID() == c.id {
		return nil
	}
	m.logger.Warn("the log of a former topic of this name is in the way of a new replica; it is set aside", zap.String("topic", c.tp.Topic),
		zap.Int32("partition", c.tp.Partition), zap.Stringer("topic_id", c.id), zap.Stringer("former", l.TopicID()), zap.String("dir", l.Dir()))
	return m.logs.SetAside(c.tp)
}

// lost lists the partitions among changes that are not new and that no log directory holds.
func (m *Manager) lost(changes []*change) []log.TopicPartition {
	var list []log.TopicPartition
	for _, c := range changes {
		if !c.state.IsNew && m.logs.Get(c.tp) == nil {
			list = append(list, c.tp)
		}
	}
	return list
}

// tellRemade tells of partitions that were lost and are made anew, empty. Kafka does so without a word.
func (m *Manager) tellRemade(lost []log.TopicPartition) {
	if len(lost) == 0 {
		return
	}
	topics := map[string]bool{}
	for _, tp := range lost {
		topics[tp.Topic] = true
	}
	names := slices.Sorted(maps.Keys(topics))
	if len(names) > topicsShown {
		names = append(names[:topicsShown], "…")
	}
	m.logger.Error("partitions that this broker is to hold were in none of its log directories and are made anew, empty. If a directory was "+
		"taken out of log.dirs or not mounted, stop the broker now and put it back: what it holds is not served, and on a single broker "+
		"it is the only copy", zap.Int("partitions", len(lost)), zap.Strings("topics", names))
}

// topicsShown is how many names one line may hold.
const topicsShown = 5

// apply gives the partitions their roles, publishes the new ones, has followers fetch and tells about leaderships.
func (m *Manager) apply(changes []change) {
	var news []*Partition
	for i := range changes {
		c := &changes[i]
		if c.err == nil && !c.outdated {
			c.err = c.p.take(c.next)
		}
		switch {
		case c.repeated:
		case c.err != nil:
			m.logger.Warn("a partition could not take its role", zap.String("topic", c.tp.Topic),
				zap.Int32("partition", c.tp.Partition), zap.Int32("leader_epoch", c.state.LeaderEpoch), zap.Error(c.err))
		case c.isNew:
			news = append(news, c.p)
		}
	}
	m.host(news)
	m.fetch(changes)
	for i := range changes {
		if c := &changes[i]; c.err == nil && !c.outdated && (c.led || c.next.leads) {
			m.options.OnLeader(c.tp, c.next.leaderEpoch, c.next.leads)
		}
	}
}

// take gives a partition its role and wakes who waited under the old one.
func (p *Partition) take(r *role) error {
	if r.leads {
		if err := p.lead(r); err != nil {
			return err
		}
	} else {
		p.follow(r)
	}
	p.roleChanged()
	return nil
}

// fetch has the followers among the changed partitions fetch from their leaders, and nobody else.
func (m *Manager) fetch(changes []change) {
	if m.fetchers == nil {
		return
	}
	follow := map[int32][]fetcher.Assignment{}
	var forget []log.TopicPartition
	for i := range changes {
		switch c := &changes[i]; {
		case c.err != nil || c.outdated:
		case c.next.leads || c.next.leader < 0:
			forget = append(forget, c.tp)
		default:
			follow[c.next.leader] = append(follow[c.next.leader], fetcher.Assignment{
				TopicPartition: c.tp, TopicID: c.p.id, LeaderEpoch: c.next.leaderEpoch, Replica: &follower{c.p},
			})
		}
	}
	m.fetchers.Forget(forget)
	for _, leader := range slices.Sorted(maps.Keys(follow)) {
		m.fetchers.Follow(leader, follow[leader])
	}
}

func leaderAndISRResponse(r *kmsg.LeaderAndISRRequest, changes []change) *kmsg.LeaderAndISRResponse {
	response := kmsg.NewPtrLeaderAndISRResponse()
	response.Version = r.Version
	at := map[log.TopicID]int{}
	for i := range changes {
		c := &changes[i]
		p := kmsg.NewLeaderAndISRResponseTopicPartition()
		p.Topic, p.Partition, p.ErrorCode = c.tp.Topic, c.tp.Partition, errcode.Of(c.err)
		if r.Version < 5 {
			response.Partitions = append(response.Partitions, p)
			continue
		}
		j, ok := at[c.id]
		if !ok {
			j = len(response.Topics)
			at[c.id] = j
			t := kmsg.NewLeaderAndISRResponseTopic()
			t.TopicID = c.id
			response.Topics = append(response.Topics, t)
		}
		response.Topics[j].Partitions = append(response.Topics[j].Partitions, p)
	}
	return response
}

// stop is one partition of a StopReplica order.
type stop struct {
	tp     log.TopicPartition
	epoch  int32
	remove bool
}

// StopReplica carries out a controller's order to let go of partitions, and of their logs where it says so. Whoever
// waits on them is answered.
//
// Errors per partition: FENCED_LEADER_EPOCH; for the whole order STALE_CONTROLLER_EPOCH; nil is as with LeaderAndISR. After
// ReplicaManager.stopReplicas.
func (m *Manager) StopReplica(r *kmsg.StopReplicaRequest, connection uint64) *kmsg.StopReplicaResponse {
	m.orders.Lock()
	defer m.orders.Unlock()
	if m.givenUp(r.ControllerID, r.ControllerEpoch, connection) {
		return nil
	}
	response := kmsg.NewPtrStopReplicaResponse()
	response.Version = r.Version
	if m.deposed(r.ControllerID, r.ControllerEpoch) {
		response.ErrorCode = kerr.StaleControllerEpoch.Code
		return response
	}
	var gone []*Partition
	var stopped, logs []log.TopicPartition
	for _, s := range stopsOf(r) {
		answer := kmsg.NewStopReplicaResponsePartition()
		answer.Topic, answer.Partition = s.tp.Topic, s.tp.Partition
		p := m.find(s.tp.Topic, s.tp.Partition)
		switch {
		case p != nil && p.role.Load().failed:
			answer.ErrorCode = kerr.KafkaStorageError.Code
		case p != nil && s.epoch >= 0 && s.epoch < p.role.Load().leaderEpoch:
			answer.ErrorCode = kerr.FencedLeaderEpoch.Code
		case s.remove:
			stopped, logs = append(stopped, s.tp), append(logs, s.tp)
			if p != nil {
				gone = append(gone, p)
			}
		default:
			stopped = append(stopped, s.tp)
		}
		response.Partitions = append(response.Partitions, answer)
	}
	if m.fetchers != nil {
		m.fetchers.Forget(stopped)
	}
	m.remove(gone, logs)
	return response
}

func stopsOf(r *kmsg.StopReplicaRequest) []stop {
	var stops []stop
	for _, t := range r.Topics {
		add := func(partition, epoch int32, remove bool) {
			stops = append(stops, stop{log.TopicPartition{Topic: t.Topic, Partition: partition}, epoch, remove})
		}
		switch {
		case r.Version == 0:
			add(t.Partition, noEpoch, r.DeletePartitions)
		case r.Version < 3:
			for _, p := range t.Partitions {
				add(p, noEpoch, r.DeletePartitions)
			}
		default:
			for _, p := range t.PartitionStates {
				add(p.Partition, p.LeaderEpoch, p.Delete)
			}
		}
	}
	return stops
}

// remove ends partitions: first nobody finds them, then who waits on them is answered, then the files go.
func (m *Manager) remove(gone []*Partition, logs []log.TopicPartition) {
	m.drop(gone)
	for _, p := range gone {
		old := p.role.Load()
		p.follow(&role{deleted: true, leader: -1, leaderEpoch: old.leaderEpoch})
		p.roleChanged()
		if old.leads {
			m.options.OnLeader(p.tp, old.leaderEpoch, false)
		}
	}
	if len(logs) > 0 {
		m.logs.Delete(logs)
	}
}
