// Package kafkago runs the tests of segmentio/kafka-go's own module against the broker.
package kafkago

import (
	"net"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/suite"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestKafkaGo runs the tests of the module's package kafka, of which some need no broker.
func TestKafkaGo(t *testing.T) {
	table := suite.Load(t, "kafka-go")
	dir := suite.Module(t, "github.com/segmentio/kafka-go", table.Version, "h1:JgDPPG75tC1rWIS2Me6MwcvXJ6f49UQ4HjAOef71Hno=")
	// Its go.mod says 1.23, which names no release, so that go would have to write another one.
	suite.Replace(t, dir, "go.mod", "\ngo 1.23\n", "\ngo 1.23.0\n")
	_, port, err := net.SplitHostPort(startBroker(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	// The tests know the broker as localhost, whose port is 9092 unless another one is said. It may be taken here.
	suite.Replace(t, dir, "*.go", "9092", port)

	tests := suite.GoTests{
		Dir: dir,
		// As the module's own CI does, but for the version that the tests take the broker for.
		Env:      []string{"KAFKA_VERSION=4.4.0", "KAFKA_SKIP_NETTEST=1"},
		Flags:    []string{"-parallel=16"}, // they wait most of the time, for the client's cache of metadata
		Packages: []string{"."},
	}
	tests.Exist(t, table)
	suite.Run(t, table, nil, tests.Run)
}

// startBroker starts a broker with the settings of the module's docker-compose.yml.
func startBroker(t *testing.T) *harness.Broker {
	t.Helper()
	props := map[string]string{
		"auto.create.topics.enable":        "true",
		"delete.topic.enable":              "true",
		"message.max.bytes":                "200000000",
		"group.initial.rebalance.delay.ms": "0",
		"offsets.topic.num.partitions":     "5",
	}
	if harness.Peer() != harness.Kafka44 { // there it is 1 already
		props["broker.id"] = "1"
	}
	return harness.Start(t, harness.Options{AdvertisedHost: "localhost", Props: props})
}
