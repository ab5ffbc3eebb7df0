// Package clients runs clients that are not ours against the broker: kcat and confluent-kafka (librdkafka), kafka-python,
// franz-go, each also as old as they can pretend to be.
package clients

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const programLimit = 3 * time.Minute

var names atomic.Int64

// name returns a name for a topic or group that no other test uses.
func name(prefix string) string { return fmt.Sprintf("%s-%d-", prefix, names.Add(1)) }

// interpreter is Python with the installed clients.
func interpreter() string { return filepath.Join(harness.Cache(), "venv", "bin", "python") }

// python runs a script of this folder with the installed clients.
func python(t testing.TB, script string, args ...string) harness.Output {
	t.Helper()
	return pythonWith(t, nil, script, args...)
}

func pythonWith(t testing.TB, env []string, script string, args ...string) harness.Output {
	t.Helper()
	harness.Need(t, "python")
	out := harness.Command(t, programLimit, "", env, interpreter(), append([]string{script}, args...)...)
	if out.Code != 0 {
		t.Fatalf("%s ended with %d:\n%s", script, out.Code, out)
	}
	return out
}

// wantSteps fails the test unless the output has just these lines.
func wantSteps(t testing.TB, out harness.Output, steps ...string) {
	t.Helper()
	if got := strings.TrimSpace(out.Stdout); got != strings.Join(steps, "\n") {
		t.Errorf("the steps are\n%s\nwant\n%s\n%s", got, strings.Join(steps, "\n"), out.Stderr)
	}
}

func TestConfluentKafka(t *testing.T) {
	b := harness.Shared(t)
	out := python(t, "confluent.py", b.Addr, name("confluent"))
	wantSteps(t, out, "cluster described", "codec none", "codec gzip", "codec snappy", "codec lz4", "codec zstd", "idempotent", "acks", "group",
		"time", "admin", "errors")
}

func TestKafkaPython(t *testing.T) {
	b := harness.Shared(t)
	prefix := name("kafka-python")
	harness.CreateTopic(t, b, prefix+"new", 1)
	wantSteps(t, python(t, "kafkapython.py", b.Addr, prefix), "version new")
}

// TestKafkaPythonOfOld: the wire formats of brokers from 0.8.2 to 2.0.
func TestKafkaPythonOfOld(t *testing.T) {
	b := harness.Shared(t)
	if b.Kind == harness.Kafka44 {
		t.Skip("Kafka 4 dropped these versions")
	}
	versionsOfOld(t, b, nil)
}

// TestOldestKafkaPython: the oldest version of kafka-python that Python 3.11 loads.
func TestOldestKafkaPython(t *testing.T) {
	harness.Need(t, "python")
	b := harness.Shared(t)
	if b.Kind == harness.Kafka44 {
		t.Skip("Kafka 4 dropped these versions")
	}
	oldest := []string{"PYTHONPATH=" + filepath.Join(harness.Cache(), "kafka-python-oldest")}
	if out := harness.Command(t, programLimit, "", oldest, interpreter(), "-c", "import kafka"); out.Code != 0 {
		t.Skipf("this Python does not load it:\n%s", out)
	}
	versionsOfOld(t, b, oldest)
	prefix := name("kafka-python")
	harness.CreateTopic(t, b, prefix+"new", 1)
	wantSteps(t, pythonWith(t, oldest, "kafkapython.py", b.Addr, prefix), "version new")
}

func versionsOfOld(t *testing.T, b *harness.Broker, env []string) {
	t.Helper()
	prefix := name("kafka-python")
	versions := []string{"0.8.2", "0.9", "0.10.0", "0.10.2", "0.11", "2.0"}
	var want []string
	for _, version := range versions {
		harness.CreateTopic(t, b, prefix+version, 1)
		want = append(want, "version "+version)
	}
	wantSteps(t, pythonWith(t, env, "kafkapython.py", append([]string{b.Addr, prefix}, versions...)...), want...)
}
