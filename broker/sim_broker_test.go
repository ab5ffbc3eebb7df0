package broker

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/ibp"
)

const (
	simSession        = 3 * time.Second // of the metadata store
	simLag            = 4 * time.Second // replica.lag.time.max.ms
	simRequestTimeout = 3 * time.Second
	simClusterID      = "vddWK14PRI2hO83V7_zqFg"
)

// simBroker is a machine: its disk and clock outlive the processes on it.
type simBroker struct {
	w       *simWorld
	id      int32
	disk    *vfs.Mem
	skew    time.Duration // of its wall clock
	proc    *simProc      // the last one
	mirrors map[log.TopicPartition]*simMirror
}

// simProc is a broker's process.
type simProc struct {
	w        *simWorld
	broker   *simBroker
	id       int32
	began    time.Duration
	dead     bool
	paused   bool
	deferred []func() // what will have happened when it goes on
	open     bool     // its ports are
	stopping bool     // a controlled shutdown is under way

	logs      *log.Manager
	replicas  *replica.Manager
	image     *metadata.Cache
	sessions  *fetchsession.Cache
	followers simFollowers
	control   simControl
	peers     map[int32]*simPeer
	waiting   proposalQueue
	proposing bool

	leads  map[log.TopicPartition]int32 // leader epochs
	epochs map[log.TopicPartition]int32 // of the last orders that were carried out
}

func newSimBroker(w *simWorld, id int32) *simBroker {
	disk := vfs.NewMem(1<<32, func() time.Time { return simBegin.Add(w.now) })
	if err := disk.Mkdir("/logs"); err != nil {
		w.t.Fatal(err)
	}
	return &simBroker{w: w, id: id, disk: disk, mirrors: map[log.TopicPartition]*simMirror{}}
}

// start begins a process on what is on the disk.
func (b *simBroker) start() {
	p := &simProc{
		w: b.w, broker: b, id: b.id, began: b.w.now, image: metadata.NewCache(), peers: map[int32]*simPeer{},
		leads: map[log.TopicPartition]int32{}, epochs: map[log.TopicPartition]int32{},
	}
	b.proc = p
	c := simClock{p}
	logs, err := log.OpenManager(context.Background(), log.Options{
		Dirs: []string{"/logs"}, FS: b.disk, Clock: logClock{c}, BrokerID: b.id, ClusterID: simClusterID, RecoveryThreadsPerDir: 1,
	})
	if err != nil {
		b.w.t.Fatal(err)
	}
	p.logs = logs
	p.sessions = fetchsession.NewCache(100, c)
	p.followers = simFollowers{proc: p, fetchers: map[int32]*simFetcher{}, of: map[log.TopicPartition]*simFetcher{}}
	p.replicas = replica.New(replica.Options{
		BrokerID: b.id, Logs: logs, Clock: c, Logger: zap.NewNop(), MinISR: simMinISR, OnLeader: p.onLeader,
		Pool:  func(f func()) { p.after(0, "handler", f) },
		Known: func(topic string, partition int32) bool { return p.image.Image().Partition(topic, partition) != nil },

		Following: &p.followers, BrokerEpoch: func() int64 { return p.control.epoch },
		Online:         func(id int32, tp log.TopicPartition) bool { return p.image.Image().Online(id, tp.Topic, tp.Partition) },
		AlterPartition: p.propose, ReplicaLagMax: simLag,
	})
	p.control.begin(p)
	p.after(b.w.between(0, 5*time.Second), "checkpoint", p.checkpoint)
}

// crash ends the process. What it wrote is on the disk.
func (b *simBroker) crash() {
	p := b.proc
	p.dead, p.open = true, false
	b.disk = b.disk.Kill()
	p.replicas.Close()
	if err := p.logs.Close(context.Background()); err != nil { // on the disk as it was: to end the goroutines
		b.w.t.Error(err)
	}
}

// pause is SIGSTOP.
func (b *simBroker) pause() { b.proc.paused = true }

// goOn is SIGCONT.
func (b *simBroker) goOn() {
	p := b.proc
	p.paused = false
	for _, f := range p.deferred {
		p.w.at(0, "late", func() { p.run(f) })
	}
	p.deferred = nil
}

// run runs something in the process, if it can.
func (p *simProc) run(f func()) {
	switch {
	case p.dead:
	case p.paused:
		p.deferred = append(p.deferred, f)
	default:
		f()
	}
}

func (p *simProc) after(d time.Duration, what string, f func()) {
	p.w.at(d, what, func() { p.run(f) })
}

func (p *simProc) peer(id int32) *simPeer {
	if p.peers[id] == nil {
		p.peers[id] = &simPeer{proc: p, id: id}
	}
	return p.peers[id]
}

func (p *simProc) checkpoint() {
	if err := p.logs.CheckpointAll(); err != nil {
		p.w.t.Error(err)
	}
	p.after(5*time.Second, "checkpoint", p.checkpoint)
}

func (p *simProc) onLeader(tp log.TopicPartition, epoch int32, leads bool) {
	delete(p.leads, tp)
	if leads {
		p.leads[tp] = epoch
		p.w.facts.leads(p, tp, epoch)
	}
}

// obey carries out an order that came on a connection, 0 if it is its own. nil: it was given up.
func (p *simProc) obey(order controller.Send, connection uint64) kmsg.Response {
	answer := p.carryOut(order.Request, connection)
	p.w.facts.obeys(p, order, answer)
	return answer
}

// carryOut is what broker/api does.
func (p *simProc) carryOut(request kmsg.Request, connection uint64) kmsg.Response {
	response := request.ResponseKind()
	switch r := request.(type) {
	case *kmsg.LeaderAndISRRequest:
		if p.stale(r.BrokerEpoch) {
			response.(*kmsg.LeaderAndISRResponse).ErrorCode = kerr.StaleBrokerEpoch.Code
			return response
		}
		answer := p.replicas.LeaderAndISR(r, connection)
		if answer == nil {
			return nil
		}
		p.w.sayOrders(p, r, answer)
		p.noteEpochs(r, answer)
		return answer
	case *kmsg.UpdateMetadataRequest:
		if p.stale(r.BrokerEpoch) {
			response.(*kmsg.UpdateMetadataResponse).ErrorCode = kerr.StaleBrokerEpoch.Code
			return response
		}
		answer := p.replicas.UpdateMetadata(r, connection, func() {
			if p.image.Registered(r.BrokerEpoch) {
				p.after(10*time.Second, "sweep", func() { p.image.Sweep(r.BrokerEpoch) })
			}
			p.image.Apply(r)
			var live []int32
			for _, b := range r.LiveBrokers {
				live = append(live, b.ID)
			}
			p.w.say("%d is told by %d (%d) that %v live", p.id, r.ControllerID, r.ControllerEpoch, live)
		})
		if answer == nil {
			return nil
		}
		return answer
	case *kmsg.StopReplicaRequest:
		if p.stale(r.BrokerEpoch) {
			response.(*kmsg.StopReplicaResponse).ErrorCode = kerr.StaleBrokerEpoch.Code
			return response
		}
		p.w.say("%d is ordered by %d (%d) to stop %+v", p.id, r.ControllerID, r.ControllerEpoch, r.Topics)
		if answer := p.replicas.StopReplica(r, connection); answer != nil {
			return answer
		}
		return nil
	}
	if r, ok := request.(*kmsg.DescribeLogDirsRequest); ok {
		return (&api.Services{Replicas: p.replicas}).DescribeLogDirs(r)
	}
	panic("no order")
}

func (w *simWorld) sayOrders(p *simProc, r *kmsg.LeaderAndISRRequest, answer *kmsg.LeaderAndISRResponse) {
	for i := range r.TopicStates {
		for _, s := range r.TopicStates[i].PartitionStates {
			w.say("%d is ordered by %d (%d): %s-%d leader %d epoch %d version %d ISR %v replicas %v new %v", p.id, r.ControllerID, r.ControllerEpoch,
				r.TopicStates[i].Topic, s.Partition, s.Leader, s.LeaderEpoch, s.ZKVersion, s.ISR, s.Replicas, s.IsNew)
		}
	}
	for i := range answer.Topics {
		for _, a := range answer.Topics[i].Partitions {
			if a.ErrorCode != 0 {
				w.say("%d refuses partition %d with %d", p.id, a.Partition, a.ErrorCode)
			}
		}
	}
	if answer.ErrorCode != 0 {
		w.say("%d refuses with %d", p.id, answer.ErrorCode)
	}
}

func (p *simProc) stale(epoch int64) bool { return epoch != -1 && epoch < p.control.epoch }

func (p *simProc) noteEpochs(r *kmsg.LeaderAndISRRequest, answer *kmsg.LeaderAndISRResponse) {
	for i := range answer.Topics {
		for _, a := range answer.Topics[i].Partitions {
			at := slices.IndexFunc(r.TopicStates[i].PartitionStates, func(s kmsg.LeaderAndISRRequestTopicPartition) bool { return s.Partition == a.Partition })
			if a.ErrorCode == 0 {
				p.epochs[log.TopicPartition{Topic: r.TopicStates[i].Topic, Partition: a.Partition}] = r.TopicStates[i].PartitionStates[at].LeaderEpoch
			}
		}
	}
}

// propose does what proposals does.
func (p *simProc) propose(one insync.Proposal, done func(insync.Outcome)) {
	p.w.say("%d will propose for %s-%d in epoch %d, version %d: %v", p.id, one.Topic, one.Partition, one.LeaderEpoch, one.PartitionEpoch, one.ISR)
	p.waiting.add(proposal{one, done})
	if !p.proposing {
		p.proposing = true
		p.after(0, "propose", p.sendProposals)
	}
}

func (p *simProc) sendProposals() {
	batch := p.waiting.take()
	if len(batch) == 0 {
		p.proposing = false
		return
	}
	slices.SortStableFunc(batch, func(a, b proposal) int {
		if a.Topic != b.Topic {
			return int(a.Topic[0]) - int(b.Topic[0])
		}
		return int(a.Partition - b.Partition)
	})
	again := func() {
		p.waiting.putBack(batch)
		p.after(proposalBackoff, "propose again", p.sendProposals)
	}
	p.ask(proposalRequest(ibp.Latest.AlterPartition, p.id, p.control.epoch, batch), func(response kmsg.Response, err error) {
		answer, _ := response.(*kmsg.AlterPartitionResponse)
		if err != nil || answer.ErrorCode != 0 {
			again()
			return
		}
		p.w.sayProposals(p, batch, answer)
		deliver(batch, answer)
		p.sendProposals()
	})
}

func (w *simWorld) sayProposals(p *simProc, batch []proposal, answer *kmsg.AlterPartitionResponse) {
	for _, one := range batch {
		w.say("%d proposed for %s-%d in epoch %d, version %d: %v", p.id, one.Topic, one.Partition, one.LeaderEpoch, one.PartitionEpoch, one.ISR)
	}
	for _, t := range answer.Topics {
		for _, a := range t.Partitions {
			w.say("answered about partition %d: %d, epoch %d, version %d, ISR %v", a.Partition, a.ErrorCode, a.LeaderEpoch, a.PartitionEpoch, a.ISR)
		}
	}
}

// ask sends a request to the active controller, as far as this process knows it.
func (p *simProc) ask(r kmsg.Request, done func(kmsg.Response, error)) {
	switch id := p.control.active; id {
	case -1:
		p.after(0, "no controller", func() { done(nil, errNoController) })
	case p.id:
		p.control.post(controller.Asking(r, func(response kmsg.Response) { done(response, nil) }))
	default:
		p.peer(id).call(simRequestTimeout, func(to *simProc, reply func(any)) {
			to.control.post(controller.Asking(r, func(response kmsg.Response) { reply(response) }))
		}, func(answer any, err error) {
			response, _ := answer.(kmsg.Response)
			done(response, err)
		})
	}
}

// simControl drives a controller's machine as controller.driver does.
type simControl struct {
	proc    *simProc
	client  *storetest.Client
	machine *controller.Machine
	there   simPipe // to the store
	back    simPipe
	away    time.Duration // since when the store has not heard of the process; -1: it has just now
	mail    []controller.Event
	turning bool
	watches map[controller.Changed]func()
	timers  map[uint64]bool
	orders  map[int32]*simOrders
	epoch   int64 // of the broker
	active  int32
}

func (c *simControl) begin(p *simProc) {
	*c = simControl{
		proc: p, client: p.w.store.Client(), away: -1, watches: map[controller.Changed]func(){}, timers: map[uint64]bool{},
		orders: map[int32]*simOrders{}, epoch: -1, active: -1,
		there: simPipe{w: p.w, link: simLink{p.id, 0}}, back: simPipe{w: p.w, link: simLink{0, p.id}},
	}
	c.machine = controller.NewMachine(controller.MachineOptions{
		Broker:    znode.Broker{ID: p.id, JMXPort: -1, Endpoints: []znode.Endpoint{{Listener: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: p.id}}},
		ClusterID: simClusterID, Configs: simConfigs{}, Logger: zap.NewNop(), Settings: controller.Settings{
			DeleteTopicEnable: true, NumPartitions: 1, DefaultReplicationFactor: 3, InterBrokerListener: "PLAINTEXT", SessionTimeout: simSession,
			AutoLeaderRebalance: true, LeaderImbalanceCheckInterval: 10 * time.Second, LeaderImbalancePercent: 10, Seed: p.w.rand.Uint64() | 1,
		},
	})
	c.client.WatchSession(func(e store.SessionEvent) {
		c.back.send(func() {
			p.run(func() {
				c.post(controller.SessionChanged{SessionEvent: e})
				if e.Lost { // the client opens another session by itself
					c.there.send(func() {
						if !p.dead {
							c.client.Renew()
						}
					})
				}
			})
		})
	})
	p.w.sessions = append(p.w.sessions, c)
	c.post(controller.Begin{Session: c.client.Session()})
}

// heartbeat ends the session of a process that the store has not heard of for too long. It says whether there will be no
// other.
func (c *simControl) heartbeat() (over bool) {
	p, w := c.proc, c.proc.w
	if !p.dead && !p.paused && w.cut[c.there.link] == 0 && w.cut[c.back.link] == 0 {
		c.away = -1
		return false
	}
	if c.away < 0 {
		c.away = w.now
	}
	if w.now-c.away < simSession || c.client.Session() == 0 {
		return c.client.Session() == 0 && p.dead
	}
	w.say("the session of %d expires", p.id)
	if p.dead {
		_ = c.client.Close()
	} else {
		c.client.Expire()
	}
	return p.dead
}

func (c *simControl) post(e controller.Event) {
	if changed, ok := e.(controller.Changed); ok && slices.Contains(c.mail, controller.Event(changed)) {
		return
	}
	c.mail = append(c.mail, e)
	if !c.turning {
		c.turning = true
		c.proc.after(c.proc.w.mostlyShort(2*time.Millisecond), "controller", c.turn)
	}
}

func (c *simControl) turn() {
	events := c.mail
	c.mail, c.turning = nil, false
	for _, a := range c.machine.Step(simClock{c.proc}.Now(), events...) {
		c.do(a)
	}
}

func (c *simControl) do(a controller.Action) {
	p, ctx := c.proc, context.Background()
	switch a := a.(type) {
	case controller.Read:
		c.there.send(func() {
			nodes, err := c.client.Read(ctx, a.Reqs...)
			c.back.send(func() { p.run(func() { c.post(controller.ReadDone{ID: a.ID, Nodes: nodes, Err: err}) }) })
		})
	case controller.Commit:
		c.there.send(func() {
			outcomes := c.client.CommitEach(store.Within(ctx, a.Session), a.Txns)
			p.w.facts.states()
			c.back.send(func() { p.run(func() { c.post(controller.CommitDone{ID: a.ID, Outcomes: outcomes}) }) })
		})
	case controller.Send:
		o := c.orders[a.Broker]
		if o == nil {
			o = &simOrders{control: c, to: a.Broker, peer: &simPeer{proc: p, id: a.Broker}}
			c.orders[a.Broker] = o
		}
		o.queue = append(o.queue, a)
		o.next()
	case controller.Drop:
		if o := c.orders[a.Broker]; o != nil {
			delete(c.orders, a.Broker)
			o.drop()
		}
	case controller.After:
		c.timers[a.ID] = true
		p.after(a.Delay, "controller's timer", func() {
			if c.timers[a.ID] {
				delete(c.timers, a.ID)
				c.post(controller.Fired{ID: a.ID})
			}
		})
	case controller.Cancel:
		delete(c.timers, a.ID)
	case controller.Watch:
		c.watch(controller.Changed{Path: a.Path, Kind: a.Kind})
	case controller.Unwatch:
		if changed := (controller.Changed{Path: a.Path, Kind: a.Kind}); c.watches[changed] != nil {
			c.watches[changed]()
			delete(c.watches, changed)
		}
	case controller.Answer:
		a.Reply()
	case controller.Forward:
		p.after(0, "not forwarded", func() { c.post(controller.Forwarded{ID: a.ID, Err: errNoController}) })
	case controller.NotifyController:
		c.active = a.ID
	case controller.Registered:
		c.epoch = a.Epoch
	case controller.Ready:
		p.open = true
		p.w.say("%d is there", p.id)
	case controller.Failed:
		p.w.t.Errorf("broker %d: %v", p.id, a.Err)
	}
}

func (c *simControl) watch(changed controller.Changed) {
	if c.watches[changed] != nil {
		return
	}
	p := c.proc
	c.watches[changed] = c.client.Watch(changed.Path, changed.Kind, func() {
		if !p.dead {
			c.back.send(func() {
				p.run(func() {
					if c.watches[changed] != nil {
						c.post(changed)
					}
				})
			})
		}
	})
}

// simOrders are a controller's orders to one broker, as controller.peer has them.
type simOrders struct {
	control *simControl
	to      int32
	peer    *simPeer
	queue   []controller.Send
	busy    bool
	gone    bool
}

func (o *simOrders) next() {
	if o.busy || o.gone || len(o.queue) == 0 {
		return
	}
	o.busy = true
	o.send(0)
}

func (o *simOrders) send(failures int) {
	s, p := o.queue[0], o.control.proc
	answered := func(answer any, err error) {
		switch {
		case o.gone:
		case err != nil && failures == 0:
			o.send(1)
		case err != nil:
			p.after(100*time.Millisecond, "order again", func() {
				if !o.gone {
					o.send(failures + 1)
				}
			})
		default:
			o.queue, o.busy = o.queue[1:], false
			o.control.post(controller.SendDone{ID: s.ID, Response: answer.(kmsg.Response)})
			o.next()
		}
	}
	if o.to == p.id {
		p.after(0, "order to self", func() { answered(p.obey(s, 0), nil) })
		return
	}
	number := o.peer.connection().number
	o.peer.call(simRequestTimeout, func(to *simProc, reply func(any)) {
		to.after(to.w.mostlyShort(8*time.Millisecond), "order", func() {
			if answer := to.obey(s, number); answer != nil {
				reply(answer)
			}
		})
	}, answered)
}

func (o *simOrders) drop() {
	o.gone = true
	for _, s := range o.queue {
		o.control.post(controller.SendDone{ID: s.ID, Err: errSimReset})
	}
}

// simConfigs says that no topic is configured.
type simConfigs struct{}

func (simConfigs) Validate(map[string]string) error                                  { return nil }
func (simConfigs) Describe(map[string]string) []kmsg.CreateTopicsResponseTopicConfig { return nil }
func (simConfigs) UncleanElection(map[string]string) bool                            { return false }
