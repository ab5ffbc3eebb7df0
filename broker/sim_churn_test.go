package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/log"
)

// simChurn is the partition of a topic that comes and goes, under one name with ever other ids. Its records are nobody's loss;
// what is looked at is that in the end the brokers have what the store says, and no more.
var simChurn = log.TopicPartition{Topic: "c"}

// churn creates or deletes the topic, whichever it may be.
func (w *simWorld) churn(p *simProc) {
	var r kmsg.Request
	if w.rand.IntN(2) == 0 {
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 7, 3000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = simChurn.Topic, 1, 3
		create.Topics = append(create.Topics, t)
		r = create
	} else {
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.Version, remove.TimeoutMillis = 6, 3000
		name := simChurn.Topic
		remove.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		r = remove
	}
	w.say("%d asks for %s of %s", p.id, kmsg.NameForKey(r.Key()), simChurn.Topic)
	p.run(func() { p.ask(r, func(kmsg.Response, error) {}) })
}

// churned looks at the end.
func (f *simFacts) churned() {
	nodes := f.w.store.Dump()
	data, exists := nodes[znode.TopicPath(simChurn.Topic)]
	var topic znode.Topic
	var state znode.State
	if exists {
		var err error
		if topic, err = znode.DecodeTopic([]byte(data)); err != nil {
			f.wrong("%s: %v", simChurn.Topic, err)
			return
		}
		if state, err = znode.DecodeState([]byte(nodes[znode.StatePath(simChurn.Topic, 0)])); err != nil || state.Leader < 0 || len(state.ISR) != 3 {
			f.wrong("%s has not settled: %+v of %v, %v", simChurn.Topic, state, topic.Replicas, err)
		}
	}
	for _, b := range f.w.brokers {
		l, at := b.proc.logs.Get(simChurn), b.proc.image.Image().Topic(simChurn.Topic)
		has := exists && slices.Contains(topic.Replicas[0], b.id)
		if has && (l == nil || l.TopicID() != topic.ID) || !has && l != nil && (!exists || l.TopicID() == topic.ID) {
			f.wrong("%d should have %s: %v; it has %v, the id is %v", b.id, tpName(simChurn), has, l, topic.ID)
		}
		if exists != (at != nil) || exists && (at.ID != topic.ID || at.Partitions[0].Leader != state.Leader) {
			f.wrong("%d says of %s %+v, the store %q", b.id, simChurn.Topic, at, data)
		}
	}
}
