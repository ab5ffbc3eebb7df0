package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestClusterIDIsGivenOnce(t *testing.T) {
	tree := storetest.NewFake(clock.System)
	first, second := tree.Client(), tree.Client()
	defer first.Close()
	defer second.Close()
	if id, err := ClusterID(t.Context(), first, "one"); err != nil || id != "one" {
		t.Errorf("a new cluster is %q (%v)", id, err)
	}
	if id, err := ClusterID(t.Context(), second, "two"); err != nil || id != "one" {
		t.Errorf("the cluster that exists is %q (%v)", id, err)
	}
}

func TestGeneratedBrokerIDsDiffer(t *testing.T) {
	tree := storetest.NewFake(clock.System)
	s := tree.Client()
	defer s.Close()
	for want := int32(1001); want <= 1003; want++ {
		if id, err := GenerateBrokerID(t.Context(), s, 1000); err != nil || id != want {
			t.Errorf("id %d (%v), want %d", id, err, want)
		}
	}
}

// TestCheckEndpoints: an address belongs to one broker; its own registration, of a session that is over, does not count.
func TestCheckEndpoints(t *testing.T) {
	s := storetest.NewFake(clock.System).Client()
	defer s.Close()
	at := func(id int32, ports ...int32) znode.Broker {
		b := znode.Broker{ID: id}
		for _, port := range ports {
			b.Endpoints = append(b.Endpoints, znode.Endpoint{Listener: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: port})
		}
		return b
	}
	if err := CheckEndpoints(t.Context(), s, at(1, 9092)); err != nil {
		t.Error("a cluster without brokers:", err)
	}
	for _, path := range znode.Persistent() {
		if _, err := s.Commit(t.Context(), store.Create(path, nil, store.Persistent)); err != nil {
			t.Fatal(err)
		}
	}
	for path, data := range map[string][]byte{znode.BrokerPath(1): at(1, 9092, 9093).Encode(), znode.BrokerPath(2): []byte("?")} {
		if _, err := s.Commit(t.Context(), store.Create(path, data, store.Ephemeral)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		b    znode.Broker
		want string
	}{
		{at(1, 9092), "<nil>"}, {at(3, 9094), "<nil>"},
		{at(3, 9094, 9093), "Configured end points h:9093 in advertised listeners are already registered by broker 1"},
		{at(3, 9093, 9092), "Configured end points h:9093,h:9092 in advertised listeners are already registered by broker 1"},
	} {
		if err := CheckEndpoints(t.Context(), s, c.b); fmt.Sprint(err) != c.want {
			t.Errorf("%+v: %v", c.b.Endpoints, err)
		}
	}
}

// TestTopicPartitions: what is being deleted or cannot be read does not count.
func TestTopicPartitions(t *testing.T) {
	s := storetest.NewFake(clock.System).Client()
	for _, path := range znode.Persistent() {
		if _, err := s.Commit(t.Context(), store.Create(path, nil, store.Persistent)); err != nil {
			t.Fatal(err)
		}
	}
	topic := znode.Topic{Replicas: [][]int32{{1}, {1}}}.Encode()
	for path, data := range map[string][]byte{
		znode.TopicPath("t"): topic, znode.TopicPath("dying"): topic, znode.DeleteTopicPath("dying"): nil, znode.TopicPath("odd"): []byte("?"),
	} {
		if _, err := s.Commit(t.Context(), store.Create(path, data, store.Persistent)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := TopicPartitions(t.Context(), s, nil)
	if err != nil || len(got) != 1 || got["t"] != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// readsOf counts the reads of nodes.
type readsOf struct {
	store.Store
	paths []string
}

func (r *readsOf) Read(ctx context.Context, reqs ...store.Req) ([]store.Node, error) {
	for _, q := range reqs {
		if q.Kind == store.Data {
			r.paths = append(r.paths, q.Path)
		}
	}
	return r.Store.Read(ctx, reqs...)
}

// TestTopicPartitionsReadsOnlyWhatIsNew: of topics that are known already no node is read, whether they are still there or not.
func TestTopicPartitionsReadsOnlyWhatIsNew(t *testing.T) {
	s := &readsOf{Store: storetest.NewFake(clock.System).Client()}
	for _, path := range znode.Persistent() {
		if _, err := s.Commit(t.Context(), store.Create(path, nil, store.Persistent)); err != nil {
			t.Fatal(err)
		}
	}
	for path, data := range map[string][]byte{
		znode.TopicPath("known"): nil, znode.TopicPath("marked"): nil, znode.DeleteTopicPath("marked"): nil,
		znode.TopicPath("new"): znode.Topic{Replicas: [][]int32{{1}}}.Encode(),
	} {
		if _, err := s.Commit(t.Context(), store.Create(path, data, store.Persistent)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := TopicPartitions(t.Context(), s, map[string]int{"known": 7, "marked": 7, "gone": 7})
	if want := map[string]int{"known": 7, "new": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if want := []string{znode.TopicPath("new")}; !slices.Equal(s.paths, want) {
		t.Errorf("nodes read: %v, want %v", s.paths, want)
	}
}
