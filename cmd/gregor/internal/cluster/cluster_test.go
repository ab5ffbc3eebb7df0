package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kadm"
)

func brokers(ids ...int32) []target {
	var list []target
	for _, id := range ids {
		list = append(list, target{id: id})
	}
	return list
}

// topic makes the partitions of one topic with these replicas.
func topic(replicas ...[]int32) []move {
	var all []move
	for i, r := range replicas {
		all = append(all, move{partition: partition{"t", int32(i)}, from: r})
	}
	return all
}

func show(moves []move) string {
	var b strings.Builder
	for _, m := range moves {
		fmt.Fprintf(&b, "%d:%v→%v ", m.id, m.from, m.to)
	}
	return strings.TrimSpace(b.String())
}

func TestDrain(t *testing.T) {
	racks := []target{{1, "a"}, {2, "b"}, {3, "a"}, {5, "b"}}
	for _, c := range []struct {
		name    string
		targets []target
		moves   []move
		want    string
	}{
		{"fewest first", brokers(1, 2, 3), topic([]int32{1, 2}, []int32{4, 1}, []int32{2, 4}), "1:[4 1]→[3 1] 2:[2 4]→[2 3]"},
		{"nothing there", brokers(1, 2, 3), topic([]int32{1, 2}), ""},
		{"other racks", racks, topic([]int32{1, 4}, []int32{2, 4}), "0:[1 4]→[1 5] 1:[2 4]→[2 3]"},
	} {
		got, err := newSpreader(c.targets).drain(c.moves)
		if err != nil || show(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, show(got), err, c.want)
		}
	}
	if _, err := newSpreader(brokers(1)).drain(topic([]int32{1, 4})); err == nil || !strings.Contains(err.Error(), "t-0: 2 replicas cannot be on 1 broker") {
		t.Error(err)
	}
}

// A broker is drained though it is away, but one that nothing knows of is a slip of the pen.
func TestDrainOfNobody(t *testing.T) {
	m := kadm.Metadata{Brokers: kadm.BrokerDetails{{NodeID: 1}, {NodeID: 2}}}
	all := topic([]int32{1, 4})
	if got, err := planDrain(m, all, []int32{4}); err != nil || show(got) != "0:[1 4]→[1 2]" {
		t.Error(show(got), err)
	}
	if _, err := planDrain(m, all, []int32{9}); err == nil || !strings.Contains(err.Error(), "there is no broker 9") {
		t.Error(err)
	}
	if got, err := planDrain(m, all, []int32{2}); err != nil || len(got) != 0 {
		t.Error(show(got), err)
	}
}

func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name    string
		targets []target
		moves   []move
		factor  int
		want    string
	}{
		{"a new broker", brokers(1, 2, 3), topic([]int32{1, 2}, []int32{2, 1}, []int32{1, 2}), 0, "0:[1 2]→[2 3] 1:[2 1]→[3 1]"},
		{"only leaders", brokers(1, 2), topic([]int32{1, 2}, []int32{1, 2}), 0, "0:[1 2]→[2 1]"},
		{"more replicas", brokers(1, 2, 3), topic([]int32{1}, []int32{2}, []int32{3}), 2, "0:[1]→[3 2] 1:[2]→[2 1] 2:[3]→[1 3]"},
		{"fewer replicas", brokers(1, 2), topic([]int32{3, 1, 2}), 2, "0:[3 1 2]→[1 2]"},
		{"even already", brokers(1, 2, 3), topic([]int32{1, 2}, []int32{2, 3}, []int32{3, 1}), 0, ""},
	} {
		got, err := newSpreader(c.targets).balance(c.moves, c.factor)
		if err != nil || show(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, show(got), err, c.want)
		}
	}
	if _, err := newSpreader(brokers(1)).balance(topic([]int32{1}), 2); err == nil {
		t.Error("two replicas on one broker")
	}
}

// Whatever the cluster, a balanced one has sound replicas, and each target as many as any other, give or take one.
func TestBalanceAny(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 1 + random.IntN(6)
		var list []target
		for id := range n {
			list = append(list, target{id: int32(id)})
		}
		factor := 1 + random.IntN(n)
		var all []move
		for p := range 1 + random.IntN(40) {
			var replicas []int32
			for _, b := range random.Perm(n + 3)[:factor] {
				replicas = append(replicas, int32(b))
			}
			all = append(all, move{partition: partition{"t", int32(p)}, from: replicas})
		}
		s := newSpreader(list)
		planned := slices.Clone(all)
		if _, err := s.balance(planned, 0); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, p := range planned[:len(all)] {
			if p.to == nil {
				continue // what DeleteFunc has cleared
			}
			if len(p.to) != factor || len(slices.Compact(slices.Sorted(slices.Values(p.to)))) != factor {
				t.Fatalf("seed %d: %s has %v", seed, p.partition, p.to)
			}
		}
		for what, count := range map[string]map[int32]int{"replicas": s.replicas, "leaders": s.leads} {
			values := slices.Sorted(maps.Values(count))
			if values[len(values)-1]-values[0] > 1 && what == "replicas" { // leaders are as even as the replicas allow
				t.Errorf("seed %d: %s %v", seed, what, count)
			}
			total := 0
			for _, v := range values {
				total += v
			}
			if want := map[string]int{"replicas": len(all) * factor, "leaders": len(all)}[what]; total != want {
				t.Errorf("seed %d: %d %s counted, want %d", seed, total, what, want)
			}
		}
	}
}

func TestReadPlan(t *testing.T) {
	moves, err := readPlan(strings.NewReader(`{"version":1,"partitions":[
		{"topic":"b","partition":0,"replicas":[2,1]},{"topic":"a","partition":1,"replicas":[3],"log_dirs":["any"]}]}`))
	want := []move{{partition: partition{"a", 1}, to: []int32{3}}, {partition: partition{"b", 0}, to: []int32{2, 1}}}
	if err != nil || !reflect.DeepEqual(moves, want) {
		t.Fatal(moves, err)
	}
	var b bytes.Buffer
	if err := writePlan(&b, moves); err != nil {
		t.Fatal(err)
	}
	if again, err := readPlan(&b); err != nil || !reflect.DeepEqual(again, want) {
		t.Error(again, err)
	}
	for _, c := range []struct{ text, want string }{
		{``, "EOF"},
		{`{"version":2,"partitions":[]}`, "version 2"},
		{`{"version":1,"partitions":[]}`, "no partitions"},
		{`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[]}]}`, "a-0 has no replicas"},
		{`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,1]}]}`, "a-0: replicas [1 1]"},
		{`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[-1]}]}`, "a-0: replicas [-1]"},
		{`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":0,"replicas":[1]}]}`, "a-0 is named twice"},
		{`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["/x"]}]}`, "log directory"},
		{`{"version":1,"partitions":[{"topic":"","partition":0,"replicas":[1]}]}`, "of topic"},
		{`{"version":1,"partitions":[{"topik":"a"}]}`, "topik"},
	} {
		if _, err := readPlan(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		flags reassignFlags
		want  string
	}{
		{reassignFlags{plan: "p", execute: true}, ""},
		{reassignFlags{cancel: true}, ""},
		{reassignFlags{watch: true}, ""},
		{reassignFlags{topics: []string{"t"}, to: []int32{1}, factor: 2}, ""},
		{reassignFlags{}, "say with"},
		{reassignFlags{plan: "p", drain: []int32{1}}, "give one of --plan"},
		{reassignFlags{plan: "p", execute: true, cancel: true}, "give one of --execute"},
		{reassignFlags{topics: []string{"t"}, verify: true}, "--verify needs"},
		{reassignFlags{drain: []int32{1}, to: []int32{2}}, "--to and"},
		{reassignFlags{drain: []int32{1}, cancel: true}, "--cancel takes"},
		{reassignFlags{watch: true, plan: "p"}, "--watch shows"},
		{reassignFlags{plan: "p", doNotGo: true}, "--no-wait"},
		{reassignFlags{topics: []string{"t"}, factor: -1}, "at least 1"},
	} {
		err := c.flags.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || cli.ExitCode(err) != 2) {
			t.Errorf("%+v: %v", c.flags, err)
		}
	}
}

// holds is what log directories say of replicas: broker, partition, bytes.
func holds(list ...[3]int64) kadm.DescribedAllLogDirs {
	all := kadm.DescribedAllLogDirs{}
	for _, h := range list {
		broker := int32(h[0])
		if all[broker] == nil {
			all[broker] = kadm.DescribedLogDirs{"d": {Broker: broker, Dir: "d", Topics: kadm.DescribedLogDirTopics{"t": {}}}}
		}
		all[broker]["d"].Topics["t"][int32(h[1])] = kadm.DescribedLogDirPartition{Topic: "t", Partition: int32(h[1]), Size: h[2]}
	}
	return all
}

func TestGauge(t *testing.T) {
	one, two := partition{"t", 0}, partition{"t", 1}
	g := &gauge{copies: map[partition]*copying{one: {adding: []int32{3}}, two: {adding: []int32{3, 4}}}}
	r := g.read(map[partition]bool{one: false, two: false}, holds([3]int64{1, 0, 1_000_000}, [3]int64{3, 0, 250_000}, [3]int64{2, 1, 500_000}))
	if r.bytes != 250_000 || r.size != 2_000_000 || r.bytesOf[one] != 250_000 {
		t.Errorf("%+v", r)
	}
	if got, want := r.line(250_000, time.Second), "[###---------------------------]  12% 250.00 KB of 2.00 MB, 0 of 2 moves done, 250.00 KB/s, 7s left"; got != want {
		t.Errorf("%s\n%s", got, want)
	}
	// The first is done, and its old replica gone; the second has all bytes but is not in sync yet.
	r = g.read(map[partition]bool{one: true, two: false}, holds([3]int64{3, 0, 1_000_000}, [3]int64{2, 1, 500_000}, [3]int64{3, 1, 600_000}, [3]int64{4, 1, 500_000}))
	if r.bytes != 2_000_000 || r.size != 2_000_000 {
		t.Errorf("%+v", r)
	}
	if got := r.line(0, 0); !strings.HasPrefix(got, "[#############################-]  99% 2.00 MB of 2.00 MB, 1 of 2 moves done") {
		t.Error(got)
	}
	if got := (reading{done: map[partition]bool{one: true, two: true}}).line(0, 0); !strings.Contains(got, "100% 0 B of 0 B, 2 of 2 moves done") {
		t.Error(got)
	}
}

func TestDisplay(t *testing.T) {
	var b bytes.Buffer
	d := newDisplay(&b)
	for _, plain := range []string{"0 of 2 moves done", "0 of 2 moves done", "", "1 of 2 moves done"} {
		d.show("[bar]", plain)
	}
	d.close()
	if b.String() != "0 of 2 moves done\n1 of 2 moves done\n" {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	d.terminal = true
	d.show("[bar]", "plain")
	d.close()
	if b.String() != "\r\x1b[K[bar]\r\x1b[K" {
		t.Errorf("%q", b.String())
	}
}

func details(parts ...kadm.PartitionDetail) kadm.TopicDetails {
	d := kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{}}
	for i, p := range parts {
		p.Topic, p.Partition = "t", int32(i)
		d.Partitions[int32(i)] = p
	}
	return kadm.TopicDetails{"t": d}
}

func TestDescribe(t *testing.T) {
	rack := "r1"
	s := state{
		Metadata: kadm.Metadata{Cluster: "c", Controller: 2, Brokers: kadm.BrokerDetails{{NodeID: 10, Host: "h", Port: 2}, {NodeID: 2, Host: "h", Port: 1, Rack: &rack}},
			Topics: details(
				kadm.PartitionDetail{Leader: 2, Replicas: []int32{2, 10, 3}, ISR: []int32{2, 10}},
				kadm.PartitionDetail{Leader: 10, Replicas: []int32{2, 10, 3}, ISR: []int32{10}},
				kadm.PartitionDetail{Leader: -1, Replicas: []int32{3}, ISR: []int32{3}},
				kadm.PartitionDetail{Leader: 2, Replicas: []int32{2}, ISR: []int32{2}},
			)},
		sizes: map[int32]int64{2: 1500}, minISR: map[string]int{"t": 2}, moving: 1,
	}
	var b bytes.Buffer
	if err := s.write(&b); err != nil {
		t.Fatal(err)
	}
	want := `cluster     c
controller  2
brokers     2
topics      1 with 4 partitions and 8 replicas
moving      1 partition; gregor cluster reassign --watch shows how far

BROKER  ADDRESS  RACK  LEADS  PREFERRED  REPLICAS  NOT IN SYNC  SIZE
2       h:1      r1    2      3          3         1            1.50 KB  controller
3       -        -     0      1          3         2            -        away
10      h:2      -     1      0          2         0            -        does not answer

3 partitions not well
PARTITION  LEADER  REPLICAS  IN SYNC  WHAT
t-0        2       2,10,3    2,10     under-replicated
t-1        10      2,10,3    10       below min.insync.replicas (2)
t-2        -       3         3        no leader
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

func TestCandidates(t *testing.T) {
	topics := details(
		kadm.PartitionDetail{Leader: 1, Replicas: []int32{1, 2}},
		kadm.PartitionDetail{Leader: 2, Replicas: []int32{1, 2}},
		kadm.PartitionDetail{Leader: -1, Replicas: []int32{1, 2}},
	)
	for _, c := range []struct {
		chosen  cli.Selection
		unclean bool
		want    []partition
		looked  int
	}{
		{cli.Selection{}, false, []partition{{"t", 1}, {"t", 2}}, 3},
		{cli.Selection{"t": {0, 1}}, false, []partition{{"t", 1}}, 2},
		{cli.Selection{"t": nil}, true, []partition{{"t", 2}}, 3},
		{cli.Selection{"x": nil}, true, nil, 0},
	} {
		got, looked := candidates(topics, c.chosen, c.unclean)
		if !reflect.DeepEqual(got, c.want) || looked != c.looked {
			t.Errorf("%+v: %v %d", c, got, looked)
		}
	}
}
