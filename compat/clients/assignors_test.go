package clients

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestAssignors: Java's consumer with each of its assignors, eager and cooperative, and as a static member.
func TestAssignors(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Shared(t)
	for _, version := range []string{"clients-2.8.2", harness.V44} {
		t.Run(version, func(t *testing.T) {
			topic := name("assignors")
			harness.CreateTopic(t, b, topic, 6)
			jars := filepath.Join(harness.KafkaHome(version), "lib", "*")
			out := harness.Command(t, 4*time.Minute, "", nil, harness.Java(), "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF",
				"-cp", jars, "Assignors.java", b.Addr, topic, name("assignors-group"))
			if out.Code != 0 {
				t.Fatalf("it ended with %d:\n%s", out.Code, out)
			}
			var want []string
			for _, a := range []struct{ assignor, gaveUp string }{
				{"RangeAssignor", "all"}, {"RoundRobinAssignor", "all"}, {"StickyAssignor", "all"}, {"CooperativeStickyAssignor", "half"},
			} {
				want = append(want, a.assignor+": two share, one gave up "+a.gaveUp, a.assignor+": the other has all, each record was read once")
			}
			wantSteps(t, out, append(want, "static: it has what it had", "static: the older of two is fenced")...)
		})
	}
}
