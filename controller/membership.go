package controller

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file is what every broker does, elected or not: it sets up the tree, registers, and stands for election.
// After kafka.server.KafkaServer, kafka.zk.KafkaZkClient (registerBroker, registerControllerAndIncrementControllerEpoch) and
// kafka.controller.KafkaController.elect.

// setUp creates what every cluster has, and checks that the store is this cluster's.
func (m *Machine) setUp() {
	paths := znode.Persistent()
	if m.o.Settings.Embedded {
		for _, kind := range znode.EmbeddedConfigKinds {
			paths = append(paths, znode.ConfigPath+"/"+kind)
		}
	}
	m.read(inSession, datas(append(paths, "/cluster", znode.ClusterIDPath)...), func(nodes []store.Node) {
		var txns []store.Txn
		for _, n := range nodes {
			if n.Exists {
				continue
			}
			var data []byte
			if n.Path == znode.ClusterIDPath {
				data = znode.EncodeClusterID(m.o.ClusterID)
			}
			txns = append(txns, store.Txn{store.Create(n.Path, data, store.Persistent)})
		}
		if len(txns) > 0 {
			// Whatever became of them, another broker may have been faster: look again.
			m.commit(inSession, txns, func(outcomes []store.Outcome) {
				for _, o := range outcomes {
					if o.Err != nil && store.FailedOp(o.Err) < 0 {
						m.log.Warn("the metadata store did not take the first nodes; trying again", zap.Error(o.Err))
						m.after(inSession, retryDelay, m.setUp)
						return
					}
				}
				m.setUp()
			})
			return
		}
		id, err := znode.DecodeClusterID(nodes[len(nodes)-1].Data)
		switch {
		case err != nil:
			m.fail(fmt.Errorf("%s in the metadata store: %w", znode.ClusterIDPath, err))
		case id != m.o.ClusterID:
			m.fail(fmt.Errorf("the metadata store belongs to cluster %s, the log directories to cluster %s (meta.properties): "+
				"point the broker at the store or at the directories that belong together", id, m.o.ClusterID))
		default:
			m.checkModes(func() {
				m.loadConfigs(func() {
					m.do(Watch{znode.ControllerPath, store.Data})
					m.do(Watch{znode.FeaturePath, store.Data})
					if !m.o.Settings.Embedded {
						m.do(Watch{znode.ExtensionsPath, store.Data})
					}
					m.isSetUp = true
					m.register()
				})
			})
		}
	})
}

// sessionChanged: without a session there is no registration and no reign; with a new one everything begins again.
func (m *Machine) sessionChanged(e store.SessionEvent) {
	if e.Lost {
		if e.ID != m.session {
			return
		}
		m.log.Warn("the session with the metadata store has expired")
		m.former[m.session] = true
		m.session = 0
		m.setBrokerEpoch(-1) // first: who hears that there is no controller any more may ask for the epoch
		m.resign()
		m.forget(inSession)
		m.electing = false
		return
	}
	m.session = e.ID
	if m.isSetUp {
		m.register()
	} else {
		m.setUp()
	}
}

func (m *Machine) setBrokerEpoch(epoch int64) {
	m.brokerEpoch = epoch
	if m.firstEpoch == 0 && epoch >= 0 {
		m.firstEpoch = epoch
	}
	m.do(Registered{epoch})
}

// register creates the ephemeral node that makes the broker a member. The set that follows the create tells the czxid, which is
// the broker's epoch.
func (m *Machine) register() {
	path := znode.BrokerPath(m.id)
	if m.registration == nil {
		b := m.o.Broker
		b.TimestampMs = m.now.UnixMilli()
		m.registration = b.Encode() // the same for every session of the process: by it we know our own
	}
	txn := store.Txn{store.Create(path, nil, store.Ephemeral), store.Set(path, m.registration, 0)}
	m.commit(inSession, []store.Txn{txn}, func(outcomes []store.Outcome) {
		if err := outcomes[0].Err; err != nil {
			m.registerAgain(err)
			return
		}
		m.setBrokerEpoch(outcomes[0].Results[1].Stat.Czxid)
		m.elect()
	})
}

// registerAgain finds out why a registration failed, and whether it did.
func (m *Machine) registerAgain(err error) {
	path := znode.BrokerPath(m.id)
	if !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUnknown) {
		m.log.Error("the broker could not be registered; trying again", zap.Error(err))
		m.after(inSession, retryDelay, m.register)
		return
	}
	m.read(inSession, datas(path), func(nodes []store.Node) {
		n := nodes[0]
		switch owner := n.Stat.EphemeralOwner; {
		case !n.Exists:
			m.register()
		case owner == m.session:
			m.setBrokerEpoch(n.Stat.Czxid)
			m.elect()
		case m.former[owner], bytes.Equal(n.Data, m.registration): // of a session that has ended, or whose end we have not heard of yet
			m.commit(inSession, []store.Txn{{store.Delete(path, n.Stat.Version)}}, func([]store.Outcome) { m.register() })
		case m.ready: // it was ours before the session expired
			m.log.Error("another broker has registered itself with this broker's id", zap.Int32("broker", m.id), zap.ByteString("registration", n.Data))
			m.after(inSession, retryDelay, m.register)
		case m.waitForLeftover(n):
		default:
			m.fail(fmt.Errorf("a broker with id %d is registered already: %s; give this one another broker.id, "+
				"or wait for the session of a broker that died (zookeeper.session.timeout.ms)", m.id, n.Data))
		}
	})
}

// leftoverPoll is how often a leftover registration is looked at, leftoverSlack how much longer than a session it may take to vanish.
const (
	leftoverPoll  = 250 * time.Millisecond
	leftoverSlack = 3 * time.Second
)

// waitForLeftover waits as long as a registration that is in the way can belong to a broker that died: this one, started again
// before its old session ran out. What stays longer belongs to a living broker; then it reports false.
func (m *Machine) waitForLeftover(n store.Node) bool {
	timeout := m.o.Settings.SessionTimeout
	switch {
	case timeout <= 0:
		return false
	case m.leftover == 0:
		m.log.Info("a registration with this broker's id is still there; waiting for the session that it belongs to to run out",
			zap.Int32("broker", m.id), zap.Duration("longest", timeout+leftoverSlack), zap.ByteString("registration", n.Data))
	case m.leftover > timeout+leftoverSlack:
		return false
	}
	m.leftover += leftoverPoll // not by the wall clock, which may jump
	m.after(inSession, leftoverPoll, m.register)
	return true
}

// controllerChanged: the node of the active controller appeared, changed or vanished.
func (m *Machine) controllerChanged() {
	if m.session == 0 || m.brokerEpoch < 0 {
		return
	}
	if m.reign == nil {
		m.elect()
		return
	}
	reign := m.reign
	m.read(inReign, datas(znode.ControllerPath), func(nodes []store.Node) {
		if m.reign == reign && (!nodes[0].Exists || nodes[0].Stat.EphemeralOwner != m.session) {
			m.log.Warn("the node of this controller is gone; it gives up")
			m.resign()
			m.elect()
		}
	})
}

// elect finds out who the active controller is, and stands if there is none.
func (m *Machine) elect() {
	if m.electing || m.session == 0 {
		m.electAgain = m.electing
		return
	}
	m.electing, m.electAgain = true, false
	m.read(inSession, datas(znode.ControllerPath, znode.ControllerEpochPath), func(nodes []store.Node) {
		m.electing = false
		controller, epoch := nodes[0], nodes[1]
		switch {
		case controller.Exists && controller.Stat.EphemeralOwner == m.session:
			// Ours, but its outcome got lost on the way: without the epoch it is worthless.
			m.stepDown(controller)
		case controller.Exists:
			m.follow(controller)
		case !epoch.Exists:
			txn := store.Txn{store.Create(znode.ControllerEpochPath, znode.EncodeControllerEpoch(0), store.Persistent)}
			m.commitThenElect(txn)
		default:
			m.stand(epoch)
		}
	})
}

// commitThenElect commits and looks again, whatever became of it.
func (m *Machine) commitThenElect(txn store.Txn) {
	m.electing = true
	m.commit(inSession, []store.Txn{txn}, func(outcomes []store.Outcome) {
		m.electing = false
		if err := outcomes[0].Err; err != nil && store.FailedOp(err) < 0 && !errors.Is(err, store.ErrUnknown) {
			m.log.Warn("the election could not be held; trying again", zap.Error(err))
			m.after(inSession, retryDelay, m.elect)
			return
		}
		m.elect()
	})
}

func (m *Machine) stepDown(n store.Node) {
	m.commitThenElect(store.Txn{store.Delete(znode.ControllerPath, n.Stat.Version)})
}

// follow accepts another broker as the controller.
func (m *Machine) follow(n store.Node) {
	c, err := znode.DecodeController(n.Data)
	if err != nil {
		m.log.Error("the node of the active controller cannot be read", zap.Error(err))
		return
	}
	if c.KRaftEpoch >= 0 {
		m.log.Error("a KRaft controller has taken the cluster over, which this broker cannot follow", zap.Int32("controller_epoch", c.KRaftEpoch))
		m.setActive(-1)
		m.fail(fmt.Errorf("a KRaft controller (%d) has taken the cluster over (%s in the metadata store): this broker cannot follow it", c.BrokerID, n.Path))
		return
	}
	m.setActive(c.BrokerID)
	m.becomeReady()
	if m.electAgain {
		m.elect() // the node changed after it was read
	}
}

func (m *Machine) setActive(id int32) {
	if m.activeID != id {
		m.activeID = id
		m.do(NotifyController{id})
	}
}

// stand tries to become the controller of the next epoch.
func (m *Machine) stand(n store.Node) {
	old, err := znode.DecodeControllerEpoch(n.Data)
	if err != nil {
		m.fail(fmt.Errorf("%s in the metadata store: %w", znode.ControllerEpochPath, err))
		m.log.Error("nobody can be elected; trying again", zap.String("path", znode.ControllerEpochPath), zap.Error(err))
		m.after(inSession, retryDelay, m.elect)
		return
	}
	epoch := old + 1
	claim := znode.Controller{BrokerID: m.id, TimestampMs: m.now.UnixMilli(), KRaftEpoch: -1}
	m.electing = true
	m.commit(inSession, []store.Txn{{
		store.Create(znode.ControllerPath, claim.Encode(), store.Ephemeral),
		store.Set(znode.ControllerEpochPath, znode.EncodeControllerEpoch(epoch), n.Stat.Version),
	}}, func(outcomes []store.Outcome) {
		m.electing = false
		switch err := outcomes[0].Err; {
		case err == nil:
			m.won(epoch, outcomes[0].Results[1].Stat.Version)
		case errors.Is(err, store.ErrUnknown), store.FailedOp(err) >= 0:
			m.count(epoch)
		default:
			m.log.Warn("the election could not be held; trying again", zap.Error(err))
			m.after(inSession, retryDelay, m.elect)
		}
	})
}

// count finds out whether we won after all.
func (m *Machine) count(epoch int32) {
	m.electing = true
	m.read(inSession, datas(znode.ControllerPath, znode.ControllerEpochPath), func(nodes []store.Node) {
		m.electing = false
		found, err := znode.DecodeControllerEpoch(nodes[1].Data)
		if err == nil && found == epoch && nodes[0].Exists && nodes[0].Stat.EphemeralOwner == m.session {
			m.won(epoch, nodes[1].Stat.Version)
			return
		}
		m.elect()
	})
}
