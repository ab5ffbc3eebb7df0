//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// startLimit is how long a broker may take for a step. With 10,000 partitions Kafka takes minutes for some.
const startLimit = 15 * time.Minute

// server is a broker, or the bare sendfile server, as a process; or a cluster, which has members instead.
type server struct {
	name   string
	dir    string
	addr   string
	cmd    *exec.Cmd
	done   chan struct{}
	frozen bool
	extra  []string // arguments of the bare server
	pprof  string   // address of its profiles, "" none
	props  []string // configuration of a cluster's member

	members   []*server // brokers 1 to n
	zookeeper *harness.Ensemble
	observers []*observer // of the members' peers, if observed
}

// brokers returns the servers that are processes.
func (s *server) brokers() []*server {
	if s.members != nil {
		return s.members
	}
	return []*server{s}
}

func (s *server) pids() []int {
	var pids []int
	for _, b := range s.brokers() {
		pids = append(pids, b.pid())
	}
	return pids
}

// helpers are the processes that take part in a measurement without being measured.
func (s *server) helpers() []int {
	pids := []int{os.Getpid()}
	if s.zookeeper != nil {
		pids = append(pids, s.zookeeper.Pid())
	}
	return pids
}

func (s *server) seeds() []string {
	var addrs []string
	for _, b := range s.brokers() {
		addrs = append(addrs, b.addr)
	}
	return addrs
}

// replicas is the replication factor of topics.
func (s *server) replicas() int16 { return int16(len(s.brokers())) }

func newServer(name, dir string) (*server, error) {
	port, err := harness.FreePort()
	if err != nil {
		return nil, err
	}
	s := &server{name: name, dir: filepath.Join(dir, name), addr: local(port)}
	return s, os.MkdirAll(s.dir, 0o755)
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (s *server) pid() int { return s.cmd.Process.Pid }

func (s *server) dataDir() string { return filepath.Join(s.dir, "data") }

// command returns what starts the server, after writing its configuration.
func (s *server) command() ([]string, error) {
	if s.props != nil {
		return s.memberCommand()
	}
	switch s.name {
	case gregorName:
		config := filepath.Join(s.dir, "server.properties")
		text := fmt.Sprintf("listeners=PLAINTEXT://%s\nlog.dirs=%s\n", s.addr, s.dataDir())
		return append([]string{harness.Binary(), "serve", "--config", config}, s.profiling()...), os.WriteFile(config, []byte(text), 0o644)
	case kafkaName:
		return s.kafkaCommand()
	default:
		self, err := os.Executable()
		return append([]string{self, bareCommand, s.addr}, s.extra...), err
	}
}

// kafkaCommand formats the storage when there is none, and returns the broker's command with the flags of the distribution's
// scripts.
func (s *server) kafkaCommand() ([]string, error) {
	port, err := harness.FreePort()
	if err != nil {
		return nil, err
	}
	controller := local(port)
	config := filepath.Join(s.dir, "server.properties")
	lines := []string{
		// The distribution's file, save addresses and folders.
		"process.roles=broker,controller", "node.id=1", "listeners=PLAINTEXT://" + s.addr + ",CONTROLLER://" + controller,
		"inter.broker.listener.name=PLAINTEXT", "controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"controller.quorum.bootstrap.servers=" + controller,
		"num.network.threads=3", "num.io.threads=8", "socket.send.buffer.bytes=102400", "socket.receive.buffer.bytes=102400",
		"socket.request.max.bytes=104857600", "log.dirs=" + s.dataDir(), "num.partitions=1",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
		"log.retention.hours=168", "log.retention.check.interval.ms=300000",
		// As gregor has it alone: groups are measured without that delay.
		"group.initial.rebalance.delay.ms=0",
		// So that being frozen while the other is measured does not cost it its session.
		"broker.session.timeout.ms=3600000",
	}
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	home := harness.KafkaHome(harness.V44)
	base := []string{
		harness.Java(), "-cp", filepath.Join(home, "lib", "*"), "-Dcompat.log.level=INFO",
		"-Dlog4j2.configurationFile=file:" + filepath.Join(harness.Root(), "compat", "peers", "log4j-"+harness.V44+".properties"),
	}
	format := append(append([]string{}, base[1:]...), "kafka.tools.StorageTool", "format", "--ignore-formatted", "--standalone",
		"--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg", "--config", config)
	if _, err := os.Stat(filepath.Join(s.dataDir(), "meta.properties")); errors.Is(err, os.ErrNotExist) {
		if out, err := exec.Command(base[0], format...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format Kafka's storage: %w\n%s", err, out)
		}
	}
	return append(append(base, javaFlags...), "kafka.Kafka", config), nil
}

// javaFlags are those of the distribution's scripts.
var javaFlags = []string{
	"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
	"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
}

// start starts the process, or the processes, and returns how long it took to answer the first Metadata request.
func (s *server) start() (time.Duration, error) {
	if s.members != nil {
		return s.startMembers()
	}
	words, err := s.command()
	if err != nil {
		return 0, err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	s.cmd = exec.Command(words[0], words[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	s.done = done
	go func() {
		_ = s.cmd.Wait() // its end is what counts
		close(done)
	}()
	for {
		err := s.ping()
		if err == nil {
			return time.Since(began), nil
		}
		select {
		case <-done:
			return 0, fmt.Errorf("%s ended: %s", s.name, s.logTail())
		case <-time.After(500 * time.Microsecond):
		}
		if time.Since(began) > startLimit {
			return 0, fmt.Errorf("%s does not serve: %w; %s", s.name, err, s.logTail())
		}
	}
}

// ping asks for something that a started server answers.
func (s *server) ping() error {
	c, err := dial(s.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if s.name == bareName {
		return nil
	}
	return c.metadata()
}

func (s *server) logTail() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// stop ends the server with SIGTERM and waits for it.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(startLimit):
		return fmt.Errorf("%s did not stop", s.name)
	}
}

func (s *server) kill() {
	for _, b := range s.members {
		b.kill()
	}
	for _, o := range s.observers {
		o.close()
	}
	if s.zookeeper != nil {
		s.zookeeper.Kill()
	}
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.done
	}
}

// freeze stops the process by a signal, so that it uses no CPU while another is measured.
func (s *server) freeze() error {
	if s.members != nil {
		return s.freezeMembers()
	}
	s.frozen = true
	return s.cmd.Process.Signal(syscall.SIGSTOP)
}

// thaw undoes freeze, or starts a server that does not run yet, and waits until it answers.
func (s *server) thaw() error {
	if s.members != nil {
		return s.thawMembers()
	}
	if s.cmd == nil {
		_, err := s.start()
		return err
	}
	if s.frozen {
		s.frozen = false
		if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		time.Sleep(time.Second) // timers that ran out meanwhile
	}
	return s.ping()
}

// segments returns the paths of a topic's segments, of all replicas.
func (s *server) segments(topic string, partitions int) ([]string, error) {
	var paths []string
	for _, b := range s.brokers() {
		for p := range partitions {
			found, err := filepath.Glob(filepath.Join(b.dataDir(), topic+"-"+strconv.Itoa(p), "*.log"))
			if err != nil {
				return nil, err
			}
			paths = append(paths, found...)
		}
	}
	return paths, nil
}
