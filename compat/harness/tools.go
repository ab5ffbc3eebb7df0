package harness

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// toolLimit is how long one run of a Java tool may take.
const toolLimit = 2 * time.Minute

// mainClasses maps a tool's script name to its main class, where both versions agree.
var mainClasses = map[string]string{
	"kafka-client-metrics":            "org.apache.kafka.tools.ClientMetricsCommand",
	"kafka-cluster":                   "org.apache.kafka.tools.ClusterTool",
	"kafka-console-consumer":          "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"kafka-consumer-groups":           "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"kafka-consumer-perf-test":        "org.apache.kafka.tools.ConsumerPerformance",
	"kafka-delegation-tokens":         "org.apache.kafka.tools.DelegationTokenCommand",
	"kafka-delete-records":            "org.apache.kafka.tools.DeleteRecordsCommand",
	"kafka-e2e-latency":               "org.apache.kafka.tools.EndToEndLatency",
	"kafka-features":                  "org.apache.kafka.tools.FeatureCommand",
	"kafka-get-offsets":               "org.apache.kafka.tools.GetOffsetShell",
	"kafka-leader-election":           "org.apache.kafka.tools.LeaderElectionCommand",
	"kafka-log-dirs":                  "org.apache.kafka.tools.LogDirsCommand",
	"kafka-metadata-quorum":           "org.apache.kafka.tools.MetadataQuorumCommand",
	"kafka-producer-perf-test":        "org.apache.kafka.tools.ProducerPerformance",
	"kafka-reassign-partitions":       "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
	"kafka-replica-verification":      "org.apache.kafka.tools.ReplicaVerificationTool",
	"kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
	"kafka-topics":                    "org.apache.kafka.tools.TopicCommand",
	"kafka-transactions":              "org.apache.kafka.tools.TransactionsCommand",
	"kafka-verifiable-consumer":       "org.apache.kafka.tools.VerifiableConsumer",
	"kafka-verifiable-producer":       "org.apache.kafka.tools.VerifiableProducer",
}

// mainClasses39 and mainClasses44 hold those that moved in between.
var mainClasses39 = map[string]string{
	"kafka-acls":                "kafka.admin.AclCommand",
	"kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
	"kafka-configs":             "kafka.admin.ConfigCommand",
	"kafka-console-producer":    "kafka.tools.ConsoleProducer",
	"kafka-dump-log":            "kafka.tools.DumpLogSegments",
	"zookeeper-shell":           "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
}

var mainClasses44 = map[string]string{
	"kafka-acls":                      "org.apache.kafka.tools.AclCommand",
	"kafka-broker-api-versions":       "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"kafka-configs":                   "org.apache.kafka.tools.ConfigCommand",
	"kafka-console-producer":          "org.apache.kafka.tools.ConsoleProducer",
	"kafka-dump-log":                  "org.apache.kafka.tools.DumpLogSegments",
	"kafka-console-share-consumer":    "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
	"kafka-groups":                    "org.apache.kafka.tools.GroupsCommand",
	"kafka-share-consumer-perf-test":  "org.apache.kafka.tools.ShareConsumerPerformance",
	"kafka-share-groups":              "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
	"kafka-streams-groups":            "org.apache.kafka.tools.streams.StreamsGroupCommand",
	"kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}

// ToolNames returns the names of the tools of a version, but for those of ZooKeeper.
func ToolNames(version string) (names []string) {
	moved := mainClasses39
	if version == V44 {
		moved = mainClasses44
	}
	for _, classes := range []map[string]string{mainClasses, moved} {
		for name := range classes {
			if strings.HasPrefix(name, "kafka-") {
				names = append(names, name)
			}
		}
	}
	return names
}

func mainClass(version, tool string) (string, error) {
	moved := mainClasses39
	if version == V44 {
		moved = mainClasses44
	}
	if class := moved[tool]; class != "" {
		return class, nil
	}
	if class := mainClasses[tool]; class != "" {
		return class, nil
	}
	return "", fmt.Errorf("Kafka %s has no tool %q here", version, tool)
}

// Output is what a program printed and how it ended.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// String returns both streams, as a terminal would show them.
func (o Output) String() string { return o.Stdout + o.Stderr }

// Tools runs the Java tools of one Kafka version in a JVM that stays (compat/peers/ToolRunner.java), since starting one
// for each costs more than most tools do. Safe for concurrent use.
type Tools struct {
	Version string

	cmd *exec.Cmd
	in  io.WriteCloser
	mu  struct {
		sync.Mutex
		next  int32
		calls map[int32]*toolCall
		dead  error
	}
}

type toolCall struct {
	stdout, stderr bytes.Buffer
	done           chan int
}

var runners struct {
	sync.Mutex
	byVersion map[string]*Tools
}

// JavaTools returns the tools of a version (V39 or V44). The JVM ends with the package's tests.
func JavaTools(t testing.TB, version string) *Tools {
	t.Helper()
	runners.Lock()
	defer runners.Unlock()
	if r := runners.byVersion[version]; r != nil && r.alive() {
		return r
	}
	r, err := startTools(version)
	if err != nil {
		t.Fatal(err)
	}
	if runners.byVersion == nil {
		runners.byVersion = map[string]*Tools{}
	}
	runners.byVersion[version] = r
	return r
}

func startTools(version string) (*Tools, error) {
	r := &Tools{Version: version}
	r.mu.calls = map[int32]*toolCall{}
	r.cmd = exec.Command(Java(), append(javaArgs(version, "WARN", 256), "ToolRunner")...)
	r.cmd.SysProcAttr = dieWithParent()
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	r.cmd.Stderr = &stderr
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := r.receive(bufio.NewReaderSize(out, 64<<10))
		_ = r.cmd.Wait()
		r.fail(fmt.Errorf("the JVM of the tools of %s ended: %w\n%s", version, err, stderr.Bytes()))
	}()
	atEnd.add(func() {
		_ = r.in.Close() // the runner ends at the end of its input
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = r.cmd.Process.Kill()
			<-ended
		}
	})
	return r, nil
}

func (r *Tools) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.dead == nil
}

// fail ends all calls that wait.
func (r *Tools) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.dead = err
	for id, call := range r.mu.calls {
		call.stderr.WriteString(err.Error())
		call.done <- -1
		delete(r.mu.calls, id)
	}
}

// receive takes the runner's answers until its output ends.
func (r *Tools) receive(out io.Reader) error {
	for {
		var head [9]byte
		if _, err := io.ReadFull(out, head[:]); err != nil {
			return err
		}
		data := make([]byte, binary.BigEndian.Uint32(head[5:]))
		if _, err := io.ReadFull(out, data); err != nil {
			return err
		}
		r.take(int32(binary.BigEndian.Uint32(head[:])), head[4], data)
	}
}

func (r *Tools) take(id int32, kind byte, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := r.mu.calls[id]
	if call == nil {
		return // a thread that its tool left behind
	}
	switch kind {
	case 1:
		call.stdout.Write(data)
	case 2:
		call.stderr.Write(data)
	default:
		code, err := strconv.Atoi(string(data))
		if err != nil {
			code = -1
		}
		delete(r.mu.calls, id)
		call.done <- code
	}
}

// begin hands a call to the runner.
func (r *Tools) begin(class string, args []string, stdin string) (*toolCall, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.dead != nil {
		return nil, r.mu.dead
	}
	r.mu.next++
	id := r.mu.next
	call := &toolCall{done: make(chan int, 1)}
	r.mu.calls[id] = call
	message := binary.BigEndian.AppendUint32(nil, uint32(id))
	message = binary.BigEndian.AppendUint32(message, uint32(1+len(args)))
	for _, word := range append([]string{class}, args...) {
		message = appendBytes(message, word)
	}
	_, err := r.in.Write(appendBytes(message, stdin))
	return call, err
}

func appendBytes(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// Try runs a tool, by the name of its script, and returns what it printed and its exit code.
func (r *Tools) Try(t testing.TB, tool, stdin string, args ...string) Output {
	t.Helper()
	class, err := mainClass(r.Version, tool)
	if err != nil {
		t.Fatal(err)
	}
	call, err := r.begin(class, args, stdin)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-call.done:
		return Output{Stdout: call.stdout.String(), Stderr: call.stderr.String(), Code: code}
	case <-time.After(toolLimit):
		r.fail(fmt.Errorf("%s ran longer than %v", tool, toolLimit))
		_ = r.cmd.Process.Kill()
		t.Fatalf("%s %v of Kafka %s did not end within %v; it printed:\n%s%s", tool, args, r.Version, toolLimit,
			call.stdout.String(), call.stderr.String())
		return Output{}
	}
}

// Run is Try for a tool that must succeed.
func (r *Tools) Run(t testing.TB, tool string, args ...string) Output {
	t.Helper()
	return r.Feed(t, "", tool, args...)
}

// Feed is Run with a standard input.
func (r *Tools) Feed(t testing.TB, stdin, tool string, args ...string) Output {
	t.Helper()
	out := r.Try(t, tool, stdin, args...)
	if out.Code != 0 {
		t.Fatalf("%s %v of Kafka %s ended with %d:\n%s", tool, args, r.Version, out.Code, out)
	}
	return out
}

// RunAlone is Run in a JVM of its own, for tools that leave work to the JVM's shutdown hooks.
func (r *Tools) RunAlone(t testing.TB, tool string, args ...string) Output {
	t.Helper()
	class, err := mainClass(r.Version, tool)
	if err != nil {
		t.Fatal(err)
	}
	command := append(javaArgs(r.Version, "WARN", 256), class)
	out := Command(t, toolLimit, "", nil, Java(), append(command, args...)...)
	if out.Code != 0 {
		t.Fatalf("%s %v of Kafka %s ended with %d:\n%s", tool, args, r.Version, out.Code, out)
	}
	return out
}

// RunUntil runs a tool that does not end by itself, in a JVM of its own, until what it prints matches, and returns that.
func (r *Tools) RunUntil(t testing.TB, pattern, tool string, args ...string) Output {
	t.Helper()
	class, err := mainClass(r.Version, tool)
	if err != nil {
		t.Fatal(err)
	}
	command := append(javaArgs(r.Version, "WARN", 256), class)
	p, err := startProcess(filepath.Join(t.TempDir(), tool+".log"), nil, Java(), append(command, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	until := regexp.MustCompile(`(?m)` + pattern)
	if err := poll(toolLimit, func() error {
		if ended := p.ended(); !until.Match(p.log()) && !ended {
			return fmt.Errorf("%s %v prints nothing that matches %q:\n%s", tool, args, pattern, tail(p.log(), 4000))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return Output{Stdout: string(p.log())}
}
