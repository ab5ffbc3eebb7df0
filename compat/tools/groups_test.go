package tools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestConsumerGroups(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic, group := name("groups"), name("group")
		harness.CreateTopic(t, b, topic, 2)
		lines := produceLines(t, b, tools, topic, 10)
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-consumer-groups", append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}

		member := harness.Client(t, b, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ClientID("franz"))
		harness.ReadAndCommit(t, member, len(lines))

		wantMatch(t, run("--list"), "^"+group+"$")
		wantMatch(t, run("--list", "--state"), "^"+group+`\s+.*Stable`)
		wantMatch(t, run("--describe", "--group", group), `^`+group+`\s+`+topic+`\s+[01]\s.*\s+0\s+franz-\S+\s+/127\.0\.0\.1\s+franz`)
		wantMatch(t, run("--describe", "--group", group, "--state"), `cooperative-sticky\s+.*Stable\s+1`)
		wantMatch(t, run("--describe", "--group", group, "--members", "--verbose"), `franz-\S+\s+/127\.0\.0\.1\s+franz\s+2\s+.*\(?0,1\)?`)

		reset := []string{"--group", group, "--reset-offsets", "--topic", topic, "--to-earliest"}
		refused := tools.Try(t, "kafka-consumer-groups", "", append([]string{"--bootstrap-server", b.Addr, "--execute"}, reset...)...)
		if !strings.Contains(refused.String(), "can only be reset if the group") {
			t.Errorf("resetting a group that runs prints:\n%s", refused)
		}
		refused = tools.Try(t, "kafka-consumer-groups", "", "--bootstrap-server", b.Addr, "--delete", "--group", group)
		if !strings.Contains(refused.String(), "not empty") {
			t.Errorf("deleting a group that runs prints:\n%s", refused)
		}
		member.Close()

		harness.Eventually(t, time.Minute, func() error {
			if out := run("--describe", "--group", group, "--state"); !strings.Contains(out.Stdout, "Empty") {
				return &printed{out}
			}
			return nil
		})
		wantMatch(t, run(append(reset, "--dry-run")...), group+`\s+`+topic+`\s+1\s+0`)
		wantMatch(t, run(append(reset, "--execute")...), group+`\s+`+topic+`\s+1\s+0`)
		wantMatch(t, run("--describe", "--group", group), group+`\s+`+topic+`\s+0\s+0\s+\d+\s+\d+\s+-`, "no active members")
		run("--group", group, "--reset-offsets", "--topic", topic+":0", "--shift-by", "1", "--execute")
		wantMatch(t, run("--describe", "--group", group, "--offsets"), group+`\s+`+topic+`\s+1\s+0\s`)

		wantMatch(t, run("--delete-offsets", "--group", group, "--topic", topic+":1"), topic+`\s+1\s+Successful`)
		if out := run("--describe", "--group", group); strings.Contains(out.Stdout, topic+"  1") {
			t.Errorf("the deleted offset is described:\n%s", out.Stdout)
		}
		wantMatch(t, run("--delete", "--group", group), `Deletion of requested consumer groups .*successful`)
		if out := run("--list"); strings.Contains(out.Stdout, group+"\n") {
			t.Errorf("the deleted group is listed:\n%s", out.Stdout)
		}
		gone := tools.Try(t, "kafka-consumer-groups", "", "--bootstrap-server", b.Addr, "--describe", "--group", group)
		if !strings.Contains(gone.String(), "does not exist") && !strings.Contains(gone.String(), "not found") {
			t.Errorf("describing the deleted group prints:\n%s", gone)
		}
	})
}

type printed struct{ out harness.Output }

func (p *printed) Error() string { return "it printed:\n" + p.out.String() }

// TestConsumerProtocolGroups: the tools of 4.4 show a group of the consumer protocol (KIP-848), and 4.4's formatters its records.
func TestConsumerProtocolGroups(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Shared(t)
	if b.Kind == harness.Kafka39 {
		t.Skip("3.9 in ZooKeeper mode has no groups of the consumer protocol")
	}
	tools := harness.JavaTools(t, harness.V44)
	topic, group := name("nextgen"), name("nextgen-group")
	harness.CreateTopic(t, b, topic, 2)
	lines := produceLines(t, b, tools, topic, 10)
	read := tools.Run(t, "kafka-console-consumer", "--bootstrap-server", b.Addr, "--topic", topic, "--group", group, "--from-beginning",
		"--command-property", "group.protocol=consumer", "--max-messages", "10", "--timeout-ms", "60000")
	for _, line := range lines {
		wantMatch(t, read, "^"+line+"$")
	}
	run := func(args ...string) harness.Output {
		return tools.Run(t, "kafka-consumer-groups", append([]string{"--bootstrap-server", b.Addr}, args...)...)
	}
	wantMatch(t, run("--describe", "--group", group, "--state", "--verbose"), group+`.*uniform\s+Empty\s+\d+\s+\d+\s+0`)
	wantMatch(t, run("--describe", "--group", group), group+`\s+`+topic+`\s+0\s+\d+`)

	member := harness.Client(t, b, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()), kgo.ClientID("franz"))
	ctx := harness.Context(t, time.Minute)
	go member.PollFetches(ctx)
	harness.Eventually(t, time.Minute, func() error {
		if out := run("--describe", "--group", group, "--state"); !matches(out, `uniform\s+Stable\s+1`) {
			return &printed{out}
		}
		return nil
	})
	wantMatch(t, run("--validate-regex", "next.*"), `(?i)valid`)
	wantMatch(t, run("--list", "--type", "consumer"), `^`+group+`\s+[Cc]onsumer`)
	if out := run("--list", "--type", "classic"); strings.Contains(out.Stdout, group) {
		t.Errorf("the group is listed as classic:\n%s", out.Stdout)
	}
	wantMatch(t, tools.Run(t, "kafka-groups", "--bootstrap-server", b.Addr, "--list", "--consumer"), `^`+group+`\s+Consumer\s+consumer`)
	wantMatch(t, run("--describe", "--group", group, "--members", "--verbose"), group+`\s+\S+\s+/127\.0\.0\.1\s+franz\s+2\s+\d+\s+`+topic+`:0,1\s+\d+\s+`+topic+`:0,1`)

	configs := func(args ...string) harness.Output {
		return tools.Try(t, "kafka-configs", "", append([]string{"--bootstrap-server", b.Addr, "--entity-type", "groups", "--entity-name", group}, args...)...)
	}
	wantMatch(t, configs("--alter", "--add-config", "consumer.heartbeat.interval.ms=6000"), "Completed updating config for group "+group)
	wantMatch(t, configs("--describe"), `consumer\.heartbeat\.interval\.ms=6000 sensitive=false synonyms=\{DYNAMIC_GROUP_CONFIG:consumer\.heartbeat\.interval\.ms=6000`)
	wantMatch(t, configs("--alter", "--add-config", "consumer.session.timeout.ms=1"), `must be in the range 45000 to 60000 inclusive`)
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames = group, "probe", 60_000, []string{topic}
	beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	harness.Eventually(t, time.Minute, func() error {
		told, err := beat.RequestWith(ctx, member)
		if err == nil && told.HeartbeatIntervalMillis != 6000 {
			err = fmt.Errorf("a heartbeat's answer asks for one every %d ms", told.HeartbeatIntervalMillis)
		}
		return err
	})

	dump := tools.Run(t, "kafka-dump-log", "--offsets-decoder", "--files", strings.Join(offsetsLogs(t, b), ","))
	for _, kind := range []string{"3", "5", "6", "7", "8"} {
		wantMatch(t, dump, `"type":"`+kind+`".*"groupId":"`+group+`"`)
	}
	if strings.Contains(dump.String(), "Failed to decode") {
		t.Errorf("records that cannot be decoded:\n%.3000s", dump)
	}
}
