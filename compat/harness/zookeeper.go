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
	"sync"
	"testing"
)

// Ensemble is a real ZooKeeper of one server that a test may kill, pause and start again on its port and data.
type Ensemble struct {
	*ZooKeeper
	dir, config string
}

// NewEnsemble starts a ZooKeeper in dir with the given settings of its own. Its ticks are short, so that sessions of half a
// second are possible, and it does not wait for its disk: a process that is killed loses nothing by that.
func NewEnsemble(dir string, settings map[string]string) (*Ensemble, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	all := map[string]string{
		"dataDir": filepath.Join(dir, "data"), "clientPortAddress": "127.0.0.1", "clientPort": strconv.Itoa(port),
		"admin.enableServer": "false", "maxClientCnxns": "0", "forceSync": "no", "tickTime": "250",
		"minSessionTimeout": "500", "maxSessionTimeout": "60000",
	}
	maps.Copy(all, settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", name, all[name])
	}
	e := &Ensemble{dir: dir, config: filepath.Join(dir, "zookeeper.properties")}
	e.ZooKeeper = &ZooKeeper{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if err := os.WriteFile(e.config, []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	return e, e.start()
}

// StartEnsemble starts a ZooKeeper that ends with the test.
func StartEnsemble(t testing.TB, settings map[string]string) *Ensemble {
	t.Helper()
	e, err := NewEnsemble(t.TempDir(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Kill)
	return e
}

func (e *Ensemble) start() error {
	args := append(javaArgs(V39, "WARN", 256), "org.apache.zookeeper.server.quorum.QuorumPeerMain", e.config)
	p, err := startProcess(filepath.Join(e.dir, "zookeeper.log"), nil, Java(), args...)
	if err != nil {
		return err
	}
	e.process = p
	err = poll(startLimit, func() error {
		if p.ended() {
			return nil
		}
		return e.serves()
	})
	if err != nil || p.ended() {
		p.kill()
		return fmt.Errorf("ZooKeeper does not serve: %v\n%s", err, tail(p.log(), 4000))
	}
	return nil
}

// Pid returns the process id of the server.
func (e *Ensemble) Pid() int { return e.process.pid() }

// Kill ends the server as kill -9 does.
func (e *Ensemble) Kill() { e.process.kill() }

// Start starts a killed server again and waits until it serves.
func (e *Ensemble) Start(t testing.TB) {
	t.Helper()
	if err := e.start(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the server's process, as if its machine stood still, until Resume.
func (e *Ensemble) Pause() { e.process.pause() }

// Resume ends a Pause.
func (e *Ensemble) Resume() { e.process.resume() }

// sharedEnsemble is the ZooKeeper that the tests of one package use together.
var sharedEnsemble struct {
	sync.Mutex
	ensemble *Ensemble
	err      error
}

// SharedEnsemble returns a ZooKeeper that all tests of a package use, each below a chroot of its own. It is stopped after the
// last one; a test that kills or pauses it brings it back.
func SharedEnsemble(t testing.TB) *Ensemble {
	t.Helper()
	s := &sharedEnsemble
	s.Lock()
	defer s.Unlock()
	if s.ensemble == nil && s.err == nil {
		var dir string
		if dir, s.err = os.MkdirTemp("", "gregor-compat-"); s.err == nil {
			atEnd.add(func() { _ = os.RemoveAll(dir) })
			s.ensemble, s.err = NewEnsemble(dir, nil)
		}
		if s.err == nil {
			atEnd.add(func() { s.ensemble.Kill() })
		}
	}
	if s.err != nil {
		t.Fatalf("the shared ZooKeeper did not start: %v", s.err)
	}
	return s.ensemble
}
