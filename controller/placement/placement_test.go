package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gregor-broker/gregor/wire/errcode"
)

func brokers(n int) []Broker {
	var list []Broker
	for i := range n {
		list = append(list, Broker{ID: int32(i)})
	}
	return list
}

// The example in the comment of AdminUtils.assignReplicasToBrokers: five brokers, ten partitions, three replicas.
func TestKafkasExample(t *testing.T) {
	got, err := Replicas(brokers(5), 10, 3, Start{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := "[[0 1 2] [1 2 3] [2 3 4] [3 4 0] [4 0 1] [0 2 3] [1 3 4] [2 4 0] [3 0 1] [4 1 2]]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// With a fixed start the first round is (i mod n, (i+j) mod n).
func TestFirstRound(t *testing.T) {
	for n := 1; n < 7; n++ {
		for factor := 1; factor <= n; factor++ {
			got, err := Replicas(brokers(n), int32(n), int16(factor), Start{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, replicas := range got {
				for j, id := range replicas {
					if int(id) != (i+j)%n {
						t.Errorf("%d brokers, factor %d, partition %d: %v", n, factor, i, replicas)
					}
				}
			}
		}
	}
}

// The example with racks: 0, 3, 1, 5, 4, 2 alternate, and partition 6 does not repeat partition 0.
func TestKafkasRackExample(t *testing.T) {
	list := []Broker{{0, "rack1"}, {1, "rack3"}, {2, "rack3"}, {3, "rack2"}, {4, "rack2"}, {5, "rack1"}}
	got, err := Replicas(list, 7, 3, Start{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := "[[0 3 1] [3 1 5] [1 5 4] [5 4 2] [4 2 0] [2 0 3] [0 4 2]]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// Added partitions go on where the topic's start broker and partition number say.
func TestAddedPartitions(t *testing.T) {
	whole, _ := Replicas(brokers(4), 12, 2, Start{1, 1}, 0)
	added, err := Replicas(brokers(4), 7, 2, Start{1, 1}, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i, replicas := range added {
		if whole[5+i][0] != replicas[0] {
			t.Errorf("partition %d: leader %d, in one go %d", 5+i, replicas[0], whole[5+i][0])
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		list       []Broker
		partitions int32
		factor     int16
		code       int16
		message    string
	}{
		{brokers(1), 0, 1, 37, "Number of partitions must be larger than 0."},
		{brokers(1), -2, 1, 37, "Number of partitions must be larger than 0."},
		{brokers(1), 1, 0, 38, "Replication factor must be larger than 0."},
		{brokers(1), 1, 3, 38, "Replication factor: 3 larger than available brokers: 1."},
		{nil, 1, 1, 38, "Replication factor: 1 larger than available brokers: 0."},
		{[]Broker{{1, "a"}, {2, ""}}, 1, 1, -1, ErrRacks.Error()},
	} {
		_, err := Replicas(c.list, c.partitions, c.factor, Start{}, 0)
		if err == nil || errcode.Of(err) != c.code || err.Error() != c.message {
			t.Errorf("%v %d×%d: %v (%d)", c.list, c.partitions, c.factor, err, errcode.Of(err))
		}
	}
	if _, err := Replicas([]Broker{{1, "a"}, {2, ""}}, 1, 1, Start{}, 0); !errors.Is(err, ErrRacks) {
		t.Error(err)
	}
}

// Whatever the cluster: replicas are distinct, leaders are even, and a partition spans as many racks as it can.
func TestProperties(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		n, racks := 1+r.IntN(12), r.IntN(4)
		list := brokers(n)
		names := map[string]bool{}
		for i := range list {
			if racks > 0 {
				list[i].Rack = fmt.Sprint("r", r.IntN(racks))
				names[list[i].Rack] = true
			}
		}
		rack := func(id int32) string {
			return list[slices.IndexFunc(list, func(b Broker) bool { return b.ID == id })].Rack
		}
		factor, partitions := 1+r.IntN(n), 1+r.IntN(60)
		got, err := Replicas(list, int32(partitions), int16(factor), Start{r.IntN(n), r.IntN(n)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		leads := map[int32]int{}
		for p, replicas := range got {
			leads[replicas[0]]++
			ids, spanned := map[int32]bool{}, map[string]bool{}
			for _, id := range replicas {
				ids[id], spanned[rack(id)] = true, true
			}
			if len(ids) != factor || racks > 0 && len(spanned) != min(factor, len(names)) {
				t.Fatalf("partition %d of %v: %v spans %v", p, list, replicas, spanned)
			}
		}
		for id, count := range leads {
			if most := (partitions + n - 1) / n; count > most {
				t.Fatalf("broker %d leads %d of %d partitions, %d brokers", id, count, partitions, n)
			}
		}
	}
}
