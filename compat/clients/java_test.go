package clients

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestJavaOfOld: Java clients from the oldest on write records of old formats with every codec that they have, read what others wrote,
// and commit.
func TestJavaOfOld(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Shared(t)
	if b.Kind == harness.Kafka44 {
		t.Skip("Kafka 4 dropped these clients")
	}
	admin := kadm.NewClient(harness.Client(t, b))
	for _, c := range []struct {
		version  string
		codecs   []string
		consumes bool
	}{
		{"0.8.2.2", []string{"none", "gzip"}, false},
		{"0.9.0.1", []string{"gzip", "none"}, true},
		{"0.10.2.2", []string{"gzip", "lz4"}, true},
	} {
		t.Run(c.version, func(t *testing.T) {
			topic, group := "java-"+c.version, "java-group-"+c.version
			harness.CreateTopic(t, b, topic, 1)
			run := func(program string, args ...string) string {
				jars := filepath.Join(harness.KafkaHome("clients-"+c.version), "lib", "*")
				command := append([]string{"-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, program, b.Addr, topic}, args...)
				out := harness.Command(t, 2*time.Minute, "", nil, harness.Java(), command...)
				if out.Code != 0 {
					t.Fatalf("%s ended with %d:\n%s", program, out.Code, out)
				}
				return strings.TrimSpace(out.Stdout)
			}
			for i, codec := range c.codecs {
				if got, want := run("OldProducer.java", codec), fmt.Sprint("produced to ", 10*i+9); got != want {
					t.Errorf("%s: it prints %q, not %q", codec, got, want)
				}
			}
			if !c.consumes {
				return
			}
			lines := strings.Split(run("OldConsumer.java", group), "\n")
			for i := range 10 {
				if want := fmt.Sprintf("%d key %d value %d", i, i, i); i >= len(lines) || lines[i] != want {
					t.Fatalf("it reads\n%s\nwithout %q", strings.Join(lines, "\n"), want)
				}
			}
			committed, err := admin.FetchOffsets(harness.Context(t, time.Minute), group)
			if o, ok := committed.Lookup(topic, 0); err != nil || !ok || o.At != int64(len(lines)) {
				t.Errorf("committed are %v, %v; want %d", committed, err, len(lines))
			}
		})
	}
}
