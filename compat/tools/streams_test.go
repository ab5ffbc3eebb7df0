package tools

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestStreamsReset: kafka-streams-application-reset puts an application's offsets where it is told and deletes its internal topics.
func TestStreamsReset(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic, app := name("input"), name("app")
		changelog, repartition := app+"-0-changelog", app+"-key-repartition"
		p.createTopic(t, topic, 2)
		p.createTopic(t, changelog, 1)
		p.createTopic(t, repartition, 1)
		produceTo(t, p, topic, 0, 6)
		produceTo(t, p, topic, 1, 4)
		member := p.client(t, kgo.ConsumerGroup(app), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
		harness.ReadAndCommit(t, member, 10)
		reset := func(args ...string) []string {
			return append([]string{"--bootstrap-server", p.Addr, "--application-id", app}, args...)
		}
		of := []string{"--input-topics", topic}
		wantRefused(t, tools.Try(t, "kafka-streams-application-reset", "", reset(of...)...), `(?s)Consumer group '`+app+`' is still active`)
		committed := func(zero, one int) {
			t.Helper()
			wantMatch(t, tools.Run(t, "kafka-consumer-groups", "--bootstrap-server", p.Addr, "--describe", "--group", app),
				fmt.Sprintf(`^%s\s+%s\s+0\s+%d\s`, app, topic, zero), fmt.Sprintf(`^%s\s+%s\s+1\s+%d\s`, app, topic, one))
		}
		topics := func() harness.Output { return tools.Run(t, "kafka-topics", "--bootstrap-server", p.Addr, "--list") }

		// --force throws the member out, and --dry-run changes nothing else.
		dry := tools.Run(t, "kafka-streams-application-reset", reset(append(of, "--dry-run", "--force")...)...)
		wantMatch(t, dry, `Topic: `+topic+` Partition: 0 Offset: 0`, `Topic: `+topic+` Partition: 1 Offset: 0`, `internal topics \[.*`+changelog+`.*\]`)
		member.Close()
		committed(6, 4)
		wantMatch(t, topics(), `^`+changelog+`$`)

		for i, to := range []struct {
			args      []string
			zero, one int
		}{
			{[]string{"--to-offset", "3"}, 3, 3},
			{[]string{"--shift-by", "2"}, 5, 4},
			{[]string{"--to-datetime", yesterday()}, 0, 0},
			{[]string{"--to-latest"}, 6, 4},
			{[]string{"--by-duration", "P1D"}, 0, 0},
			{[]string{"--from-file", input(t, "%s,0,2\n%[1]s,1,1\n", topic)}, 2, 1},
			{[]string{"--to-earliest"}, 0, 0},
		} {
			out := tools.Run(t, "kafka-streams-application-reset", reset(append(append(of, "--internal-topics", changelog), to.args...)...)...)
			wantMatch(t, out, fmt.Sprintf(`Topic: %s Partition: 0 Offset: %d`, topic, to.zero), fmt.Sprintf(`Topic: %s Partition: 1 Offset: %d`, topic, to.one))
			committed(to.zero, to.one)
			awaitNoMatch(t, topics, `^`+changelog+`$`)
			wantMatch(t, topics(), `^`+repartition+`$`)
			changelog = fmt.Sprintf("%s-%d-changelog", app, i+1)
			p.createTopic(t, changelog, 1)
		}
		between := name("between")
		p.createTopic(t, between, 1)
		produceTo(t, p, between, 0, 2)
		out := tools.Run(t, "kafka-streams-application-reset", reset(append(of, "--intermediate-topics", between)...)...)
		wantMatch(t, out, `(?s)intermediate topics.*`+between)
		awaitNoMatch(t, topics, `^`+app+`-`)
	})
}
