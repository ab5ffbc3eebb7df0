package broker

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

const (
	simTrouble = 45 * time.Second // how long bad things happen
	simPeace   = 40 * time.Second // after which everything must be in order
)

// TestClusterSimulation plays a cluster's life from a few seeds, always the same, or from GREGOR_SEEDS random ones (make simulate);
// GREGOR_SEED=n plays one, and with GREGOR_TRACE=1 tells what happens. See simFacts for what must hold.
func TestClusterSimulation(t *testing.T) {
	first, count := uint64(1), uint64(6)
	if n, err := strconv.ParseUint(os.Getenv("GREGOR_SEEDS"), 10, 64); err == nil {
		first, count = rand.Uint64N(1<<32), n
	}
	if text := os.Getenv("GREGOR_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	var acked, read, epochs, cuts, late int
	for seed := first; seed < first+count; seed++ {
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			w := simulate(t, seed, simTrouble)
			acked, read, epochs, cuts = acked+w.facts.acked, read+w.facts.read, epochs+w.facts.epochs, cuts+w.facts.cuts
			late += w.facts.late
			if t.Failed() {
				t.Logf("again: GREGOR_SEED=%d GREGOR_TRACE=1 go test -run 'TestClusterSimulation$' ./broker", seed)
			}
		})
		if !ok {
			return
		}
	}
	t.Logf("%d records acknowledged with acks=all, %d read, %d times a leader, %d truncations, %d orders came after their repetition",
		acked, read, epochs, cuts, late)
	if acked < 10*int(count) || epochs < 10*int(count) {
		t.Error("that shows little")
	}
}

// TestClusterSimulationRepeatsItself: what is drawn from a seed is all that decides.
func TestClusterSimulationRepeatsItself(t *testing.T) {
	const seed = 7
	a, b := simulate(t, seed, simTrouble/4), simulate(t, seed, simTrouble/4)
	if a.counted != b.counted {
		t.Errorf("seed %d gave %v at first and then %v", seed, a.counted, b.counted)
	}
}

// simulate plays one seed: trouble, then peace.
func simulate(t *testing.T, seed uint64, trouble time.Duration) *simWorld {
	w := newSimWorld(t, seed, 3+int(seed%3))
	w.heartbeats()
	w.create()
	w.chaos, w.pace = true, []time.Duration{1, 3, 3, 10}[w.rand.IntN(4)]*time.Second
	w.trouble()
	w.clients()
	w.startProducers()
	w.pass(trouble)
	w.chaos = false
	w.repair()
	w.resting = w.rand.IntN(3) == 0 // then nothing comes that would hide what was forgotten
	w.pass(simPeace)
	w.quiet()
	if !t.Failed() {
		w.facts.settled()
		w.facts.churned()
	}
	for _, b := range w.brokers {
		b.crash() // ends the goroutines
	}
	return w
}

func (w *simWorld) heartbeats() {
	w.sessions = slices.DeleteFunc(w.sessions, func(c *simControl) bool { return c.heartbeat() })
	w.at(200*time.Millisecond, "heartbeats", w.heartbeats)
}

// create makes the topics before the trouble begins.
func (w *simWorld) create() {
	w.pass(5 * time.Second)
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 5000
	for i, tp := range simTopics {
		if i > 0 && simTopics[i-1].Topic == tp.Topic {
			r.Topics[len(r.Topics)-1].NumPartitions++
			continue
		}
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = tp.Topic, 1, 3
		r.Topics = append(r.Topics, t)
	}
	w.brokers[0].proc.ask(r, func(kmsg.Response, error) {})
	w.pass(10 * time.Second)
	if len(w.facts.state) != len(simTopics) {
		w.t.Fatalf("the topics were not created: %v", w.facts.state)
	}
}

// clients produce and consume, much while there is trouble and a little in peace, until everything is to come to rest.
func (w *simWorld) clients() {
	pause := w.mostlyShort(400 * time.Millisecond)
	if !w.chaos {
		pause = 700 * time.Millisecond
	}
	w.at(pause, "clients", func() {
		if w.resting {
			return
		}
		tp := simTopics[w.rand.IntN(len(simTopics))]
		if w.rand.IntN(3) == 0 {
			w.consume(w.anyone().proc, tp)
		} else {
			acks := int16(replica.AcksAll)
			if w.rand.IntN(5) == 0 {
				acks = replica.AcksLeader
			}
			w.produce(w.chooseLeader(tp), tp, acks)
		}
		w.clients()
	})
}

// chooseLeader is the leader of a partition as somebody thinks, or anybody.
func (w *simWorld) chooseLeader(tp log.TopicPartition) *simProc {
	if w.rand.IntN(5) > 0 {
		if at := w.anyone().proc.image.Image().Partition(tp.Topic, tp.Partition); at != nil && at.Leader > 0 {
			return w.brokers[at.Leader-1].proc
		}
	}
	return w.anyone().proc
}

func (w *simWorld) produce(p *simProc, tp log.TopicPartition, acks int16) {
	w.facts.sent++
	value := "v" + strconv.Itoa(w.facts.sent)
	p.run(func() {
		b, err := record.Build(record.BatchOptions{LeaderEpoch: -1}.NoProducer(), []record.Record{{Value: []byte(value), Timestamp: simBegin.UnixMilli()}})
		if err != nil {
			w.t.Fatal(err)
		}
		p.replicas.Produce(replica.ProduceParams{Version: 11, Acks: acks, Timeout: w.between(0, 8*time.Second)},
			[]replica.ProduceEntry{{Topic: tp.Topic, Partition: tp.Partition, Records: b}}, func(rs []replica.ProduceResult) {
				if rs[0].Err == nil {
					w.facts.acknowledged(p, tp, acks, rs[0].BaseOffset, value)
				}
			})
	})
}

// consume reads somewhere at a broker that has the partition.
func (w *simWorld) consume(p *simProc, tp log.TopicPartition) {
	p.run(func() {
		m := p.broker.mirrors[tp]
		if m == nil {
			return
		}
		params := replica.FetchParams{ReplicaID: replica.Consumer, MaxBytes: 1000, MinBytes: 1, AnyReplica: true}
		from := w.rand.Int64N(int64(len(m.records)) + 1)
		p.replicas.Fetch(params, []replica.FetchEntry{{
			Topic: tp.Topic, Partition: tp.Partition, Offset: from, MaxBytes: 1000, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1,
		}}, func(rs []replica.FetchResult) {
			w.facts.look()
			w.each(w.contents(&rs[0]), func(offset int64, r simRecord) {
				if offset >= from {
					w.facts.seen(p, tp, offset, r)
				}
			})
		})
	})
}

// trouble has something bad happen now and then.
func (w *simWorld) trouble() {
	w.at(w.mostlyShort(w.pace), "trouble", func() {
		if w.chaos {
			w.disturb()
			w.trouble()
		}
	})
}

func (w *simWorld) disturb() {
	b, other := w.anyone(), w.anyone()
	switch w.rand.IntN(17) {
	case 0, 1:
		if !b.proc.dead {
			w.say("%d crashes", b.id)
			b.crash()
			w.at(w.mostlyShort(10*time.Second), "start", func() {
				if b.proc.dead {
					b.start()
				}
			})
		}
	case 2, 3:
		if p := b.proc; !p.dead && !p.paused {
			w.say("%d is stopped", b.id)
			b.pause()
			w.at(w.mostlyShort(12*time.Second), "goes on", func() {
				if b.proc == p && p.paused {
					b.goOn()
				}
			})
		}
	case 4:
		w.cutFor(w.mostlyShort(15*time.Second), simLink{b.id, other.id})
	case 5:
		w.cutFor(w.mostlyShort(15*time.Second), simLink{b.id, other.id}, simLink{other.id, b.id})
	case 6:
		w.cutFor(w.mostlyShort(10*time.Second), simLink{b.id, 0}, simLink{0, b.id})
	case 7:
		w.cutFor(w.mostlyShort(10*time.Second), simLink{0, b.id})
	case 8:
		w.cutFor(w.mostlyShort(12*time.Second), w.links(b.id)...)
	case 9:
		if w.rand.IntN(4) == 0 {
			w.cutFor(w.mostlyShort(8*time.Second), w.links(0)...)
		}
	case 10:
		b.skew = w.between(-time.Hour, time.Hour)
	case 11:
		if !b.proc.dead {
			b.proc.control.client.Expire()
		}
	case 12:
		w.operate(b.proc)
	case 13:
		w.shutDown(b)
	case 15, 16:
		w.churn(b.proc)
	case 14:
		w.trim(simTopics[w.rand.IntN(len(simTopics))])
	}
}

// links are all links of a machine.
func (w *simWorld) links(id int32) []simLink {
	var all []simLink
	for other := range int32(len(w.brokers) + 1) {
		if other != id {
			all = append(all, simLink{id, other}, simLink{other, id})
		}
	}
	return all
}

func (w *simWorld) cutFor(d time.Duration, links ...simLink) {
	w.say("cut %v for %v", links, d)
	for _, l := range links {
		w.cut[l]++
	}
	w.at(d, "mended", func() {
		for _, l := range links {
			w.cut[l] = max(0, w.cut[l]-1)
		}
	})
}

// operate is what operators do.
func (w *simWorld) operate(p *simProc) {
	tp := simTopics[w.rand.IntN(len(simTopics))]
	var r kmsg.Request
	if w.rand.IntN(2) == 0 {
		e := kmsg.NewPtrElectLeadersRequest()
		e.Version, e.TimeoutMillis = 2, 3000
		r = e
	} else {
		a := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		a.TimeoutMillis = 3000
		q := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		q.Partition = tp.Partition
		for _, i := range w.rand.Perm(len(w.brokers))[:3] {
			q.Replicas = append(q.Replicas, int32(i+1))
		}
		a.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: tp.Topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{q}}}
		r = a
	}
	p.run(func() { p.ask(r, func(kmsg.Response, error) {}) })
}

// trim deletes records, up to somewhere below the leader's high watermark.
func (w *simWorld) trim(tp log.TopicPartition) {
	p := w.chooseLeader(tp)
	p.run(func() {
		l := p.logs.Get(tp)
		if l == nil {
			return
		}
		to := w.rand.Int64N(l.Bounds().HighWatermark + 1)
		if _, leads := p.leads[tp]; leads {
			w.facts.trimmed[tp] = max(w.facts.trimmed[tp], to)
		}
		w.say("delete from %s up to %d at %d", tpName(tp), to, p.id)
		p.replicas.DeleteRecords(w.between(0, 5*time.Second), []replica.DeleteEntry{{Topic: tp.Topic, Partition: tp.Partition, Offset: to}},
			func([]replica.DeleteResult) {})
	})
}

// shutDown is a controlled shutdown: the process goes when the controller has answered, or after a while.
func (w *simWorld) shutDown(b *simBroker) {
	p := b.proc
	if p.dead || p.stopping {
		return
	}
	p.stopping = true
	w.say("%d shuts down", b.id)
	end := func() {
		if p.dead {
			return
		}
		b.crash()
		_ = p.control.client.Close()
		w.at(w.mostlyShort(3*time.Second), "start", func() {
			if b.proc == p {
				b.start()
			}
		})
	}
	r := kmsg.NewPtrControlledShutdownRequest()
	r.Version, r.BrokerID, r.BrokerEpoch = 3, b.id, p.control.epoch
	p.run(func() { p.ask(r, func(kmsg.Response, error) { p.after(0, "end", end) }) })
	w.at(6*time.Second, "end", end)
}

// repair undoes what trouble did, and has nothing more happen but clients.
func (w *simWorld) repair() {
	clear(w.cut)
	for _, b := range w.brokers {
		switch p := b.proc; {
		case p.dead:
			b.start()
		case p.paused:
			b.goOn()
		}
	}
}

// quiet waits until the last records have been replicated.
func (w *simWorld) quiet() {
	w.resting = true
	w.pass(5 * time.Second)
}
