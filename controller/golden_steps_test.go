package controller

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGoldenSteps repeats what was done to the two real 3.9.2 brokers while the control requests were recorded, broker 1 being the
// controller, and holds what each broker is told in each step to what it was told then: the states of its replicas in order, the
// stops in order, and the metadata at the end. (In between metadata differs: we name no leader that does not know it yet.)
func TestGoldenSteps(t *testing.T) {
	want := recordedSteps(t)
	s := newScript(t)
	s.machine.o.Broker.Rack = "r1"
	s.seedGolden()
	s.play([]string{"begin"})
	for _, step := range []struct {
		name     string
		commands string
	}{
		{"kill9", "vanish 2"},
		{"restart", "register 2 r2; isr t9-0 1,2; isr t1-1 1,2; isr t1-0 1,2"},
		{"parts", "grow t9 2"},
		{"reassign", "reassign t9-0 1"},
		{"elect", "elect preferred t1-1"},
		{"delete", "delete t9"},
		{"ctlshut", "shutdown 2; vanish 2"},
	} {
		for _, server := range s.servers {
			server.mu.requests = nil
		}
		for command := range strings.SplitSeq(step.commands, "; ") {
			s.play(strings.Fields(command))
		}
		for _, id := range []int32{1, 2} {
			got := &told{states: map[string][]string{}, stops: map[string][]string{}, metadata: map[string]string{}}
			for _, r := range s.servers[id].mu.requests {
				got.request(t, r)
			}
			if step.name == "ctlshut" && id == 2 {
				delete(got.metadata, "t1-0") // it was gone before that reached it
				delete(got.stops, "t1-1")    // which it led: it need not follow now
			}
			got.same(t, fmt.Sprintf("%s, broker %d", step.name, id), want[step.name][id])
		}
	}
}

// seedGolden puts the cluster into the store as it was before the first of the steps.
func (s *script) seedGolden() {
	client := s.fake.Client()
	put := func(path string, data []byte, version int32) {
		ops := []store.Op{store.Create(path, data, store.Persistent)}
		for v := range version {
			ops = append(ops, store.Set(path, data, v))
		}
		if _, err := client.Commit(context.Background(), ops...); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, path := range znode.Persistent() {
		put(path, nil, 0)
	}
	put(znode.ControllerEpochPath, znode.EncodeControllerEpoch(2), 2)
	type part struct {
		replicas    []int32
		leader      int32
		leaderEpoch int32
		isr         []int32
		version     int32
	}
	one, two := part{[]int32{1}, 1, 0, []int32{1}, 0}, part{[]int32{2}, 2, 4, []int32{2}, 4}
	for i, topic := range []struct {
		name  string
		parts []part
	}{
		{"t1", []part{{[]int32{1, 2}, 2, 4, []int32{2, 1}, 6}, {[]int32{2, 1}, 2, 4, []int32{2, 1}, 6}}},
		{"t2", []part{two}},
		{"t9", []part{{[]int32{2, 1}, 2, 0, []int32{2, 1}, 0}}},
		{"__consumer_offsets", []part{two, one, two}},
		{"__transaction_state", []part{one, two, one}},
	} {
		z := znode.Topic{ID: [16]byte{15: byte(i + 1)}}
		for _, p := range topic.parts {
			z.Replicas = append(z.Replicas, p.replicas)
		}
		put(znode.TopicConfigPath(topic.name), znode.EncodeConfig(nil), 0)
		put(znode.TopicPath(topic.name), z.Encode(), 0)
		put(znode.PartitionsPath(topic.name), nil, 0)
		for i, p := range topic.parts {
			put(znode.PartitionPath(topic.name, int32(i)), nil, 0)
			put(znode.StatePath(topic.name, int32(i)), znode.State{ControllerEpoch: 1 + p.leader /* those of broker 1 are older */, Leader: p.leader, LeaderEpoch: p.leaderEpoch, ISR: p.isr}.Encode(), p.version)
		}
	}
	s.play([]string{"register", "2", "r2"})
}

// told is what a broker was told in a step.
type told struct {
	states, stops map[string][]string // by partition, in order, without repetitions
	metadata      map[string]string   // by partition, the last
}

func (w *told) state(name string, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(w.states[name], text) { // Kafka's replica state machine says again what the partition's has said
		w.states[name] = append(w.states[name], text)
	}
}

func (w *told) request(t *testing.T, req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.LeaderAndISRRequest:
		for _, topic := range showStates(r).Topics {
			for _, p := range topic.Partitions {
				w.state(tp(topic.Name, p.Partition), "%v", p)
			}
		}
	case *kmsg.UpdateMetadataRequest:
		for _, topic := range showMetadata(r).Topics {
			for _, p := range topic.Partitions {
				w.metadata[tp(topic.Name, p.Partition)] = fmt.Sprint(p)
			}
		}
	case *kmsg.StopReplicaRequest:
		for _, topic := range showStop(r).Topics {
			for _, p := range topic.Partitions {
				name := tp(topic.Name, p.Partition)
				w.stops[name] = append(w.stops[name], fmt.Sprint(p))
			}
		}
	default:
		t.Errorf("order %T", req)
	}
}

// same compares. Where we tell a broker's whole metadata at its start Kafka does too, so that all of it counts.
func (w *told) same(t *testing.T, where string, want *told) {
	t.Helper()
	if want == nil {
		want = &told{}
	}
	for _, name := range slices.Sorted(maps.Keys(joined(w.states, want.states))) {
		if !slices.Equal(w.states[name], want.states[name]) {
			t.Errorf("%s: %s was told\n%v, Kafka says\n%v", where, name, w.states[name], want.states[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(joined(w.stops, want.stops))) {
		if !slices.Equal(w.stops[name], want.stops[name]) {
			t.Errorf("%s: %s was stopped\n%v, Kafka says\n%v", where, name, w.stops[name], want.stops[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(joined(w.metadata, want.metadata))) {
		if w.metadata[name] != want.metadata[name] {
			t.Errorf("%s: metadata of %s is\n%v, Kafka says\n%v", where, name, w.metadata[name], want.metadata[name])
		}
	}
}

func joined[V any](a, b map[string]V) map[string]bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

// recordedSteps is what the recording says, by step and broker.
func recordedSteps(t *testing.T) map[string]map[int32]*told {
	f, err := os.Open("testdata/control-requests-3.9.2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	steps := map[string]map[int32]*told{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			recorded
			Step string `json:"step"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if steps[r.Step] == nil {
			steps[r.Step] = map[int32]*told{}
		}
		w := steps[r.Step][r.To]
		if w == nil {
			w = &told{states: map[string][]string{}, stops: map[string][]string{}, metadata: map[string]string{}}
			steps[r.Step][r.To] = w
		}
		switch r.API {
		case "LEADER_AND_ISR":
			var v statesJSON
			strict(t, r.Request, &v)
			for _, topic := range v.Topics {
				for _, p := range topic.Partitions {
					w.state(tp(topic.Name, p.Partition), "%v", p)
				}
			}
		case "UPDATE_METADATA":
			var v metadataJSON
			strict(t, r.Request, &v)
			for _, topic := range v.Topics {
				for _, p := range topic.Partitions {
					w.metadata[tp(topic.Name, p.Partition)] = fmt.Sprint(p)
				}
			}
		case "STOP_REPLICA":
			var v stopJSON
			strict(t, r.Request, &v)
			for _, topic := range v.Topics {
				for _, p := range topic.Partitions {
					name := tp(topic.Name, p.Partition)
					w.stops[name] = append(w.stops[name], fmt.Sprint(p))
				}
			}
		}
	}
	return steps
}
