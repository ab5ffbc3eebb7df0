package tools

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// place is where the tools find brokers: one that runs alone, or three in a cluster on ZooKeeper.
type place struct {
	Addr    string // for --bootstrap-server
	Kind    harness.Kind
	brokers []*harness.Broker
	cluster *harness.Cluster // nil: one alone
}

// alone is the broker that runs alone.
func alone(t *testing.T) *place {
	b := harness.Shared(t)
	return &place{Addr: b.Addr, Kind: b.Kind, brokers: []*harness.Broker{b}}
}

// started is a broker of the test's own that runs alone.
func started(t *testing.T, o harness.Options) *place {
	b := harness.Start(t, o)
	return &place{Addr: b.Addr, Kind: b.Kind, brokers: []*harness.Broker{b}}
}

// clustered is the cluster. Where the kind of broker knows no ZooKeeper the test is left out.
func clustered(t *testing.T) *place {
	harness.NeedCluster(t)
	c := harness.SharedCluster(t)
	return &place{Addr: c.Seeds(), Kind: harness.Peer(), brokers: c.Brokers, cluster: c}
}

// onZooKeeper says whether the brokers are what Kafka 3.9 is on ZooKeeper.
func (p *place) onZooKeeper() bool { return p.cluster != nil || p.Kind == harness.Kafka39 }

// both runs a test with the tools of each version.
func both(t *testing.T, test func(t *testing.T, tools *harness.Tools)) {
	harness.Need(t, "java")
	for _, version := range []string{harness.V39, harness.V44} {
		t.Run(version, func(t *testing.T) { test(t, harness.JavaTools(t, version)) })
	}
}

// everywhere runs a test with the tools of each version in each place.
func everywhere(t *testing.T, test func(t *testing.T, p *place, tools *harness.Tools)) {
	harness.Need(t, "java")
	t.Run("alone", func(t *testing.T) {
		p := alone(t)
		both(t, func(t *testing.T, tools *harness.Tools) { test(t, p, tools) })
	})
	t.Run("cluster", func(t *testing.T) {
		p := clustered(t)
		both(t, func(t *testing.T, tools *harness.Tools) { test(t, p, tools) })
	})
}

func (p *place) client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	return harness.Client(t, p.brokers[0], append([]kgo.Opt{kgo.SeedBrokers(strings.Split(p.Addr, ",")...)}, options...)...)
}

// createTopic creates a topic of as many replicas as there are brokers, given key and value pairs of its configuration, and returns once
// all that there are serve it.
func (p *place) createTopic(t testing.TB, topic string, partitions int, pairs ...string) {
	t.Helper()
	if p.cluster == nil {
		harness.CreateTopic(t, p.brokers[0], topic, partitions, pairs...)
		return
	}
	p.cluster.CreateTopic(t, topic, partitions, len(p.brokers), pairs...)
}

// leader is the broker that leads a partition.
func (p *place) leader(t testing.TB, topic string, partition int) *harness.Broker {
	t.Helper()
	if p.cluster == nil {
		return p.brokers[0]
	}
	return p.cluster.Broker(p.cluster.Leader(t, topic, partition))
}

// partitionDir is the folder of a partition at its leader.
func (p *place) partitionDir(t testing.TB, topic string, partition int) string {
	t.Helper()
	return p.leader(t, topic, partition).PartitionDir(t, topic, partition)
}

// awaitTopic returns once every broker knows a topic that a tool has created, and all its replicas are in sync.
func (p *place) awaitTopic(t testing.TB, topic string) {
	t.Helper()
	if p.cluster != nil {
		p.cluster.AwaitInSync(t, limit, topic)
	}
}

// idOf is the id of a broker, as the tools have it.
func (p *place) idOf(t testing.TB, b *harness.Broker, tools *harness.Tools) string {
	t.Helper()
	if p.cluster == nil {
		return brokerID(t, p, tools)
	}
	return fmt.Sprint(slices.Index(p.brokers, b) + 1)
}

// awaitExtended returns once every broker serves what gregor.extensions brings.
func (p *place) awaitExtended(t testing.TB) {
	t.Helper()
	for _, b := range p.brokers {
		harness.Eventually(t, limit, func() error {
			answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(harness.Context(t, limit), harness.Client(t, b))
			if err == nil && !slices.ContainsFunc(answer.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == kmsg.ListConfigResources.Int16() }) {
				err = fmt.Errorf("%s does not serve %s", b.Addr, kmsg.ListConfigResources.Name())
			}
			return err
		})
	}
}
