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

// TestConsumerGroups: what kafka-consumer-groups shows of a group with a member and without, and what it changes.
func TestConsumerGroups(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic, group := name("groups"), name("group")
		p.createTopic(t, topic, 2)
		produceTo(t, p, topic, 0, 6)
		produceTo(t, p, topic, 1, 4)
		groups := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-consumer-groups", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		of := func(args ...string) harness.Output { return groups(append([]string{"--group", group}, args...)...) }

		member := p.client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ClientID("franz"))
		harness.ReadAndCommit(t, member, 10)

		wantMatch(t, groups("--list"), "^"+group+"$")
		wantMatch(t, groups("--list", "--state"), "^"+group+`\s+.*Stable`)
		wantMatch(t, groups("--list", "--type"), "^"+group+`\s+[Cc]lassic`)
		wantMatch(t, groups("--list", "--state", "stable"), "^"+group+`\s+.*Stable`)
		if out := groups("--list", "--state", "empty"); matches(out, "^"+group) {
			t.Errorf("a group that runs is listed as empty:\n%s", out)
		}
		wantMatch(t, of("--describe"), `^`+group+`\s+`+topic+`\s+0\s+6\s+6\s+0\s+franz-\S+\s+/127\.0\.0\.1\s+franz`,
			`^`+group+`\s+`+topic+`\s+1\s+4\s+4\s+0\s+franz-`)
		wantMatch(t, of("--describe", "--offsets", "--timeout", "20000"), `^`+group+`\s+`+topic+`\s+1\s+4\s+4\s+0\s+franz-`)
		wantMatch(t, of("--describe", "--state"), `^`+group+`\s+127\.0\.0\.1:\d+\s+\(\d+\)\s+cooperative-sticky\s+.*Stable\s+1`)
		wantMatch(t, of("--describe", "--members", "--verbose"), `franz-\S+\s+/127\.0\.0\.1\s+franz\s+2\s+.*\(?0,1\)?`)

		reset := []string{"--group", group, "--reset-offsets", "--topic", topic}
		busy := tools.Try(t, "kafka-consumer-groups", "", append([]string{"--bootstrap-server", p.Addr, "--execute", "--to-earliest"}, reset...)...)
		wantMatch(t, busy, "can only be reset if the group")
		busy = tools.Try(t, "kafka-consumer-groups", "", "--bootstrap-server", p.Addr, "--delete", "--group", group)
		wantMatch(t, busy, "not empty")
		member.Close()
		awaitMatch(t, func() harness.Output { return of("--describe", "--state") }, "Empty")
		wantMatch(t, groups("--list", "--state", "empty,dead"), "^"+group+`\s+.*Empty`)

		resets(t, of, group, topic)
		wantMatch(t, of("--describe"), group+`\s+`+topic+`\s+0\s+1\s+6\s+5\s+-`, "no active members")
		wantMatch(t, of("--delete-offsets", "--topic", topic+":1"), topic+`\s+1\s+Successful`)
		if out := of("--describe"); matches(out, topic+`\s+1\s`) {
			t.Errorf("the deleted offset is described:\n%s", out.Stdout)
		}
		wantMatch(t, groups("--delete", "--group", group), `Deletion of requested consumer groups .*successful`)
		awaitNoMatch(t, func() harness.Output { return groups("--list") }, "^"+group+"$")
		gone := tools.Try(t, "kafka-consumer-groups", "", "--bootstrap-server", p.Addr, "--describe", "--group", group)
		wantMatch(t, gone, "does not exist|not found")
	})
}

// resets has an empty group's offsets, of partitions with 6 and 4 records that it has read, reset in every way, and leaves them at 1 and 0.
func resets(t *testing.T, of func(...string) harness.Output, group, topic string) {
	t.Helper()
	for _, reset := range []struct {
		to         string
		zero, one  int
		topic, how string
	}{
		{"--to-earliest", 0, 0, topic, "--dry-run"},
		{"--to-current", 6, 4, topic, "--execute"}, // where it was
		{"--to-earliest", 0, 0, topic, "--execute"},
		{"--to-offset 3", 3, 3, topic, "--execute"},
		{"--shift-by 2", 5, 4, topic, "--execute"}, // at most to the end
		{"--to-datetime " + yesterday(), 0, 0, topic, "--execute"},
		{"--to-latest", 6, 4, topic, "--execute"},
		{"--by-duration P1D", 0, 0, "", "--execute"},
		{"--shift-by 1", 1, -1, topic + ":0", "--execute"},
	} {
		args := append([]string{"--reset-offsets", reset.how}, strings.Fields(reset.to)...)
		if reset.topic != "" {
			args = append(args, "--topic", reset.topic)
		} else {
			args = append(args, "--all-topics")
		}
		out := of(args...)
		for partition, offset := range []int{reset.zero, reset.one} {
			if row := fmt.Sprintf(`\b%s\s+%s\s+%d\s+%d\s`, group, topic, partition, offset); matches(out, row) != (offset >= 0) {
				t.Errorf("%v: no match of %q, or one that should not be, in:\n%s", args, row, out)
			}
		}
	}
}

// yesterday is a time as the tools take it.
func yesterday() string {
	return time.Now().UTC().Add(-24 * time.Hour).Format("2006-01-02T15:04:05.000")
}

// TestConsumerProtocolGroups: the tools of 4.4 show a group of the consumer protocol (KIP-848), and its records.
func TestConsumerProtocolGroups(t *testing.T) {
	harness.Need(t, "java")
	p := alone(t)
	if p.Kind == harness.Kafka39 {
		t.Skip("3.9 in ZooKeeper mode has no groups of the consumer protocol")
	}
	protocolGroups(t, p, harness.JavaTools(t, harness.V44))
	earlyGroups(t, p, harness.JavaTools(t, harness.V39))
}

// earlyGroups: the clients of 3.9, of which the consumer protocol was new, read by it, and its tools show their groups.
func earlyGroups(t *testing.T, p *place, tools *harness.Tools) {
	t.Helper()
	topic, group := name("early"), name("early-group")
	p.createTopic(t, topic, 1)
	produceTo(t, p, topic, 0, 7)
	read := tools.Run(t, "kafka-console-consumer", "--bootstrap-server", p.Addr, "--topic", topic, "--group", group, "--from-beginning",
		"--consumer-property", "group.protocol=consumer", "--max-messages", "7", "--timeout-ms", "60000")
	wantLines(t, read, "line 0", "line 1", "line 2", "line 3", "line 4", "line 5", "line 6")
	groups := func(args ...string) harness.Output {
		return tools.Run(t, "kafka-consumer-groups", append([]string{"--bootstrap-server", p.Addr}, args...)...)
	}
	wantMatch(t, groups("--describe", "--group", group), group+`\s+`+topic+`\s+0\s+7\s+7\s+0\s`)
	wantMatch(t, groups("--describe", "--group", group, "--state"), group+`.*uniform\s+Empty\s+0`)
	wantMatch(t, groups("--list", "--type", "consumer"), `^`+group+`\s+Consumer`)
	verifiable(t, p, tools, verifiableTopic(t, p, tools), "--group-protocol", "consumer", "--group-remote-assignor", "range")
}

func protocolGroups(t *testing.T, p *place, tools *harness.Tools) {
	topic, group := name("nextgen"), name("nextgen-group")
	p.createTopic(t, topic, 2)
	lines := produceLines(t, p, tools, topic, 10)
	read := tools.Run(t, "kafka-console-consumer", "--bootstrap-server", p.Addr, "--topic", topic, "--group", group, "--from-beginning",
		"--command-property", "group.protocol=consumer", "--max-messages", "10", "--timeout-ms", "60000")
	for _, line := range lines {
		wantMatch(t, read, "^"+line+"$")
	}
	run := func(args ...string) harness.Output {
		return tools.Run(t, "kafka-consumer-groups", append([]string{"--bootstrap-server", p.Addr}, args...)...)
	}
	wantMatch(t, run("--describe", "--group", group, "--state", "--verbose"), group+`.*uniform\s+Empty\s+\d+\s+\d+\s+0`)
	wantMatch(t, run("--describe", "--group", group), group+`\s+`+topic+`\s+0\s+\d+`)

	member := p.client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()), kgo.ClientID("franz"))
	defer member.Close()
	ctx := harness.Context(t, time.Minute)
	go member.PollFetches(ctx)
	awaitMatch(t, func() harness.Output { return run("--describe", "--group", group, "--state") }, `uniform\s+Stable\s+1`)
	wantMatch(t, run("--list", "--type", "consumer"), `^`+group+`\s+[Cc]onsumer`)
	if out := run("--list", "--type", "classic"); strings.Contains(out.Stdout, group) {
		t.Errorf("the group is listed as classic:\n%s", out.Stdout)
	}
	wantMatch(t, tools.Run(t, "kafka-groups", "--bootstrap-server", p.Addr, "--list", "--consumer"), `^`+group+`\s+Consumer\s+consumer`)
	wantMatch(t, run("--describe", "--group", group, "--members", "--verbose"), group+`\s+\S+\s+/127\.0\.0\.1\s+franz\s+2\s+\d+\s+`+topic+`:0,1\s+\d+\s+`+topic+`:0,1`)

	groupConfigs(t, p, tools, group)
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

	dump := tools.Run(t, "kafka-dump-log", "--offsets-decoder", "--files", p.segments(t, "__consumer_offsets"))
	for _, kind := range []string{"3", "5", "6", "7", "8"} {
		wantMatch(t, dump, `"type":"`+kind+`".*"groupId":"`+group+`"`)
	}
	if strings.Contains(dump.String(), "Failed to decode") {
		t.Errorf("records that cannot be decoded:\n%.3000s", dump)
	}
}

// TestValidateRegex: the tool of 4.4 says of a regular expression whether brokers read it, which needs none.
func TestValidateRegex(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		if tools.Version == harness.V39 {
			return // which has no such option
		}
		wantMatch(t, tools.Run(t, "kafka-consumer-groups", "--bootstrap-server", p.Addr, "--validate-regex", "next.*"), "The regular expression `next\\.\\*` is valid")
		wantMatch(t, tools.Try(t, "kafka-consumer-groups", "", "--validate-regex", "next["), "(?i)not valid|invalid|missing")
	})
}

// groupConfigs has a group's configuration set, shown and refused, and leaves it with a heartbeat every 6 seconds.
func groupConfigs(t *testing.T, p *place, tools *harness.Tools, group string) {
	t.Helper()
	configs := func(args ...string) harness.Output {
		return tools.Try(t, "kafka-configs", "", append([]string{"--bootstrap-server", p.Addr}, args...)...)
	}
	of := []string{"--entity-type", "groups", "--entity-name", group}
	const set = `consumer\.heartbeat\.interval\.ms=6000 sensitive=false synonyms=\{DYNAMIC_GROUP_CONFIG:consumer\.heartbeat\.interval\.ms=6000`
	wantMatch(t, configs(append(of, "--alter", "--add-config", "consumer.heartbeat.interval.ms=6000")...), "Completed updating config for group "+group)
	awaitMatch(t, func() harness.Output { return configs(append(of, "--describe")...) }, set)
	awaitMatch(t, func() harness.Output { return configs("--group", group, "--describe") }, set)
	awaitMatch(t, func() harness.Output { return configs("--entity-type", "groups", "--describe") }, `Dynamic configs for group `+group+` are:`)
	wantRefused(t, configs(append(of, "--alter", "--add-config", "consumer.session.timeout.ms=1")...), `must be in the range 45000 to 60000 inclusive`)
}
