package controller

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// retryDelay is how long after an unexpected failure of the store it is asked again.
const retryDelay = time.Second

// MachineOptions is what a Machine needs to know.
type MachineOptions struct {
	Broker    znode.Broker
	ClusterID string
	Configs   TopicConfigs
	Logger    *zap.Logger
	Settings  Settings
}

// Machine is one broker's share in the cluster's metadata, without I/O. One goroutine calls Step.
type Machine struct {
	o    MachineOptions
	id   int32
	log  *zap.Logger
	rand *rand.Rand

	now     time.Time
	actions []Action
	lastID  uint64
	pending map[uint64]continuation

	elected func(took time.Duration) // Measure.Elected; nil: nobody wants to know

	// uncleanElections is read by others too.
	uncleanElections atomic.Int64

	session      int64               // 0 while there is none
	former       map[int64]bool      // sessions that we had before
	isSetUp      bool                // the tree is complete, the configurations are read
	registration []byte              // data of this process's node
	brokerEpoch  int64               // -1 while not registered
	firstEpoch   int64               // of this process's first registration, 0 before
	activeID     int32               // active controller as far as we know, -1 none
	electing     bool                // a step of an election is under way
	electAgain   bool                // something changed meanwhile
	ready        bool                // Ready or Failed was said
	leftover     time.Duration       // for how long another session's node has kept us from registering
	learned      map[string][16]byte // topics whose configuration is known, of those that this broker was given
	forwarded    map[string]bool     // topics that the active controller has been asked to create
	configs      configView
	features     *Finalised // that /feature holds
	extensions   extensions
	reign        *reign            // while elected
	unanswered   map[uint64]func() // requests outside of the reign: what to do with them when the machine quits
}

// continuation is what to do with the result of an action.
type continuation struct {
	scope scope
	run   func(Event)
}

// scope says what ends the interest in a result.
type scope int8

const (
	always    scope = iota // nothing: a request that any broker serves
	inSession              // the end of the session
	inReign                // the end of the reign
)

// NewMachine returns a machine that waits for Begin.
func NewMachine(o MachineOptions) *Machine {
	seed := o.Settings.Seed
	if seed == 0 {
		var b [8]byte
		crand.Read(b[:])
		seed = binary.LittleEndian.Uint64(b[:])
	}
	return &Machine{o: o, id: o.Broker.ID, log: o.Logger, rand: rand.New(rand.NewPCG(seed, uint64(o.Broker.ID))),
		pending: map[uint64]continuation{}, unanswered: map[uint64]func(){}, former: map[int64]bool{},
		learned: map[string][16]byte{}, forwarded: map[string]bool{}, brokerEpoch: -1, activeID: -1, configs: newConfigView(),
		features: &Finalised{Epoch: -1}, extensions: extensions{version: -1}}
}

// Step takes what happened since the last turn and returns what to do now.
func (m *Machine) Step(now time.Time, events ...Event) []Action {
	m.now = now
	for _, e := range events {
		m.handle(e)
		m.attend()
	}
	if m.reign != nil {
		m.flush()
	}
	actions := m.actions
	m.actions = nil
	return actions
}

func (m *Machine) handle(e Event) {
	switch e := e.(type) {
	case Begin:
		m.session = e.Session
		m.setUp()
	case SessionChanged:
		m.sessionChanged(e.SessionEvent)
	case Changed:
		m.changed(e)
	case Request:
		e.run(m)
	case ReadDone:
		m.resume(e.ID, e)
	case CommitDone:
		m.resume(e.ID, e)
	case SendDone:
		m.resume(e.ID, e)
	case Forwarded:
		m.resume(e.ID, e)
	case Fired:
		m.resume(e.ID, e)
	}
}

func (m *Machine) resume(id uint64, e Event) {
	c, ok := m.pending[id]
	if !ok {
		return // of an earlier reign or session
	}
	delete(m.pending, id)
	c.run(e)
}

func (m *Machine) changed(e Changed) {
	switch {
	case e.Path == znode.ControllerPath:
		m.controllerChanged()
	case e.Path == znode.ConfigChangesPath:
		m.configsChanged()
	case e.Path == znode.OwnConfigPath:
		m.ownConfigsChanged()
	case e.Path == znode.FeaturePath:
		m.featuresChanged()
	case e.Path == znode.ExtensionsPath:
		m.extensionsChanged()
	case m.reign == nil:
	case e.Path == znode.TopicsPath, e.Path == znode.DeleteTopicsPath:
		m.topicListChanged()
	case e.Path == znode.LogDirEventsPath:
		m.logDirsChanged()
	case e.Path == znode.PreferredPath:
		m.preferredNodeChanged()
	case e.Path == znode.ReassignPath:
		m.reassignNodeChanged()
	case strings.HasPrefix(e.Path, znode.TopicsPath+"/"):
		m.topicNodeChanged(strings.TrimPrefix(e.Path, znode.TopicsPath+"/"))
	default: // /brokers/ids and what is below it
		m.brokersChanged()
	}
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

// expect registers what to do with a result and returns the id for the action.
func (m *Machine) expect(s scope, run func(Event)) uint64 {
	m.lastID++
	m.pending[m.lastID] = continuation{s, run}
	return m.lastID
}

// forget drops the interest in results of a scope.
func (m *Machine) forget(s scope) {
	for id, c := range m.pending {
		if c.scope == s {
			delete(m.pending, id)
		}
	}
}

// after calls run when d has passed.
func (m *Machine) after(s scope, d time.Duration, run func()) (id uint64) {
	id = m.expect(s, func(Event) { run() })
	m.do(After{id, d})
	return id
}

// cancel takes back an after that has not run.
func (m *Machine) cancel(id uint64) {
	if _, ok := m.pending[id]; ok {
		delete(m.pending, id)
		m.do(Cancel{id})
	}
}

// read asks the store until it answers.
func (m *Machine) read(s scope, reqs []store.Req, run func([]store.Node)) {
	m.do(Read{m.expect(s, func(e Event) {
		done := e.(ReadDone)
		switch {
		case done.Err == nil:
			run(done.Nodes)
		case !errors.Is(done.Err, store.ErrClosed):
			m.log.Warn("the metadata store did not answer; it is asked again", zap.Error(done.Err))
			m.after(s, retryDelay, func() { m.read(s, reqs, run) })
		}
	}), reqs})
}

// commit hands the outcomes to run as they are.
func (m *Machine) commit(s scope, txns []store.Txn, run func([]store.Outcome)) {
	session := m.session
	if s == always {
		session = 0
	}
	m.do(Commit{m.expect(s, func(e Event) { run(e.(CommitDone).Outcomes) }), session, txns})
}

// outcome is what became of a commit of the reign.
type outcome struct {
	results []store.Result
	err     error
	at      int // which op failed by a rule of the tree, -1 none
}

// unknown says that the nodes must be read back to learn what happened.
func (o outcome) unknown() bool { return errors.Is(o.err, store.ErrUnknown) }

// command commits for the reign: each commit also checks the controller epoch. If the check fails the reign ends and run is
// not called.
func (m *Machine) command(txns []store.Txn, run func([]outcome)) {
	fenced := make([]store.Txn, len(txns))
	check := store.Check(znode.ControllerEpochPath, m.reign.epochVersion)
	for i, ops := range txns {
		fenced[i] = append(store.Txn{check}, ops...)
	}
	m.commit(inReign, fenced, func(outcomes []store.Outcome) {
		results := make([]outcome, len(outcomes))
		for i, o := range outcomes {
			at := store.FailedOp(o.Err)
			if at == 0 || errors.Is(o.Err, store.ErrSessionExpired) {
				m.log.Warn("another controller has been elected; this one gives up", zap.Error(o.Err))
				m.resign()
				m.elect()
				return
			}
			results[i] = outcome{err: o.Err, at: max(at-1, -1)}
			if o.Err == nil {
				results[i].results = o.Results[1:]
			}
		}
		run(results)
	})
}

// reigning runs a request of those that only the active controller serves. While a reign is loading they wait.
func (m *Machine) reigning(run func()) {
	if r := m.reign; r != nil && !r.loaded {
		r.early = append(r.early, run)
		return
	}
	run()
}

// hold keeps a request that has no answer yet; the result lets it go.
func (m *Machine) hold(refuse func()) (letGo func()) {
	m.lastID++
	id := m.lastID
	m.unanswered[id] = refuse
	return func() { delete(m.unanswered, id) }
}

// quit ends the reign and answers every request that is left. The machine is not used afterwards, but for the actions that
// this makes.
func (m *Machine) quit() {
	m.resign()
	for id, refuse := range m.unanswered {
		delete(m.unanswered, id)
		refuse()
	}
}

// datas and childrens make requests.
func datas(paths ...string) []store.Req {
	reqs := make([]store.Req, len(paths))
	for i, path := range paths {
		reqs[i] = store.Req{Path: path}
	}
	return reqs
}

func childrens(paths ...string) []store.Req {
	reqs := make([]store.Req, len(paths))
	for i, path := range paths {
		reqs[i] = store.Req{Path: path, Kind: store.Children}
	}
	return reqs
}

// sortedChildren returns the children of a node by name, so that what follows does not depend on the store's order.
func sortedChildren(n store.Node) []string {
	slices.Sort(n.Children)
	return n.Children
}

// fail says once that the broker cannot start.
func (m *Machine) fail(err error) {
	if !m.ready {
		m.ready = true
		m.do(Failed{err})
	}
}

// becomeReady says once that the broker has its place.
func (m *Machine) becomeReady() {
	if !m.ready {
		m.ready = true
		m.do(Ready{})
	}
}
