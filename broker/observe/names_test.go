package observe

import (
	"regexp"
	"strings"
	"testing"
)

// mbeans are Kafka's, of which we show the same, as "domain type name labels attribute".
var mbeans = []string{
	"network RequestMetrics RequestsPerSec Count", "network RequestMetrics ErrorsPerSec Count",
	"network RequestMetrics TotalTimeMs Count", "network RequestMetrics TotalTimeMs 99thPercentile",
	"server BrokerTopicMetrics MessagesInPerSec Count", "server BrokerTopicMetrics BytesInPerSec Count",
	"server BrokerTopicMetrics BytesOutPerSec Count", "server BrokerTopicMetrics BytesRejectedPerSec Count",
	"server BrokerTopicMetrics TotalProduceRequestsPerSec Count", "server BrokerTopicMetrics FailedProduceRequestsPerSec Count",
	"server BrokerTopicMetrics TotalFetchRequestsPerSec Count", "server BrokerTopicMetrics FailedFetchRequestsPerSec Count",
	"log Log Size Value", "log Log NumLogSegments Value", "log Log LogStartOffset Value", "log Log LogEndOffset Value",
	"server ReplicaManager PartitionCount Value", "server ReplicaManager LeaderCount Value",
	"server ReplicaManager UnderReplicatedPartitions Value", "server ReplicaManager UnderMinIsrPartitionCount Value",
	"server ReplicaManager AtMinIsrPartitionCount Value", "server ReplicaManager OfflineReplicaCount Value",
	"server ReplicaManager IsrShrinksPerSec Count", "server ReplicaManager IsrExpandsPerSec Count",
	"server KafkaServer BrokerState Value",
	"controller KafkaController ActiveControllerCount Value", "controller KafkaController OfflinePartitionsCount Value",
	"controller KafkaController PreferredReplicaImbalanceCount Value", "controller KafkaController GlobalTopicCount Value",
	"controller KafkaController GlobalPartitionCount Value", "controller KafkaController ActiveBrokerCount Value",
}

// ruled is the name that the rules of the JMX exporter's example for Kafka (kafka-2_0_0.yml) give to an attribute: what is per
// second is a total, other counts are counts, values and percentiles have the plain name; all in lower case.
func ruled(mbean string) string {
	f := strings.Fields(mbean)
	name := "kafka_" + f[0] + "_" + f[1] + "_"
	perSecond, isRate := strings.CutSuffix(f[2], "PerSec")
	switch {
	case isRate && f[3] == "Count":
		name += perSecond + "_total"
	case f[3] == "Count":
		name += f[2] + "_count"
	default:
		name += f[2]
	}
	return strings.ToLower(name)
}

// TestNames: what has a name of Kafka's is what the exporter's rules make of a metric of Kafka's, and all that we show is
// described.
func TestNames(t *testing.T) {
	rules := map[string]bool{
		// No rule of the example is about it: this is the exporter's own form of
		// kafka.server<type=socket-server-metrics, clientSoftwareName=…, …><>connections.
		"kafka_server_socket_server_metrics_connections": true,
	}
	for _, mbean := range mbeans {
		rules[ruled(mbean)] = true
	}
	valid := regexp.MustCompile(`^(kafka|gregor)_[a-z0-9_]+$`)
	for name, text := range help {
		if !valid.MatchString(name) || text == "" {
			t.Errorf("%s: %q", name, text)
		}
		if strings.HasPrefix(name, "kafka_") && !rules[name] {
			t.Errorf("%s is no name of a metric of Kafka's", name)
		}
		delete(rules, name)
	}
	for name := range rules {
		t.Errorf("%s is not shown", name)
	}
}
