package controller

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
)

// changeExpiry is how long a change notification stays. After kafka.common.ZkNodeChangeNotificationListener.
const changeExpiry = 15 * time.Minute

// configView is what this broker knows of configurations: those that were announced to the Observer.
type configView struct {
	values  map[string]map[string]string // by path below /config
	last    string                       // name of the last notification that was processed
	changes map[string]int64             // notifications that exist, with their ctime in ms
	reading bool                         // the list of notifications is being read
	again   bool                         // and changed meanwhile

	ownReading, ownAgain bool // the same of what 3.9 does not know
}

// own says whether a kind of configuration is one that 3.9 does not know, in a store that a 3.9 broker may read. Those have a place and
// a notification of their own: a 3.9 broker reads no further notifications after one that it does not understand.
func (m *Machine) own(kind string) bool {
	return !m.o.Settings.Embedded && slices.Contains(znode.EmbeddedConfigKinds, kind)
}

// configDir is the node above the configurations of a kind.
func (m *Machine) configDir(kind string) string {
	if m.own(kind) {
		return znode.OwnConfigPath + "/" + kind
	}
	return znode.ConfigPath + "/" + kind
}

// configPath is the node of an entity.
func (m *Machine) configPath(entity string) string {
	kind, rest, _ := strings.Cut(entity, "/")
	return m.configDir(kind) + "/" + rest
}

func newConfigView() configView {
	return configView{values: map[string]map[string]string{}, changes: map[string]int64{}}
}

// loadConfigs reads every configuration, announces it and calls then. Notifications are watched before anything is read, so no
// change is lost.
func (m *Machine) loadConfigs(then func()) {
	m.do(Watch{znode.ConfigChangesPath, store.Children})
	if !m.o.Settings.Embedded {
		m.do(Watch{znode.OwnConfigPath, store.Data})
	}
	paths := []string{znode.ConfigChangesPath}
	kinds := slices.Concat(znode.ConfigKinds, znode.EmbeddedConfigKinds)
	for _, kind := range kinds {
		paths = append(paths, m.configDir(kind))
	}
	m.read(inSession, childrens(paths...), func(nodes []store.Node) {
		for _, name := range nodes[0].Children {
			m.configs.last = max(m.configs.last, name)
			m.configs.changes[name] = m.now.UnixMilli() // when we met it: it goes a little later than it could
		}
		var entities, users []string
		for i, kind := range kinds {
			for _, name := range sortedChildren(nodes[i+1]) {
				entities = append(entities, kind+"/"+name)
				if kind == znode.Users {
					users = append(users, znode.ConfigEntityPath(kind+"/"+name+"/"+znode.Clients))
				}
			}
		}
		m.loadUserClients(users, entities, then)
	})
}

// loadUserClients adds the clients that users have configurations for, then reads all entities.
func (m *Machine) loadUserClients(users, entities []string, then func()) {
	m.read(inSession, childrens(users...), func(nodes []store.Node) {
		for _, n := range nodes {
			for _, client := range sortedChildren(n) {
				entities = append(entities, strings.TrimPrefix(n.Path, znode.ConfigPath+"/")+"/"+client)
			}
		}
		m.readConfigs(inSession, entities, then)
	})
}

// readConfigs reads entities, announces what differs from what is known, and calls then.
func (m *Machine) readConfigs(s scope, entities []string, then func()) {
	paths := make([]string, len(entities))
	for i, e := range entities {
		paths[i] = m.configPath(e)
	}
	m.read(s, datas(paths...), func(nodes []store.Node) {
		for i, n := range nodes {
			values, err := znode.DecodeConfig(n.Data)
			if err != nil {
				m.log.Error("a configuration in the metadata store cannot be read; it is left out", zap.String("path", n.Path), zap.Error(err))
				continue
			}
			m.announce(entities[i], values, n.Exists)
		}
		then()
	})
}

// announce tells the Observer of a configuration, if it is news.
func (m *Machine) announce(entity string, values map[string]string, exists bool) {
	old, known := m.configs.values[entity]
	if known == exists && maps.Equal(old, values) {
		return
	}
	kind, name, err := znode.ParseConfigEntity(entity)
	if err != nil {
		m.log.Error("a configuration has no name that can be read", zap.Error(err))
		return
	}
	if !exists {
		delete(m.configs.values, entity)
		m.do(NotifyConfig{kind, name, nil})
		return
	}
	m.configs.values[entity] = values
	if values == nil {
		values = map[string]string{}
	}
	m.do(NotifyConfig{kind, name, values})
	m.uncleanAllowed(kind, name, values)
}

// topicConfig returns a topic's overrides.
func (m *Machine) topicConfig(topic string) map[string]string {
	return m.configs.values[znode.Topics+"/"+topic]
}

// configsChanged reads the notifications that have come since, and what they name.
func (m *Machine) configsChanged() {
	if m.session == 0 || m.configs.reading {
		m.configs.again = m.configs.reading
		return
	}
	m.configs.reading, m.configs.again = true, false
	m.read(always, childrens(znode.ConfigChangesPath), func(nodes []store.Node) {
		var paths []string
		present := make(map[string]int64, len(nodes[0].Children))
		for _, name := range sortedChildren(nodes[0]) {
			if ctime, known := m.configs.changes[name]; known {
				present[name] = ctime
			} else if name > m.configs.last {
				paths = append(paths, znode.ConfigChangesPath+"/"+name)
			}
		}
		m.configs.changes = present
		m.readChanges(paths)
	})
}

// ownConfigsChanged reads all configurations that 3.9 does not know: there are few, and every change of one is told of alike.
func (m *Machine) ownConfigsChanged() {
	c := &m.configs
	if c.ownReading {
		c.ownAgain = true
		return
	}
	c.ownReading, c.ownAgain = true, false
	paths := make([]string, len(znode.EmbeddedConfigKinds))
	for i, kind := range znode.EmbeddedConfigKinds {
		paths[i] = m.configDir(kind)
	}
	m.read(always, childrens(paths...), func(nodes []store.Node) {
		var entities []string
		for i, kind := range znode.EmbeddedConfigKinds {
			for _, name := range sortedChildren(nodes[i]) {
				entities = append(entities, kind+"/"+name)
			}
		}
		for entity := range c.values {
			if kind, _, _ := strings.Cut(entity, "/"); m.own(kind) && !slices.Contains(entities, entity) {
				entities = append(entities, entity) // gone, it seems
			}
		}
		m.readConfigs(always, entities, func() {
			if c.ownReading = false; c.ownAgain {
				m.ownConfigsChanged()
			}
		})
	})
}

func (m *Machine) readChanges(paths []string) {
	m.read(always, datas(paths...), func(nodes []store.Node) {
		var entities []string
		for _, n := range nodes {
			name := n.Path[len(znode.ConfigChangesPath)+1:]
			m.configs.last = max(m.configs.last, name)
			if !n.Exists {
				continue
			}
			m.configs.changes[name] = n.Stat.CtimeMs
			entity, err := znode.DecodeConfigChange(n.Data)
			if err != nil {
				m.log.Error("a configuration change cannot be read; it is left out", zap.String("path", n.Path), zap.Error(err))
				continue
			}
			entities = append(entities, entity)
		}
		m.readConfigs(always, entities, func() {
			m.purgeChanges()
			if m.configs.reading = false; m.configs.again {
				m.configsChanged()
			}
		})
	})
}

// purgeChanges deletes notifications that every broker has seen long since. It does not matter who does it, or whether.
func (m *Machine) purgeChanges() {
	var txns []store.Txn
	for name, ctime := range m.configs.changes {
		if m.now.UnixMilli()-ctime > changeExpiry.Milliseconds() {
			delete(m.configs.changes, name)
			txns = append(txns, store.Txn{store.Delete(znode.ConfigChangesPath+"/"+name, store.AnyVersion)})
		}
	}
	if len(txns) > 0 {
		m.commit(always, txns, func([]store.Outcome) {})
	}
}

// alteration is an AlterConfigs on its way.
type alteration struct {
	kind, entity string
	change       func(map[string]string) (map[string]string, error)
	validateOnly bool
	own          bool // of a kind that 3.9 does not know
	lost         int  // replies, one after the other
	done         func(error)
	letGo        func()
}

func (a *alteration) answer(m *Machine, err error) {
	a.letGo()
	m.do(Answer{Response: err, reply: func() { a.done(err) }})
}

// beginAlteration serves AlterConfigs.
func (m *Machine) beginAlteration(a *alteration) {
	a.letGo = m.hold(func() { a.answer(m, errNotController) })
	m.alterConfigs(a)
}

// alterConfigs reads, changes and writes, again and again until nobody else was faster.
func (m *Machine) alterConfigs(a *alteration) {
	path, above := m.configPath(a.entity), m.configDir(a.kind)
	if !store.ValidPath(path) {
		a.answer(m, errcode.New(kerr.InvalidRequest, "The name is too long to be stored, or one that cannot be."))
		return
	}
	if a.own = m.own(a.kind); a.own {
		above = "/"
	}
	paths := []string{path}
	for p := store.Parent(path); p != above; p = store.Parent(p) {
		paths = append(paths, p) // users/U and users/U/clients may be missing
	}
	reqs := datas(paths...)
	if a.kind == znode.Users {
		reqs = append(reqs, childrens(paths...)...)
	}
	m.read(always, reqs, func(nodes []store.Node) {
		nodes, children := nodes[:len(paths)], nodes[len(paths):]
		old, err := znode.DecodeConfig(nodes[0].Data)
		if err != nil {
			a.answer(m, err)
			return
		}
		values, err := a.change(old)
		if err != nil || a.validateOnly {
			a.answer(m, err)
			return
		}
		txn, gone := a.write(nodes, children, values)
		m.commit(always, []store.Txn{txn}, func(outcomes []store.Outcome) {
			m.altered(a, values, gone, outcomes[0].Err)
		})
	})
}

// write makes the commit: the node, and a notification for all brokers. gone says that the node is deleted. nodes are it and those above it,
// children what is below each, of users.
func (a *alteration) write(nodes, children []store.Node, values map[string]string) (txn store.Txn, gone bool) {
	if a.kind == znode.Topics {
		txn = append(txn, store.Check(znode.TopicPath(a.entity[len(znode.Topics)+1:]), store.AnyVersion))
	}
	for i := len(nodes) - 1; i > 0; i-- {
		if !nodes[i].Exists {
			txn = append(txn, store.Create(nodes[i].Path, nil, store.Persistent))
		}
	}
	n := nodes[0]
	switch {
	case len(values) == 0 && !a.stays(children):
		gone = true
		if !n.Exists {
			return txn[:0], true
		}
		txn = append(txn, store.Delete(n.Path, n.Stat.Version))
		txn = append(txn, emptiedAbove(nodes, children)...)
	case n.Exists:
		txn = append(txn, store.Set(n.Path, znode.EncodeConfig(values), n.Stat.Version))
	default:
		txn = append(txn, store.Create(n.Path, znode.EncodeConfig(values), store.Persistent))
	}
	if a.own {
		return append(txn, store.Set(znode.OwnConfigPath, nil, store.AnyVersion)), gone
	}
	return append(txn, store.Create(znode.ConfigChangePrefix, znode.EncodeConfigChange(a.entity), store.Sequential)), gone
}

// stays says whether the node stays when it has no values left: those of topics and brokers do, and a user's while clients are below it.
func (a *alteration) stays(children []store.Node) bool {
	switch a.kind {
	case znode.Topics, znode.Brokers:
		return true
	case znode.Users:
		return len(children[0].Children) > 0
	}
	return false
}

// emptiedAbove deletes what is only there for a user's client that goes: the folder of the user's clients, and a user without values. After
// AdminZkClient.tryCleanQuotaNodes.
func emptiedAbove(nodes, children []store.Node) (txn store.Txn) {
	for i := 1; i < len(children) && len(children[i].Children) == 1; i++ {
		if values, err := znode.DecodeConfig(nodes[i].Data); err != nil || len(values) > 0 {
			break
		}
		txn = append(txn, store.Delete(nodes[i].Path, nodes[i].Stat.Version))
	}
	return txn
}

// maxLostReplies is how many replies to an alteration may get lost before it is given up. ZooKeeper closes the connection on what is
// larger than its jute.maxbuffer, every time; our limit is the default of that, and the servers' may be lower.
const maxLostReplies = 5

// altered answers, or tries again. After a lost reply doing it again is right either way: change starts from what is there.
func (m *Machine) altered(a *alteration, values map[string]string, gone bool, err error) {
	at := store.FailedOp(err)
	switch {
	case err == nil:
		m.announce(a.entity, values, !gone)
		a.answer(m, nil)
	case at == 0 && a.kind == znode.Topics:
		a.answer(m, errcode.Newf(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", a.entity[len(znode.Topics)+1:]))
	case at >= 0:
		m.alterConfigs(a)
	case errors.Is(err, store.ErrUnknown):
		if a.lost++; a.lost >= maxLostReplies {
			m.log.Error("an alteration of a configuration is given up: the reply was lost each time. Its data may be more than ZooKeeper takes",
				zap.String("entity", a.entity), zap.Int("times", a.lost), zap.Error(err))
			a.answer(m, kerr.RequestTimedOut)
			return
		}
		m.alterConfigs(a)
	case errors.Is(err, store.ErrSessionExpired):
		m.after(always, retryDelay, func() { m.alterConfigs(a) })
	default:
		a.answer(m, err)
	}
}
