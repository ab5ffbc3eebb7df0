package harness

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	startLimit = 2 * time.Minute // a JVM on a busy machine
	stopLimit  = time.Minute
)

// Options says how a broker is to be started.
type Options struct {
	Kind  Kind              // "" = Peer()
	Dir   string            // holds its data, configuration and log; "" = a temporary folder
	Props map[string]string // lines of server.properties that win over the harness's
	Env   []string          // further environment, NAME=value
	Args  []string          // further arguments of "gregor serve"

	AdvertisedHost string // under which clients are told to reach it; "" = as the broker has it

	HeapMB int // of a JVM; 0 = 512
}

// Broker is a started broker. Its methods are for one goroutine.
type Broker struct {
	Kind     Kind
	Dir      string   // its folder
	DataDirs []string // its log.dirs
	Addr     string   // host:port of the first listener; stays the same over Restart
	Addrs    map[string]string

	t         testing.TB
	options   Options
	process   *process
	zookeeper *ZooKeeper
	wrapper   []string // a command to run the broker's program with
}

// Start starts a broker and returns once it serves. It is stopped at the end of the test.
func Start(t testing.TB, o Options) *Broker {
	t.Helper()
	b, err := newBroker(o, t.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	b.t = t
	t.Cleanup(b.discard)
	if err := b.keepPort(); err != nil {
		t.Fatal(err)
	}
	if o.AdvertisedHost != "" {
		_, port, err := net.SplitHostPort(b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		b.options.Props = maps.Clone(o.Props)
		b.options.Props["advertised.listeners"] = "PLAINTEXT://" + net.JoinHostPort(o.AdvertisedHost, port)
	}
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	return b
}

// TryStart is Start for a broker that may refuse: it returns the error, with the end of the broker's log, and the exit
// code in place of failing the test.
func TryStart(t testing.TB, o Options) (*Broker, int, error) {
	t.Helper()
	b, err := newBroker(o, t.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	b.t = t
	t.Cleanup(b.discard)
	if err := b.start(); err != nil {
		code := 0
		if b.process != nil && b.process.ended() {
			code = b.process.exitCode()
		}
		return nil, code, err
	}
	return b, 0, nil
}

func newBroker(o Options, tempDir func() string) (*Broker, error) {
	if o.Kind == "" {
		o.Kind = Peer()
	}
	if o.Dir == "" {
		o.Dir = tempDir()
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	b := &Broker{Kind: o.Kind, Dir: o.Dir, options: o}
	dirs := o.Props["log.dirs"]
	if dirs == "" {
		dirs = filepath.Join(o.Dir, "data")
	}
	b.DataDirs = strings.Split(dirs, ",")
	return b, nil
}

// keepPort chooses the port now, so that a restart finds it free again.
func (b *Broker) keepPort() error {
	port, err := FreePort()
	b.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return err
}

// start starts the process and waits until it serves.
func (b *Broker) start() error {
	switch b.Kind {
	case Gregor:
		return b.startGregor()
	case Kafka39:
		return b.startKafka39()
	default:
		return b.startKafka44()
	}
}

// startPatiently starts a broker of a cluster. Kafka 3.9 gives up when the node of its killed predecessor is still there, and when its
// session runs out while it starts, as that of a JVM on a busy machine may; it is started again then.
func (b *Broker) startPatiently() error {
	for began := time.Now(); ; {
		err := b.start()
		if err == nil || time.Since(began) > startLimit ||
			!strings.Contains(err.Error(), "NodeExists") && !strings.Contains(err.Error(), "SessionExpired") {
			return err
		}
	}
}

// Pid returns the process id of the broker.
func (b *Broker) Pid() int { return b.process.pid() }

// Log returns what the broker has logged so far.
func (b *Broker) Log() string { return string(b.process.log()) }

// DataDir returns the first log directory.
func (b *Broker) DataDir() string { return b.DataDirs[0] }

// PartitionDir returns the folder of a partition in whichever log directory holds it.
func (b *Broker) PartitionDir(t testing.TB, topic string, partition int) string {
	t.Helper()
	for _, dir := range b.DataDirs {
		path := filepath.Join(dir, fmt.Sprintf("%s-%d", topic, partition))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
	}
	t.Fatalf("no folder of %s-%d below %v", topic, partition, b.DataDirs)
	return ""
}

// Kill ends the broker as kill -9 does.
func (b *Broker) Kill() { b.process.kill() }

// Stop ends the broker with SIGTERM. The test fails when it does not end in time or with an error.
func (b *Broker) Stop() {
	b.t.Helper()
	if !b.process.stop(stopLimit) {
		b.t.Fatalf("the broker did not stop within %v:\n%s", stopLimit, tail(b.process.log(), 4000))
	}
	if code := b.process.exitCode(); code != 0 && b.Kind == Gregor {
		b.t.Fatalf("the broker stopped with exit code %d:\n%s", code, tail(b.process.log(), 4000))
	}
}

// Restart starts the broker again, after Kill or Stop, in the same folder and on the same port. Props that are given win over those
// of before.
func (b *Broker) Restart(props map[string]string) {
	b.t.Helper()
	merged := maps.Clone(b.options.Props)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, props)
	b.options.Props = merged
	if err := b.startPatiently(); err != nil {
		b.t.Fatal(err)
	}
}

// discard ends what is left of the broker without ceremony.
func (b *Broker) discard() {
	if b.process != nil {
		b.process.kill()
		if b.t != nil && b.t.Failed() {
			b.t.Logf("end of the log of %s:\n%s", b.Kind, tail(b.process.log(), 2000))
		}
	}
	if b.zookeeper != nil {
		b.zookeeper.process.kill()
	}
}

// launch starts the broker's program and waits until ready returns nil.
func (b *Broker) launch(ready func() error, name string, args ...string) error {
	words := append(append(slices.Clone(b.wrapper), name), args...)
	p, err := startProcess(filepath.Join(b.Dir, "server.log"), b.options.Env, words[0], words[1:]...)
	if err != nil {
		return err
	}
	b.process = p
	err = poll(startLimit, func() error {
		if p.ended() {
			return nil
		}
		return ready()
	})
	if p.ended() {
		return fmt.Errorf("%s ended with exit code %d:\n%s", b.Kind, p.exitCode(), tail(p.log(), 2000))
	}
	if err != nil {
		return fmt.Errorf("%s is not ready: %w\n%s", b.Kind, err, tail(p.log(), 2000))
	}
	return nil
}

// writeProperties writes server.properties into the broker's folder: base, then the options' lines.
func (b *Broker) writeProperties(base map[string]string) (path string, err error) {
	lines := maps.Clone(base)
	maps.Copy(lines, b.options.Props)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%s=%s\n", key, lines[key])
	}
	path = filepath.Join(b.Dir, "server.properties")
	return path, os.WriteFile(path, []byte(text.String()), 0o644)
}
