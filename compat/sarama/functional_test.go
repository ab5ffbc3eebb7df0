package sarama

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/suite"
)

const (
	brokers = 5
	// The tests reach broker n on this port + n. They are run on others, which are free.
	portsInSuite = 29090
)

// short are the tests that "make test" runs: a few of each kind, none of which takes long or stops a broker.
var short = []string{
	"TestFuncAdminAlterConfig", "TestFuncAdminAlterConsumerGroupOffsets", "TestFuncAdminAlterPartitionReassignments",
	"TestFuncAdminDeleteGroup", "TestFuncAdminDeleteRecords", "TestFuncAdminDeleteTopic", "TestFuncAdminDescribeConfig",
	"TestFuncAdminDescribeGroups", "TestFuncAdminDescribeLogDirs", "TestFuncAdminElectLeadersV1", "TestFuncAdminIncrementalAlterConfigs",
	"TestFuncAdminListConsumerGroups", "TestFuncAdminListOffsets", "TestFuncAdminNetworkErrorClosesControllerConnection",
	"TestFuncAdminQuotas", "TestFuncClientCoordinator", "TestFuncClientMetadata", "TestFuncConnectionFailure",
	"TestConsumerHighWaterMarkOffset", "TestConsumerPartialBatchRecovery", "TestFuncConsumerGroupStaticMembership_Basic",
	"TestFuncConsumerOffsetOutOfRange", "TestFuncDescribeProducers", "TestFuncDescribeTransactions", "TestFuncInitProducerId3",
	"TestFuncJoinGroupVersionSelection", "TestFuncListTransactions", "TestFuncMultiPartitionProduce", "TestFuncOffsetManager",
	"TestFuncProducingToInvalidTopic", "TestFuncProducingZstd", "TestFuncTxnAbortedProduce", "TestFuncTxnCommitNoMessages",
	"TestFuncTxnProduce", "TestFuncTxnProduceMultiTxn", "TestFuncTxnProduceNoBegin",
}

// TestFunctional runs the functional tests of sarama's own module: five brokers, reached through proxies that the tests break.
func TestFunctional(t *testing.T) {
	harness.NeedCluster(t)
	table := suite.Load(t, "sarama")
	dir := suite.Module(t, "github.com/IBM/sarama", table.Version, "h1:I59MWPHQUWqJNdRpsDUcbeCriog8SxjQaPfHNWxidEg=")
	outside := freeAddrs(t) // where the proxies find the brokers
	api, ports := startProxies(t, outside)
	suite.Replace(t, dir, "functional_*test.go", fmt.Sprint(portsInSuite), fmt.Sprint(ports))
	cluster := startBrokers(t, outside, ports)

	tests := suite.GoTests{
		Dir: dir,
		// The version that the tests take the brokers for.
		Env:      append(standInForDocker(t, cluster), "TOXIPROXY_ADDR="+api, "KAFKA_VERSION="+harness.V39),
		Flags:    []string{"-tags=functional"},
		Packages: []string{"."},
		Only:     suite.FuncsOf(t, dir, "functional_*_test.go"),
	}
	tests.Exist(t, table)
	suite.Run(t, table, short, tests.Run)
}

// freeAddrs returns an address for each broker.
func freeAddrs(t *testing.T) (addrs []string) {
	t.Helper()
	for range brokers {
		port, err := harness.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addrs
}

// startProxies starts toxiproxy with a proxy for each address, on ports that follow the one that it returns. It also returns the address
// of toxiproxy's own interface.
func startProxies(t *testing.T, targets []string) (api string, ports int) {
	t.Helper()
	first, err := harness.FreePorts(len(targets))
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	for i, target := range targets {
		name, listen := fmt.Sprintf("kafka%d", i+1), fmt.Sprintf("127.0.0.1:%d", first+i)
		if err := server.Collection.Add(toxiproxy.NewProxy(server, name, listen, target), true); err != nil {
			t.Fatal(err)
		}
	}
	front := httptest.NewServer(server.Routes())
	t.Cleanup(func() {
		front.Close()
		_ = server.Collection.Clear()
	})
	return front.URL, first - 1
}

// startBrokers starts the brokers as the suite's docker-compose.yml does. Clients reach them at the addresses outside but are told the
// proxies' ports.
func startBrokers(t *testing.T, outside []string, ports int) *harness.Cluster {
	t.Helper()
	inside := freeAddrs(t)
	return harness.StartCluster(t, harness.ClusterOptions{
		Kinds: []harness.Kind{harness.Peer(), harness.Peer(), harness.Peer(), harness.Peer(), harness.Peer()},
		Props: map[string]string{
			"default.replication.factor":               "2",
			"min.insync.replicas":                      "1",
			"offsets.topic.replication.factor":         "2",
			"transaction.state.log.replication.factor": "2",
			"transaction.state.log.min.isr":            "1",
			"replica.selector.class":                   "org.apache.kafka.common.replica.RackAwareReplicaSelector",
			"auto.create.topics.enable":                "false",
			"auto.leader.rebalance.enable":             "true",
		},
		PropsOf: func(id int) map[string]string {
			return map[string]string{
				"broker.rack":                    fmt.Sprint(id),
				"listeners":                      fmt.Sprintf("INTERNAL://%s,LOCAL://%s", inside[id-1], outside[id-1]),
				"advertised.listeners":           fmt.Sprintf("INTERNAL://%s,LOCAL://127.0.0.1:%d", inside[id-1], ports+id),
				"listener.security.protocol.map": "INTERNAL:PLAINTEXT,LOCAL:PLAINTEXT",
				"inter.broker.listener.name":     "INTERNAL",
			}
		},
	})
}
