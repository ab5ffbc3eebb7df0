package cli

import (
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDoctor: what is in order is said to be, and what is not, in words and by the exit code.
func TestDoctor(t *testing.T) {
	b := harness.Shared(t)
	wantMatch(t, gregor(t, b, "", "doctor", "connect"), `^ok    bootstrap server \S+: answers; the cluster has 1 broker$`, `^ok    broker \d+, which clients are told is at `, `^ok    controller`)
	harness.CreateTopic(t, b, "doctored", 2)
	wantMatch(t, gregor(t, b, "", "doctor", "cluster"), `^ok    broker \d+$`)
	wantMatch(t, gregor(t, b, "", "doctor", "partition", "doctored:1"), `^ok    doctored-1: `)
	wantMatch(t, gregor(t, b, "", "doctor"), `^ok    controller`, `^ok    partitions: all \d+ have a leader and their replicas in sync$`, `^ok    groups: none of \d+ rebalances$`)
	wantMatch(t, gregor(t, b, "", "doctor", "partition", "doctored"), `^ok    doctored-0: broker \d+ leads, 1 replica in sync$`, `^ok    doctored-1: `)
	gregor(t, b, "a\nb\nc\n", "produce", "doctored")
	gregor(t, b, "", "consume", "doctored", "--group", "patients", "--num", "3")
	for what, args := range map[string][]string{
		"nobody is in it":                 {"group", "patients"},
		"it does not exist":               {"group", "nobody"},
		"UNKNOWN_TOPIC_OR_PARTITION":      {"partition", "nowhere"},
		"no such partition":               {"partition", "doctored", "7"},
		"nothing listens there":           {"connect", "-b", "127.0.0.1:1"},
		"cannot be looked up":             {"connect", "-b", "no.such.name.invalid:9092"},
		`"x" is no list of partitions`:    {"partition", "doctored:x"},
		`127\.0\.0\.1:1: nothing listens`: {"-b", "127.0.0.1:1"},
	} {
		out := run(t, b, "", append([]string{"doctor"}, args...)...)
		if out.Code == 0 {
			t.Errorf("gregor doctor %v finds nothing", args)
		}
		wantMatch(t, out.String(), what)
	}
}

// TestDoctorOfLivingGroups: a group that reads and one that does not, of both protocols.
func TestDoctorOfLivingGroups(t *testing.T) {
	b := harness.Shared(t)
	gregor(t, b, "", "topic", "create", "living", "--partitions", "2")
	gregor(t, b, "a\nb\n", "produce", "living", "--partition", "1")
	for group, opts := range map[string][]kgo.Opt{
		"living-classic": nil,
		"living-modern":  {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())},
	} {
		member := harness.Client(t, b, append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics("living"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if records := member.PollFetches(t.Context()); records.Err() != nil {
			t.Fatal(records.Err())
		}
		out := run(t, b, "", "doctor", "group", group)
		if out.Code != 1 {
			t.Errorf("a group that stands still: exit code %d", out.Code)
		}
		wantMatch(t, out.String(), `^ok    group `+group+`: stable, 1 member, assignor `, `^ok    work: 2 partitions among 1 member$`,
			`^WRONG offsets: 2 records behind, and nothing was committed in 6s$`, ` at /127\.0\.0\.1`)
		if err := member.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantMatch(t, gregor(t, b, "", "doctor", "group", group, "--for", "0s"), `^ok    offsets: 0 records behind$`)
	}
}
