//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// clusterSize is how many brokers a cluster has.
const clusterSize = 3

// Sessions with ZooKeeper. Where brokers are frozen while others are measured, they must not lose theirs by it; where one is killed,
// it must not take long until that is seen.
const (
	longSession    = time.Hour
	shortSession   = 6 * time.Second
	patientSession = 18 * time.Second // 3.9's default, where a JVM has so much to do that it could lose a shorter one
)

// newCluster makes a ZooKeeper and three brokers.
func newCluster(name, dir string) (*server, error) {
	return makeCluster(name, dir, shortSession, false)
}

// newWarmCluster makes one that may be frozen.
func newWarmCluster(name, dir string) (*server, error) {
	return makeCluster(name, dir, longSession, false)
}

// newObservedCluster makes one in which what brokers say to each other passes through observers.
func newObservedCluster(name, dir string) (*server, error) {
	return makeCluster(name, dir, patientSession, true)
}

// makeCluster starts a ZooKeeper, and makes the brokers without starting them.
func makeCluster(name, dir string, session time.Duration, observed bool) (*server, error) {
	s := &server{name: name, dir: filepath.Join(dir, name)}
	zookeeperDir := filepath.Join(s.dir, "zookeeper")
	if err := os.MkdirAll(zookeeperDir, 0o755); err != nil {
		return nil, err
	}
	var err error
	s.zookeeper, err = harness.NewEnsemble(zookeeperDir, map[string]string{
		"maxSessionTimeout": strconv.FormatInt(session.Milliseconds(), 10),
	})
	if err != nil {
		return nil, err
	}
	for id := 1; id <= clusterSize && err == nil; id++ {
		err = s.addMember(id, session, observed)
	}
	return s, err
}

// addMember makes a broker. Both kinds get the same settings; all else is their default.
func (s *server) addMember(id int, session time.Duration, observed bool) error {
	m, err := newServer(s.name, filepath.Join(s.dir, strconv.Itoa(id)))
	if err != nil {
		return err
	}
	m.props = []string{
		"broker.id=" + strconv.Itoa(id), "log.dirs=" + m.dataDir(), "zookeeper.connect=" + s.zookeeper.Addr,
		"zookeeper.session.timeout.ms=" + strconv.FormatInt(session.Milliseconds(), 10), "zookeeper.connection.timeout.ms=30000",
		"default.replication.factor=3", "min.insync.replicas=2", "offsets.topic.replication.factor=3",
		"transaction.state.log.replication.factor=3", "transaction.state.log.min.isr=2",
		"auto.leader.rebalance.enable=false", // the rows move leaders themselves
	}
	s.members = append(s.members, m)
	if !observed {
		m.props = append(m.props, "listeners=PLAINTEXT://"+m.addr)
		return nil
	}
	port, err := harness.FreePort()
	if err != nil {
		return err
	}
	o, err := newObserver(local(port))
	if err != nil {
		return err
	}
	s.observers = append(s.observers, o)
	m.props = append(m.props,
		"listeners=PLAINTEXT://"+m.addr+",PEER://"+local(port), "advertised.listeners=PLAINTEXT://"+m.addr+",PEER://"+o.addr,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PEER:PLAINTEXT", "inter.broker.listener.name=PEER")
	return nil
}

// memberCommand returns what starts a broker of a cluster.
func (s *server) memberCommand() ([]string, error) {
	config := filepath.Join(s.dir, "server.properties")
	if err := os.WriteFile(config, []byte(strings.Join(s.props, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	if s.name == gregorName {
		return []string{harness.Binary(), "serve", "--config", config}, nil
	}
	words := append([]string{
		harness.Java(), "-cp", filepath.Join(harness.KafkaHome(harness.V39), "lib", "*"), "-Dcompat.log.level=INFO",
		"-Dlog4j.configuration=file:" + filepath.Join(harness.Root(), "compat", "peers", "log4j-"+harness.V39+".properties"),
	}, javaFlags...)
	return append(words, "kafka.Kafka", config), nil
}

// startMembers starts all brokers at once and waits until each knows all of them.
func (s *server) startMembers() (time.Duration, error) {
	began := time.Now()
	errs := make([]error, len(s.members))
	var all sync.WaitGroup
	for i, m := range s.members {
		all.Go(func() { _, errs[i] = m.start() })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	err := s.awaitMembers()
	return time.Since(began), err
}

// awaitMembers waits until each broker knows all.
func (s *server) awaitMembers() error {
	return until(startLimit, func() error {
		for _, m := range s.members {
			c, err := dial(m.addr)
			if err != nil {
				return err
			}
			response, err := c.brokers()
			_ = c.Close() // it is answered, or broken
			if err == nil && len(response.Brokers) != len(s.members) {
				err = fmt.Errorf("a broker knows %d of %d", len(response.Brokers), len(s.members))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// freezeMembers freezes the brokers, then their ZooKeeper.
func (s *server) freezeMembers() error {
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.freeze())
	}
	s.zookeeper.Pause()
	s.frozen = true
	return errors.Join(errs...)
}

// thawMembers undoes freezeMembers and leaves time for what has run out meanwhile, such as the followers' connections.
func (s *server) thawMembers() error {
	if s.members[0].cmd == nil {
		_, err := s.start()
		return err
	}
	if !s.frozen {
		return nil
	}
	s.frozen = false
	s.zookeeper.Resume()
	for _, m := range s.members {
		m.frozen = false
		if err := m.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second)
	return s.awaitMembers()
}

// others are the members save one.
func (s *server) others(id int32) *server {
	rest := &server{name: s.name, zookeeper: s.zookeeper}
	for i, m := range s.members {
		if int32(i+1) != id {
			rest.members = append(rest.members, m)
		}
	}
	return rest
}

func (s *server) member(id int32) *server { return s.members[id-1] }
