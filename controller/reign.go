package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/placement"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/ibp"
	"go.uber.org/zap"
)

// reign is what the active controller knows and does; it ends with its epoch.
type reign struct {
	epoch        int32
	epochVersion int32  // of /controller_epoch: the fencing token
	listener     string // inter-broker
	protocol     ibp.Protocol
	loaded       bool // requests and changes are taken from now on

	brokers  map[int32]*broker // registered ones
	topics   map[string]*topic
	ids      map[[16]byte]*topic
	folded   map[string]int       // names with '.' made '_', with the number of topics that have them
	creating map[string]*creation // by topic name
	orders   orders
	early    []func()   // administrative requests that came while the reign was loading
	waiting  []*request // administrative requests without an answer yet
	retry    retry
	freed    []ref            // partitions whose commit is done, to be attended to before the turn ends
	idle     map[ref][]func() // what waits for a partition's commit

	handing map[ref]int32 // former leaders who are told when their successors serve

	// strays are replicas that were reassigned away from a broker which has not said yet that their data is gone.
	strays       map[int32]map[ref]struct{}
	returned     map[ref][]int32 // in-sync replicas that came back while there was no controller, until they are taken out
	unwatched    []*topic        // whose nodes will be watched
	reassignNode bool            // /admin/reassign_partitions is there and has been read
}

// retry is the state of readings that changes ask for.
type retry struct {
	brokers, brokersAgain bool            // being read; changed meanwhile
	topics                bool            // will be read
	nodes                 map[string]bool // topics whose nodes will be read
	trim, trimAgain       bool            // the old node of reassignments is being written; changed meanwhile
}

// broker is a registered broker.
type broker struct {
	znode.Broker
	epoch    int64
	stopping bool         // it asked for a controlled shutdown: it gets no leaderships and counts as in sync for none
	offline  map[ref]bool // replicas that it cannot serve (KAFKA_STORAGE_ERROR), until it starts again; nil when none
}

// topic is one of the cluster's. parts[p] is partition p.
type topic struct {
	name     string
	id       [16]byte
	version  int32 // of its node
	parts    []partition
	adding   map[int32][]int32 // reassignments as the node has them
	removing map[int32][]int32
	moves    map[int32]*move // reassignments on their way, by partition
	hasDir   bool            // the node "partitions" exists for sure
	growing  bool            // a commit of the topic's node is under way
	deletion *deletion       // not nil: to be removed
	gone     bool            // removed
	watched  bool            // its node is
	awaits   []*awaiting     // who waits for its leaders
	queue    []func()        // what waits for the end of growing
}

// partition is a partition's state as it is in the store. Its place in the state machines follows from that and from which
// brokers live: New (no state yet), Online (the leader lives), Offline. About 80 bytes.
type partition struct {
	replicas        []int32
	isr             []int32
	leader          int32 // -1: none
	leaderEpoch     int32
	controllerEpoch int32 // of the controller that decided
	version         int32 // of the state node, -1: there is none
	recovering      bool
	busy            bool // a commit is under way
	again           bool // look again when it is done
	told            bool // the leader has answered the order for this leader epoch
	fresh           bool // it is new: no leader has answered yet, and nobody was told of one
	served          bool // and this broker's clients know
}

// ref names a partition. It stays valid when partitions are added.
type ref struct {
	t *topic
	p int32
}

func (r ref) part() *partition { return &r.t.parts[r.p] }

// reignWatches are what only the active controller watches, besides the registrations of brokers.
var reignWatches = []Watch{{znode.BrokerIDsPath, store.Children}, {znode.TopicsPath, store.Children}, {znode.DeleteTopicsPath, store.Children},
	{znode.LogDirEventsPath, store.Children}, {znode.PreferredPath, store.Data}, {znode.ReassignPath, store.Data}}

// won begins a reign: watch, load, give the first orders.
func (m *Machine) won(epoch, epochVersion int32) {
	m.log.Info("this broker is the active controller", zap.Int32("controller_epoch", epoch))
	m.setActive(m.id)
	m.reign = &reign{epoch: epoch, epochVersion: epochVersion, listener: m.o.Settings.InterBrokerListener, protocol: m.o.Settings.protocol(), brokers: map[int32]*broker{}, topics: map[string]*topic{},
		ids: map[[16]byte]*topic{}, folded: map[string]int{}, creating: map[string]*creation{}, orders: newOrders(), idle: map[ref][]func(){},
		strays: map[int32]map[ref]struct{}{}, handing: map[ref]int32{}, returned: map[ref][]int32{}}
	for _, w := range reignWatches {
		m.do(w)
	}
	if m.electAgain {
		m.controllerChanged()
	}
	m.setUpFeatures()
	m.load()
}

// resign ends the reign, if there is one: what was under way is forgotten, who waits is told.
func (m *Machine) resign() {
	r := m.reign
	if r == nil {
		return
	}
	for _, q := range r.waiting {
		q.abandon(m)
	}
	m.reign = nil
	m.forget(inReign)
	for _, w := range reignWatches {
		m.do(Unwatch(w))
	}
	for _, id := range r.brokerIDs() {
		m.do(Unwatch{znode.BrokerPath(id), store.Data})
		m.do(Drop{id})
	}
	for _, name := range r.topicNames() {
		m.unwatch(r.topics[name])
	}
	m.setActive(-1)
	for _, run := range r.early {
		run() // refuses, now
	}
}

// brokerIDs returns the registered brokers in order.
func (r *reign) brokerIDs() []int32 {
	ids := make([]int32, 0, len(r.brokers))
	for id := range r.brokers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// candidates are the brokers that can get replicas.
func (r *reign) candidates() []placement.Broker {
	var list []placement.Broker
	for _, id := range r.brokerIDs() {
		list = append(list, placement.Broker{ID: id, Rack: r.brokers[id].Rack})
	}
	return list
}

// live says whether a replica may be elected or be in sync.
func (r *reign) live(id int32, of ref) bool { return r.serves(id, of) && !r.brokers[id].stopping }

// serves says whether a broker can serve a replica, be it only until it has shut down.
func (r *reign) serves(id int32, of ref) bool {
	b := r.brokers[id]
	return b != nil && !b.offline[of]
}

// topicNames returns all topics in order.
func (r *reign) topicNames() []string {
	names := make([]string, 0, len(r.topics))
	for name := range r.topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// refs returns all partitions of a topic.
func (t *topic) refs() []ref {
	list := make([]ref, len(t.parts))
	for p := range t.parts {
		list[p] = ref{t, int32(p)}
	}
	return list
}

// add makes a topic known.
func (r *reign) add(t *topic) {
	r.topics[t.name] = t
	r.ids[t.id] = t
	r.folded[fold(t.name)]++
}

// remove forgets a topic.
func (r *reign) remove(t *topic) {
	t.gone = true
	delete(r.topics, t.name)
	delete(r.ids, t.id)
	if r.folded[fold(t.name)]--; r.folded[fold(t.name)] == 0 {
		delete(r.folded, fold(t.name))
	}
}

// newTopic is a topic as its node says, with partitions that have no state yet.
func newTopic(name string, version int32, z znode.Topic) *topic {
	t := &topic{name: name, id: z.ID, version: version, adding: z.Adding, removing: z.Removing, parts: make([]partition, len(z.Replicas))}
	for p, replicas := range z.Replicas {
		t.parts[p] = partition{replicas: replicas, leader: -1, version: -1}
	}
	t.resumeMoves()
	return t
}

// node is the topic as its node should say.
func (t *topic) node() znode.Topic {
	z := znode.Topic{ID: t.id, Adding: t.adding, Removing: t.removing, Replicas: make([][]int32, len(t.parts))}
	for p := range t.parts {
		z.Replicas[p] = t.parts[p].replicas
	}
	return z
}

// take puts a state that is in the store into the partition. Within a leader epoch only the in-sync replicas change.
func (p *partition) take(s znode.State, version int32) {
	if s.LeaderEpoch != p.leaderEpoch || p.version < 0 {
		p.told, p.served = false, false
	}
	p.leader, p.leaderEpoch, p.controllerEpoch, p.recovering = s.Leader, s.LeaderEpoch, s.ControllerEpoch, s.Recovering
	p.isr, p.version = s.ISR, version
	if slices.Equal(p.isr, p.replicas) {
		p.isr = p.replicas // share the memory
	}
}
