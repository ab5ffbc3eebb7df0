package controller

import (
	"errors"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// createTopics serves CreateTopics.
func (m *Machine) createTopics(r *kmsg.CreateTopicsRequest, permit Permit, done func(*kmsg.CreateTopicsResponse)) {
	resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
	name := func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic }
	twice, topics := duplicates(r.Topics, name), r.Topics
	if m.o.Settings.RefuseUnknownReplicas {
		topics = once(topics, name)
	}
	for i := range topics {
		rt := kmsg.NewCreateTopicsResponseTopic()
		rt.Topic = topics[i].Topic
		resp.Topics = append(resp.Topics, rt)
	}
	q := m.newRequest(len(topics), r.TimeoutMillis, func(i int, code int16, message *string) {
		rt := &resp.Topics[i]
		rt.ErrorCode, rt.ErrorMessage = code, message
		if code != 0 {
			rt.TopicID, rt.NumPartitions, rt.ReplicationFactor, rt.Configs = [16]byte{}, -1, -1, []kmsg.CreateTopicsResponseTopicConfig{}
		}
	}, func(m *Machine) { m.do(Answer{resp, func() { done(resp) }}) })
	if !m.active() {
		q.abandon(m)
		return
	}
	if err := m.tooManyPartitions(r); err != nil {
		q.all(m, err)
		q.begin(m, r.TimeoutMillis)
		return
	}
	var list []*creation
	for i := range topics {
		c, err := m.newCreation(&topics[i], twice)
		if err == nil && !r.ValidateOnly {
			err = permit.take(len(c.t.parts))
		}
		if err != nil {
			q.result(m, i, err)
			continue
		}
		rt := &resp.Topics[i]
		rt.NumPartitions, rt.ReplicationFactor = int32(len(c.t.parts)), int16(len(c.t.parts[0].replicas))
		if r.Version >= 5 {
			rt.Configs = m.o.Configs.Describe(c.configs)
		}
		if r.ValidateOnly {
			q.result(m, i, nil)
			continue
		}
		rt.TopicID = c.t.id
		c.committed = func(err error) {
			if err != nil {
				q.result(m, i, err)
			} else if q.begun(m, i) {
				m.await(c.t, 0, int32(len(c.t.parts)), func() { q.result(m, i, nil) })
			}
		}
		m.reign.creating[c.t.name] = c
		list = append(list, c)
	}
	q.begin(m, r.TimeoutMillis)
	m.create(list)
}

// active says whether administrative requests are served here.
func (m *Machine) active() bool { return m.reign != nil && m.reign.loaded }

// creation is a topic on its way into the store.
type creation struct {
	t         *topic
	configs   map[string]string
	states    []znode.State // of all partitions, if they go with the same commit
	setConfig bool          // the configuration's node is there already
	committed func(error)
}

// newCreation checks a topic of a request and decides what it gets.
func (m *Machine) newCreation(rt *kmsg.CreateTopicsRequestTopic, twice map[string]bool) (*creation, error) {
	name := rt.Topic
	switch {
	case name == clusterMetadataName:
		return nil, errcode.Newf(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", name)
	case twice[name]:
		return nil, errcode.New(kerr.InvalidRequest, "Found multiple entries for this topic.")
	case m.reign.topics[name] != nil && m.reign.topics[name].deletion == nil:
		return nil, errExists(name)
	}
	if m.o.Settings.RefuseUnknownReplicas { // 4.4 looks at the name first, 3.9 last
		if err := m.validateName(name); err != nil {
			return nil, err
		}
	}
	configs, err := m.creationConfigs(rt.Configs)
	if err != nil {
		return nil, err
	}
	if m.o.Settings.RefuseUnknownReplicas { // and at the configuration before the replicas
		if err := m.o.Configs.Validate(configs); err != nil {
			return nil, err
		}
	}
	replicas, err := m.assignment(rt)
	if err != nil {
		return nil, err
	}
	if err := m.validateName(name); err != nil {
		return nil, err
	}
	if err := m.o.Configs.Validate(configs); err != nil {
		return nil, err
	}
	return &creation{t: newTopic(name, 0, znode.Topic{ID: m.newID(), Replicas: replicas}), configs: configs}, nil
}

// newID makes a topic id: a random UUID (version 4) whose text does not begin with a dash, for the sake of command lines.
func (m *Machine) newID() (id [16]byte) {
	for {
		for i := range id {
			id[i] = byte(m.rand.Uint32())
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if znode.FormatID(id)[0] != '-' {
			return id
		}
	}
}

// create commits topics: configuration, topic and, unless there are many partitions, all states in one commit, so that a topic is
// there whole or not at all. The states of a large topic follow; if we die in between the next reign completes it.
func (m *Machine) create(list []*creation) {
	if len(list) == 0 {
		return
	}
	txns := make([]store.Txn, len(list))
	for i, c := range list {
		txns[i] = m.creationOps(c)
	}
	m.command(txns, func(outcomes []outcome) {
		var again, unsure []*creation
		done := 0
		for i, c := range list {
			switch o := outcomes[i]; {
			case o.err == nil:
				m.created(c)
				done++
			case o.at == opConfig && errors.Is(o.err, store.ErrExists), o.at == opConfig && errors.Is(o.err, store.ErrNoNode):
				c.setConfig = !c.setConfig
				again = append(again, c)
			case o.unknown(), o.at == opTopic && errors.Is(o.err, store.ErrExists):
				unsure = append(unsure, c)
			default:
				m.notCreated(c, o.err)
			}
		}
		if done > 0 {
			m.log.Info("topics created", zap.Int("count", done), zap.String("topic", list[0].t.name))
		}
		m.create(again)
		m.lookForTopics(unsure)
	})
}

// Positions in a commit that creates a topic.
const (
	opConfig = 0
	opTopic  = 1
)

func (m *Machine) creationOps(c *creation) store.Txn {
	t := c.t
	config := store.Create(znode.TopicConfigPath(t.name), znode.EncodeConfig(c.configs), store.Persistent)
	if c.setConfig {
		config = store.Set(config.Path, config.Data, store.AnyVersion)
	}
	txn := store.Txn{config, store.Create(znode.TopicPath(t.name), t.node().Encode(), store.Persistent)}
	c.states = nil
	if len(t.parts) > statesPerCommit {
		return txn
	}
	states := make([]znode.State, len(t.parts))
	for p := range t.parts {
		var ok bool
		if states[p], ok = m.decide(ref{t, int32(p)}, false); !ok {
			return txn // no replica lives: the state comes with the broker
		}
	}
	c.states = states
	txn = append(txn, store.Create(znode.PartitionsPath(t.name), nil, store.Persistent))
	for p, s := range states {
		txn = append(txn, createState(ref{t, int32(p)}, s)...)
	}
	return txn
}

// lookForTopics finds out whether commits happened: a topic with our id is ours.
func (m *Machine) lookForTopics(list []*creation) {
	if len(list) == 0 {
		return
	}
	paths := make([]string, len(list))
	for i, c := range list {
		paths[i] = znode.TopicPath(c.t.name)
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		var again []*creation
		for i, c := range list {
			switch z, err := znode.DecodeTopic(nodes[i].Data); {
			case !nodes[i].Exists:
				again = append(again, c)
			case err == nil && z.ID == c.t.id:
				m.created(c)
			default:
				m.notCreated(c, errExists(c.t.name))
				m.topicListChanged() // somebody else created it
			}
		}
		m.create(again)
	})
}

// created takes over a topic that is in the store, and gives the orders that create its logs.
func (m *Machine) created(c *creation) {
	t := c.t
	delete(m.reign.creating, t.name)
	m.reign.add(t)
	m.watchLater(t)
	m.announce(znode.Topics+"/"+t.name, c.configs, true)
	t.hasDir = c.states != nil
	if c.states != nil {
		m.statesCreated(t.refs(), c.states)
	}
	// Creates the states that are missing, and looks again at leaders that died while the commit was under way.
	m.settle(t.refs(), true)
	c.committed(nil)
}

func (m *Machine) notCreated(c *creation, err error) {
	delete(m.reign.creating, c.t.name)
	c.committed(err)
}
