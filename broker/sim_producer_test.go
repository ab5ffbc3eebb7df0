package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// simProducer is an idempotent producer with one request in flight: it sends each record until it is acknowledged, to whoever
// it takes for the leader. simFacts sees that each is committed once.
type simProducer struct {
	w       *simWorld
	tp      log.TopicPartition
	id      int64
	next    int32 // sequence
	tries   int
	pending bool
}

func (w *simWorld) startProducers() {
	for i, tp := range simTopics {
		p := &simProducer{w: w, tp: tp, id: int64(1000 + i)}
		w.producers = append(w.producers, p)
		w.at(0, "producer", p.begin)
	}
}

// begin sends the next record, unless the world rests.
func (p *simProducer) begin() {
	if p.w.resting {
		return
	}
	p.pending = true
	p.send()
}

func (p *simProducer) value() string { return fmt.Sprintf("p%d-%d", p.id, p.next) }
func (p *simProducer) last() string  { return fmt.Sprintf("p%d-%d", p.id, p.next-1) }

// send tries once; another try follows unless an acknowledgement comes.
func (p *simProducer) send() {
	p.tries++
	try, sequence, to := p.tries, p.next, p.w.chooseLeader(p.tp)
	again := func() {
		if p.tries == try && p.next == sequence {
			p.send()
		}
	}
	p.w.at(4*time.Second, "producer's patience", again)
	b, err := record.Build(record.BatchOptions{LeaderEpoch: -1, ProducerID: p.id, BaseSequence: sequence},
		[]record.Record{{Value: []byte(p.value()), Timestamp: simBegin.UnixMilli()}})
	if err != nil {
		p.w.t.Fatal(err)
	}
	to.run(func() {
		to.replicas.Produce(replica.ProduceParams{Version: 11, Acks: replica.AcksAll, Timeout: 3 * time.Second},
			[]replica.ProduceEntry{{Topic: p.tp.Topic, Partition: p.tp.Partition, Records: b}}, func(rs []replica.ProduceResult) {
				p.answered(to, sequence, rs[0], again)
			})
	})
}

func (p *simProducer) answered(from *simProc, sequence int32, r replica.ProduceResult, again func()) {
	if p.next != sequence {
		return // a late answer to an earlier try
	}
	w := p.w
	switch {
	case errors.Is(r.Err, kerr.OutOfOrderSequenceNumber) && from.leads[p.tp] == w.facts.state[p.tp].LeaderEpoch: // not one who has been deposed
		if p.next == 0 || w.facts.where[p.last()] >= w.facts.trimmed[p.tp] {
			w.facts.wrong("%d refuses %q for %s as out of order, although all before it were acknowledged: it has %+v", from.id, p.value(), tpName(p.tp),
				from.logs.Get(p.tp).Producers())
			return
		}
		// Its last record was deleted, and that broker may never have had it: a producer takes another epoch then.
		p.id, p.next = p.id+100, 0
		p.send()
	case r.Err != nil:
		w.at(w.between(time.Millisecond, 500*time.Millisecond), "producer tries again", again)
	default:
		w.facts.acknowledgedOnce(from, p.tp, r.BaseOffset, p.value())
		p.next++
		p.pending = false
		w.at(w.mostlyShort(2*time.Second), "producer", p.begin)
	}
}
