package cli

import (
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestDoctor: what is in order is said to be, and what is not, in words and by the exit code.
func TestDoctor(t *testing.T) {
	b := harness.Shared(t)
	wantMatch(t, gregor(t, b, "", "doctor", "connect"), `^ok    bootstrap server \S+: answers; the cluster has 1 broker$`, `^ok    broker \d+, which clients are told is at `, `^ok    controller`)
	harness.CreateTopic(t, b, "doctored", 2)
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
		`"x" is no number of a partition`: {"partition", "doctored", "x"},
	} {
		out := run(t, b, "", append([]string{"doctor"}, args...)...)
		if out.Code == 0 {
			t.Errorf("gregor doctor %v finds nothing", args)
		}
		wantMatch(t, out.String(), what)
	}
}
