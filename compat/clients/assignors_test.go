package clients

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestAssignors: Java's consumer with each of its assignors, eager and cooperative, and as a static member; in groups of the consumer
// protocol with each of the broker's assignors; and from one kind of group to the other.
func TestAssignors(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Shared(t)
	for _, version := range []string{"clients-2.8.2", harness.V44} {
		t.Run(version, func(t *testing.T) {
			topic := name("assignors")
			harness.CreateTopic(t, b, topic, 6)
			jars := filepath.Join(harness.KafkaHome(version), "lib", "*")
			command := []string{"-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF", "-cp", jars,
				"Assignors.java", b.Addr, topic, name("assignors-group")}
			modern := version == harness.V44 && b.Kind != harness.Kafka39
			if modern {
				command = append(command, "modern")
			}
			out := harness.Command(t, 6*time.Minute, "", nil, harness.Java(), command...)
			if out.Code != 0 {
				t.Fatalf("it ended with %d:\n%s", out.Code, out)
			}
			var want []string
			share := func(assignor, gaveUp string) {
				want = append(want, assignor+": two share, one gave up "+gaveUp, assignor+": the other has all, each record was read once")
			}
			share("RangeAssignor", "all")
			share("RoundRobinAssignor", "all")
			share("StickyAssignor", "all")
			share("CooperativeStickyAssignor", "half")
			want = append(want, "static, RangeAssignor: it has what it had", "static: one of two is refused by FencedInstanceIdException")
			if modern {
				share("uniform", "half")
				share("range", "half")
				want = append(want, "static, uniform: it has what it had", "static: one of two is refused by UnreleasedInstanceIdException",
					"from one kind to the other: uniform", "from one kind to the other: CooperativeStickyAssignor")
			}
			wantSteps(t, out, want...)
		})
	}
}
