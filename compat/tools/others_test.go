package tools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestTopicsDescribed: which topics and partitions kafka-topics shows, and how many brokers are asked at a time.
func TestTopicsDescribed(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		id, topic := brokerID(t, p, tools), name("described")
		topics := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-topics", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		topics("--create", "--topic", topic, "--replica-assignment", id+","+id+","+id, "--config", "min.insync.replicas=1")
		p.awaitTopic(t, topic)
		topics("--create", "--topic", topic, "--if-not-exists")
		topics("--alter", "--topic", name("absent"), "--if-exists", "--partitions", "4")
		topics("--describe", "--topic", name("absent"), "--if-exists")
		wantLines(t, topics("--describe", "--under-min-isr-partitions")) // whichever broker says what that is
		wantLines(t, topics("--describe", "--under-replicated-partitions"))
		wantLines(t, topics("--describe", "--unavailable-partitions"))
		awaitMatch(t, func() harness.Output { return topics("--describe", "--topic", topic, "--at-min-isr-partitions") },
			`Topic: `+topic+`\s+Partition: 1\s+Leader: `+id)
		wantMatch(t, topics("--describe", "--topics-with-overrides"), `Topic: `+topic+`\s.*Configs: .*min\.insync\.replicas=1`)
		wantMatch(t, topics("--describe", "--topic", "desc.*ed-[0-9]+", "--partition-size-limit-per-response", "2"), `Topic: `+topic+`\s.*PartitionCount: 3\s`,
			`Partition: 0\s+Leader: `+id, `Partition: 1\s+Leader: `+id, `Partition: 2\s+Leader: `+id)
		topicID := uuid.FindString(cut(topics("--describe", "--topic", topic).Stdout, "TopicId: "))
		wantMatch(t, topics("--describe", "--topic-id", topicID), `Topic: `+topic+`\s+TopicId: `+topicID)
		listed := topics("--list", "--exclude-internal")
		wantMatch(t, listed, "^"+topic+"$")
		if strings.Contains(listed.Stdout, "__consumer_offsets") {
			t.Errorf("an internal topic is listed:\n%s", listed)
		}
		topics("--delete", "--topic", topic)
		awaitNoMatch(t, func() harness.Output { return topics("--list") }, "^"+topic+"$")
		topics("--delete", "--topic", topic, "--if-exists")
	})
}

// cut is what follows a text within another.
func cut(text, before string) string {
	_, after, _ := strings.Cut(text, before)
	return after
}

// TestAllAtOnce: what the tools do with every group, every topic and every broker, and with files.
func TestAllAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic, group := name("others"), name("others-group")
		run := func(tool string, args ...string) harness.Output {
			return tools.Run(t, tool, append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		p.createTopic(t, topic, 2, "retention.ms", "123456")
		produceTo(t, p, topic, 0, 3)
		produceTo(t, p, topic, 1, 3)
		run("kafka-console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "6", "--timeout-ms", "30000")

		wantMatch(t, run("kafka-configs", "--entity-type", "topics", "--describe"), "Dynamic configs for topic "+topic+" are:")
		for i := range p.brokers {
			id := fmt.Sprint(i + 1)
			if p.cluster == nil {
				id = brokerID(t, p, tools)
			}
			wantMatch(t, run("kafka-configs", "--entity-type", "brokers", "--describe"), "Dynamic configs for broker "+id+" are:")
			wantMatch(t, run("kafka-transactions", "find-hanging", "--broker-id", id), `Topic\s+Partition`)
		}
		wantMatch(t, run("kafka-consumer-groups", "--describe", "--all-groups"), group+`\s+`+topic+`\s+0`)
		wantMatch(t, run("kafka-consumer-groups", "--describe", "--all-groups", "--state"), group+`\s.*Empty\s+0`)
		exported := run("kafka-consumer-groups", "--group", group, "--reset-offsets", "--topic", topic, "--to-earliest", "--export", "--dry-run")
		wantMatch(t, exported, topic+",0,0", topic+",1,0")
		saved := input(t, "%s", exported.Stdout)
		wantMatch(t, run("kafka-consumer-groups", "--group", group, "--reset-offsets", "--from-file", saved, "--execute"), group+`\s+`+topic+`\s+1\s+0`)
		wantMatch(t, run("kafka-consumer-groups", "--describe", "--group", group), group+`\s+`+topic+`\s+1\s+0\s`)
		if tools.Version == harness.V44 {
			wantMatch(t, run("kafka-groups", "--list"), "^"+group+`\s+Classic\s+consumer`)
			for _, filter := range []string{"--consumer", "--group-type classic", "--protocol consumer"} {
				wantMatch(t, run("kafka-groups", append([]string{"--list"}, strings.Fields(filter)...)...), "^"+group+`\s+Classic\s+consumer`)
			}
			for _, filter := range []string{"--share", "--streams", "--group-type consumer"} {
				if out := run("kafka-groups", append([]string{"--list"}, strings.Fields(filter)...)...); matches(out, "^"+group) {
					t.Errorf("%s lists a classic group:\n%s", filter, out)
				}
			}
			wantLines(t, run("kafka-share-groups", "--list"))
			wantLines(t, run("kafka-streams-groups", "--list"))
		}
	})
}

// TestQuorum: one voter, which is the broker.
func TestQuorum(t *testing.T) {
	p := alone(t)
	if p.Kind == harness.Kafka39 {
		t.Skip("3.9 on ZooKeeper has none")
	}
	both(t, func(t *testing.T, tools *harness.Tools) {
		id := brokerID(t, p, tools)
		describe := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-metadata-quorum", append([]string{"--bootstrap-server", p.Addr, "describe"}, args...)...)
		}
		wantMatch(t, describe("--status"), `LeaderId:\s+`+id, `HighWatermark:\s+[1-9]`, `CurrentVoters:.*`+id, `CurrentObservers:\s+\[\]`, `MaxFollowerLag:\s+0`)
		wantMatch(t, describe("--replication"), `^`+id+`\s.*\s0\s.*Leader`)
		wantMatch(t, describe("--replication", "--human-readable"), `^`+id+`\s.*\d+ ms ago\s.*Leader`)
	})
}
