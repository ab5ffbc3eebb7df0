package clients

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// kcat runs kcat, which must succeed.
func kcat(t testing.TB, b *harness.Broker, stdin string, args ...string) string {
	t.Helper()
	harness.Need(t, "kcat")
	out := harness.Command(t, time.Minute, stdin, nil, "kcat", append([]string{"-b", b.Addr}, args...)...)
	if out.Code != 0 {
		t.Fatalf("kcat %v ended with %d:\n%s", args, out.Code, out)
	}
	return out.Stdout
}

func TestKcat(t *testing.T) {
	b := harness.Shared(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := name("kcat") + codec
			harness.CreateTopic(t, b, topic, 1)
			var lines strings.Builder
			for i := range 200 {
				fmt.Fprintf(&lines, "k%d:value %d\n", i, i)
			}
			kcat(t, b, lines.String(), "-P", "-t", topic, "-K", ":", "-z", codec, "-X", "acks=all")
			if got := kcat(t, b, "", "-C", "-t", topic, "-e", "-q", "-f", "%k:%s\n"); got != lines.String() {
				t.Errorf("read back:\n%.500s", got)
			}
			if got := kcat(t, b, "", "-C", "-t", topic, "-o", "-3", "-c", "3", "-q", "-f", "%o %p\n"); got != "197 0\n198 0\n199 0\n" {
				t.Errorf("the last three: %q", got)
			}
		})
	}
	t.Run("metadata", func(t *testing.T) {
		topic := name("kcat")
		harness.CreateTopic(t, b, topic, 3)
		got := kcat(t, b, "", "-L", "-t", topic)
		for _, want := range []string{" 1 brokers:", " at " + b.Addr, `topic "` + topic + `" with 3 partitions:`, "isrs: "} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
		if got := kcat(t, b, "", "-Q", "-t", topic+":2:-1"); !strings.Contains(got, topic+" [2] offset 0") {
			t.Errorf("query: %q", got)
		}
	})
	t.Run("group", func(t *testing.T) {
		topic := name("kcat")
		harness.CreateTopic(t, b, topic, 1)
		kcat(t, b, "a\nb\nc\n", "-P", "-t", topic)
		// -e leaves once all is read; the commit on the way out makes the second run begin behind it.
		group := []string{"-q", "-e", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-G", topic + "group", topic}
		if got := kcat(t, b, "", group...); got != "a\nb\nc\n" {
			t.Errorf("the group read %q", got)
		}
		kcat(t, b, "d\n", "-P", "-t", topic)
		if got := kcat(t, b, "", group...); got != "d\n" {
			t.Errorf("the group then read %q", got)
		}
	})
	// As old as librdkafka can be: message formats 0 and 1, no ApiVersions.
	for _, version := range []string{"0.8.2.2", "0.9.0.1", "0.10.0.0"} {
		t.Run("broker.version.fallback "+version, func(t *testing.T) {
			if b.Kind == harness.Kafka44 {
				t.Skip("Kafka 4 dropped these versions")
			}
			topic := name("kcat") + version
			harness.CreateTopic(t, b, topic, 1)
			old := []string{"-X", "api.version.request=false", "-X", "broker.version.fallback=" + version, "-t", topic}
			for _, codec := range []string{"none", "gzip", "snappy"} {
				kcat(t, b, "a\nb\nc\n", append(old, "-P", "-z", codec)...)
			}
			if got := kcat(t, b, "", append(old, "-C", "-e", "-q")...); got != strings.Repeat("a\nb\nc\n", 3) {
				t.Errorf("read back with the old protocol: %q", got)
			}
			if got := kcat(t, b, "", "-C", "-t", topic, "-e", "-q"); got != strings.Repeat("a\nb\nc\n", 3) {
				t.Errorf("read back with the new protocol: %q", got)
			}
		})
	}
}
