package txn

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

const programLimit = 3 * time.Minute

// java returns the arguments with which java runs a source file of this folder with the jars of a version.
func java(version, source string, args ...string) []string {
	jars := filepath.Join(harness.KafkaHome(version), "lib", "*")
	return append([]string{"-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, source}, args...)
}

// TestJavaClients: the transactional producer and the read_committed consumer of Java clients from 0.11 to 4.4.
func TestJavaClients(t *testing.T) {
	harness.Need(t, "java")
	b := harness.SharedWith(t, few)
	for _, version := range []string{"clients-0.11.0.3", "clients-2.8.2", harness.V39, harness.V44} {
		t.Run(version, func(t *testing.T) {
			if b.Kind == harness.Kafka44 && strings.Contains(version, "0.11") {
				t.Skip("Kafka 4 dropped this client")
			}
			prefix := "java-" + version + "-"
			harness.CreateTopic(t, b, prefix+"in", 1)
			harness.CreateTopic(t, b, prefix+"out", 3)
			out := harness.Command(t, programLimit, "", nil, harness.Java(), java(version, "TxnClient.java", b.Addr, prefix)...)
			if out.Code != 0 {
				t.Fatalf("TxnClient ended with %d:\n%s", out.Code, out)
			}
			if want := "commit and abort\nfencing\nconsume, transform, produce"; strings.TrimSpace(out.Stdout) != want {
				t.Errorf("the steps are\n%s\nwant\n%s\n%s", out.Stdout, want, out.Stderr)
			}
		})
	}
}

// TestConfluentKafka: the transactional producer of librdkafka.
func TestConfluentKafka(t *testing.T) {
	harness.Need(t, "python")
	b := harness.SharedWith(t, few)
	harness.CreateTopic(t, b, "confluent-in", 1)
	harness.CreateTopic(t, b, "confluent-out", 3)
	interpreter := filepath.Join(harness.Cache(), "venv", "bin", "python")
	out := harness.Command(t, programLimit, "", nil, interpreter, "confluent.py", b.Addr, "confluent-")
	if want := "commit and abort\nfencing\nconsume, transform, produce"; out.Code != 0 || strings.TrimSpace(out.Stdout) != want {
		t.Fatalf("confluent.py ended with %d, the steps are\n%s\nwant\n%s\n%s", out.Code, out.Stdout, want, out.Stderr)
	}
}

// TestStreams: a Kafka Streams application with exactly_once_v2 counts records, is killed in the middle and started again:
// of every key each count from 1 on appears exactly once.
func TestStreams(t *testing.T) {
	harness.Need(t, "java")
	b := harness.SharedWith(t, few)
	const keys, each = 5, 200
	harness.CreateTopic(t, b, "streams-in", 3)
	harness.CreateTopic(t, b, "streams-out", 3)
	client := harness.Client(t, b)
	ctx := harness.Context(t, programLimit)
	produce := func(from, to int) {
		for n := from; n < to; n++ {
			for k := range keys {
				client.Produce(ctx, &kgo.Record{Topic: "streams-in", Key: fmt.Append(nil, "key ", k), Value: strconv.AppendInt(nil, int64(n), 10)}, nil)
			}
		}
		if err := client.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	counted := func() map[string][]string { return committedValues(t, b, "streams-out") }
	enough := func(n int) func() error {
		return func() error {
			for k := range keys {
				if got := len(counted()[fmt.Sprint("key ", k)]); got < n {
					return fmt.Errorf("%d counts of key %d", got, k)
				}
			}
			return nil
		}
	}
	first := startStreams(ctx, t, b)
	produce(0, each/2)
	harness.Eventually(t, programLimit, enough(1))
	first.kill()
	produce(each/2, each)
	second := startStreams(ctx, t, b)
	harness.Eventually(t, programLimit, enough(each))
	second.stop()
	for key, values := range counted() {
		var want []string
		for n := range each {
			want = append(want, fmt.Sprint(n+1))
		}
		if !slices.Equal(values, want) {
			t.Errorf("%s: the counts are %v", key, values)
		}
	}
}

// streams is a running application.
type streams struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	t     *testing.T
}

func startStreams(ctx context.Context, t *testing.T, b *harness.Broker) *streams {
	t.Helper()
	s := &streams{t: t}
	s.cmd = exec.CommandContext(ctx, harness.Java(), java("streams-"+harness.V44, "Exactly.java", b.Addr, "streams-app", "streams-in", "streams-out", t.TempDir())...)
	var errors strings.Builder
	s.cmd.Stderr = &errors
	var err error
	if s.input, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "running\n" {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		t.Fatalf("the application says %q (%v):\n%s", line, err, errors.String())
	}
	return s
}

func (s *streams) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *streams) stop() {
	s.t.Helper()
	_ = s.input.Close()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the application ended: %v", err)
	}
}

// committedValues reads a topic from its start to its last stable offsets: the values by key, in their order.
func committedValues(t *testing.T, b *harness.Broker, topic string) map[string][]string {
	t.Helper()
	values := map[string][]string{}
	for _, r := range readCommitted(t, b, topic) {
		values[string(r.Key)] = append(values[string(r.Key)], string(r.Value))
	}
	return values
}
