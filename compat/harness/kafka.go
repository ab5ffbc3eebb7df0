package harness

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Versions of Apache Kafka whose brokers and tools the tests run.
const (
	V39 = "3.9.2"
	V44 = "4.4.0"
)

// Java returns the java command of JAVA_HOME or PATH.
func Java() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", "java")
	}
	return "java"
}

// KafkaHome returns the folder with the jars of a version.
func KafkaHome(version string) string { return filepath.Join(Cache(), "kafka-"+version) }

// javaArgs returns the arguments of java up to the main class, for a process of that version that logs at level.
func javaArgs(version, level string, heapMB int) []string {
	home := KafkaHome(version)
	property := "-Dlog4j.configuration=file:"
	if version == V44 {
		property = "-Dlog4j2.configurationFile=file:"
	}
	return []string{
		fmt.Sprintf("-Xmx%dM", heapMB), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
		property + filepath.Join(Root(), "compat", "peers", "log4j-"+version+".properties"), "-Dcompat.log.level=" + level,
		"-cp", filepath.Join(home, "runner") + string(os.PathListSeparator) + filepath.Join(home, "lib", "*"),
	}
}

// ZooKeeper is a real single-node ZooKeeper 3.8.
type ZooKeeper struct {
	Addr    string
	process *process
}

func startZooKeeper(dir string) (*ZooKeeper, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "zookeeper.properties")
	text := fmt.Sprintf("dataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%d\nadmin.enableServer=false\nmaxClientCnxns=0\n",
		filepath.Join(dir, "data"), port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	args := append(javaArgs(V39, "WARN", 128), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	p, err := startProcess(filepath.Join(dir, "zookeeper.log"), nil, Java(), args...)
	if err != nil {
		return nil, err
	}
	z := &ZooKeeper{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), process: p}
	err = poll(startLimit, func() error {
		if p.ended() {
			return nil
		}
		return z.serves()
	})
	if err != nil || p.ended() {
		p.kill()
		return nil, fmt.Errorf("ZooKeeper does not serve: %v\n%s", err, tail(p.log(), 4000))
	}
	return z, nil
}

// serves returns nil once the ensemble answers its command srvr: it accepts connections before it serves.
func (z *ZooKeeper) serves() error {
	conn, err := net.DialTimeout("tcp", z.Addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && !bytes.Contains(answer, []byte("Mode: ")) {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}

// StartZooKeeper starts a ZooKeeper that ends with the test.
func StartZooKeeper(t testing.TB) *ZooKeeper {
	t.Helper()
	z, err := startZooKeeper(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.process.kill)
	return z
}

// single holds the settings that make one real broker work alone, and quickly.
var single = map[string]string{
	"offsets.topic.replication.factor":         "1",
	"offsets.topic.num.partitions":             "5",
	"transaction.state.log.replication.factor": "1",
	"transaction.state.log.min.isr":            "1",
	"transaction.state.log.num.partitions":     "5",
	"group.initial.rebalance.delay.ms":         "0",
}

func (b *Broker) common() (map[string]string, error) {
	if b.Addr == "" {
		if err := b.keepPort(); err != nil {
			return nil, err
		}
	}
	b.Addrs = map[string]string{"PLAINTEXT": b.Addr}
	props := map[string]string{"log.dirs": strings.Join(b.DataDirs, ",")}
	for key, value := range single {
		props[key] = value
	}
	return props, nil
}

// started matches the line that a broker logs once it serves.
var started = regexp.MustCompile(`(KafkaServer id=.* started|Kafka Server started) \(kafka\.server\.`)

// launchKafka starts a JVM broker and waits for its line.
func (b *Broker) launchKafka(version, config string) error {
	before := 0 // a restart appends to the log
	if text, err := os.ReadFile(filepath.Join(b.Dir, "server.log")); err == nil {
		before = len(text)
	}
	ready := func() error {
		if text := b.process.log(); len(text) > before && started.Match(text[before:]) {
			return nil
		}
		return fmt.Errorf("no line that says started")
	}
	heap := b.options.HeapMB
	if heap == 0 {
		heap = 512
	}
	return b.launch(ready, Java(), append(javaArgs(version, "INFO", heap), "kafka.Kafka", config)...)
}

func (b *Broker) startKafka39() error {
	props, err := b.common()
	if err != nil {
		return err
	}
	if b.options.Props["zookeeper.connect"] == "" && b.zookeeper == nil {
		if b.zookeeper, err = startZooKeeper(filepath.Join(b.Dir, "zookeeper")); err != nil {
			return err
		}
	}
	props["broker.id"] = "0"
	props["zookeeper.session.timeout.ms"] = "4000"
	props["listeners"] = "PLAINTEXT://" + b.Addr
	if b.zookeeper != nil {
		props["zookeeper.connect"] = b.zookeeper.Addr
	}
	config, err := b.writeProperties(props)
	if err != nil {
		return err
	}
	return b.launchKafka(V39, config)
}

// ZooKeeperAddr returns the address of the ZooKeeper that a Kafka39 broker uses.
func (b *Broker) ZooKeeperAddr() string { return b.zookeeper.Addr }

func (b *Broker) startKafka44() error {
	props, err := b.common()
	if err != nil {
		return err
	}
	controller, err := FreePort()
	if err != nil {
		return err
	}
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(controller))
	for key, value := range map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"listeners":                                        "PLAINTEXT://" + b.Addr + ",CONTROLLER://" + at,
		"inter.broker.listener.name":                       "PLAINTEXT",
		"controller.listener.names":                        "CONTROLLER",
		"listener.security.protocol.map":                   "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"controller.quorum.bootstrap.servers":              at,
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
	} {
		props[key] = value
	}
	config, err := b.writeProperties(props)
	if err != nil {
		return err
	}
	format := append(javaArgs(V44, "WARN", 128), "kafka.tools.StorageTool", "format", "--ignore-formatted", "--standalone",
		"--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg", "--config", config)
	if out, err := exec.Command(Java(), format...).CombinedOutput(); err != nil {
		return fmt.Errorf("format the storage of %s: %w\n%s", b.Dir, err, out)
	}
	return b.launchKafka(V44, config)
}

// Log returns what the ensemble has logged so far.
func (z *ZooKeeper) Log() string { return string(z.process.log()) }
