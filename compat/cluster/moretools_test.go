package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// TestMoreTools: what clients of a cluster do with the other tools; metadata-quorum, which has nothing to describe here, is refused as by
// Kafka 3.9 in ZooKeeper mode.
func TestMoreTools(t *testing.T) {
	c, tools := shared(t)
	topic, group := name("more"), name("more-group")
	c.CreateTopic(t, topic, 3, 3)
	perf := tools.Run(t, "kafka-producer-perf-test", "--topic", topic, "--num-records", "300", "--record-size", "100", "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+c.Broker(1).Addr, "acks=all")
	wantMatch(t, perf, `^300 records sent, `)
	consumed := tools.run(t, "kafka-console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "300", "--timeout-ms", "60000")
	if n := strings.Count(strings.TrimSpace(consumed.Stdout), "\n"); n != 299 {
		t.Errorf("%d lines were consumed, not 300", n+1)
	}
	sum := 0
	for line := range strings.Lines(tools.run(t, "kafka-get-offsets", "--topic", topic).Stdout) {
		var partition, offset int
		if _, err := fmt.Sscanf(strings.TrimSpace(line), topic+":%d:%d", &partition, &offset); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += offset
	}
	if sum != 300 {
		t.Errorf("the partitions end at %d together, not 300", sum)
	}
	wantMatch(t, tools.run(t, "kafka-consumer-groups", "--describe", "--group", group), group+`\s+`+topic+`\s+2\s+(\d+)\s+(\d+)\s+0\s`)
	wantMatch(t, tools.run(t, "kafka-consumer-groups", "--delete", "--group", group), `Deletion of requested consumer groups .*successful`)
	wantMatch(t, tools.run(t, "kafka-broker-api-versions"), `\(id: 1 rack: `, `\(id: 2 rack: `, `\(id: 3 rack: `)
	wantMatch(t, tools.Run(t, "kafka-cluster", "cluster-id", "--bootstrap-server", c.Broker(2).Addr), `Cluster ID: [A-Za-z0-9_-]{22}`)
	quorum := tools.try(t, "kafka-metadata-quorum", "describe", "--status")
	if quorum.Code == 0 || !strings.Contains(quorum.String(), "does not support DESCRIBE_QUORUM") {
		t.Errorf("kafka-metadata-quorum ends with %d:\n%.1000s", quorum.Code, quorum)
	}
}
