package consumer

import (
	"os"
	"testing"

	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/log/record"
)

// stored is Metadata of the topics of a golden log: "ta" with four partitions, "tb" with two.
type stored map[string]Topic

func (s stored) PartitionCount(topic string) int32 { return map[string]int32{"ta": 4, "tb": 2}[topic] }
func (s stored) TopicNames() []string              { return []string{"ta", "tb"} }
func (s stored) Racks(string, int32) []string      { return nil }
func (s stored) TopicsVersion() int64              { return 1 }

func (s stored) TopicID(topic string) ([16]byte, bool) {
	id, ok := s[topic]
	return id, ok
}

func (s stored) TopicName(id [16]byte) (string, bool) {
	for name, known := range s {
		if known == id {
			return name, true
		}
	}
	return "", false
}

// replay calls f after each record of the log that Apache Kafka 4.4.0 wrote.
func replay(t *testing.T, f func(g *Group, kind schema.Type)) map[string]*Group {
	t.Helper()
	buf, err := os.ReadFile("../schema/testdata/consumer-groups-4.4.0.log")
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]*Group{}
	for len(buf) > 0 {
		var e record.Entry
		if e, buf, err = record.NextEntry(buf); err != nil {
			t.Fatal(err)
		}
		for r, err := range e.Records(record.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			if kind, err := schema.TypeOf(r.Key); err != nil || !kind.IsConsumer() {
				continue
			}
			key, err := schema.DecodeConsumerKey(r.Key)
			if err != nil {
				t.Fatal(err)
			}
			id := string(key.Group)
			if groups[id] == nil {
				groups[id] = New(id)
			}
			if _, err := groups[id].Apply(key, r.Value); err != nil {
				t.Fatal(err)
			}
			f(groups[id], key.Kind)
			if key.Kind == schema.ConsumerGroup && r.Value == nil {
				delete(groups, id)
			}
		}
	}
	return groups
}

// topicsOfLog finds the ids of the topics: that of "tb" has two partitions at most, "ta" more.
func topicsOfLog(t *testing.T) stored {
	t.Helper()
	most := map[Topic]int32{}
	replay(t, func(g *Group, _ schema.Type) {
		for _, m := range g.members {
			for _, p := range m.target {
				for _, partition := range p.Partitions {
					most[p.Topic] = max(most[p.Topic], partition)
				}
			}
		}
	})
	topics := stored{}
	for id, partition := range most {
		if partition == 3 {
			topics["ta"] = id
		} else {
			topics["tb"] = id
		}
	}
	if len(topics) != 2 || len(most) != 2 {
		t.Fatalf("topics %v", most)
	}
	return topics
}

// TestHashesOfKafka: the hash of a group's topics is the one that Apache Kafka stores.
func TestHashesOfKafka(t *testing.T) {
	e := &Env{Metadata: topicsOfLog(t)}
	compared := map[string]int{}
	replay(t, func(g *Group, kind schema.Type) {
		if kind != schema.ConsumerGroup || g.hash == 0 {
			return
		}
		d := g.demandOf(g.candidates())
		topics := d.topics()
		if len(topics) == 0 {
			return
		}
		compared[topics[0]+topics[len(topics)-1]]++
		if got := e.hashOf(topics); got != g.hash {
			t.Errorf("group %s, %q: hash %d, Kafka's %d", g.id, topics, got, g.hash)
		}
	})
	if compared["tata"] == 0 || compared["tatb"] == 0 {
		t.Errorf("compared %v", compared)
	}
}

// TestReplayOfKafka: groups that Kafka has deleted leave nothing, and what it has not is what its tools told at the end.
func TestReplayOfKafka(t *testing.T) {
	states := map[State]int{}
	for id, g := range replay(t, func(*Group, schema.Type) {}) {
		states[g.State()]++
		for _, m := range g.members {
			if !m.present {
				t.Errorf("group %s: something is left of member %s, which is gone", id, m.ID)
			}
		}
	}
	if states[Empty] == 0 || states[Assigning] == 0 || states[Reconciling] == 0 {
		t.Errorf("states %v", states)
	}
}
