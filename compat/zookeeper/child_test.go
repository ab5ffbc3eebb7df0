package zookeeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/zk"
	"github.com/gregor-broker/gregor/wire/clock"
)

// childConnect names the variable that makes this test binary a client that writes without end.
const childConnect = "GREGOR_ZOOKEEPER_CHILD"

// shortSession is the timeout of sessions that are to expire.
const shortSession = time.Second

// child runs the client of TestStoppedProcess, and returns false in any other process.
func child() bool {
	connect := os.Getenv(childConnect)
	if connect == "" {
		return false
	}
	s, err := zk.Open(context.Background(), zk.Options{Connect: connect, SessionTimeout: shortSession,
		ConnectionTimeout: limit, Clock: clock.System})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var n atomic.Int64
	s.WatchSession(func(e store.SessionEvent) { fmt.Println("session", e.ID, e.Lost) })
	if _, err := s.Commit(context.Background(), store.Create("/owner", nil, store.Ephemeral)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for range 8 {
		go writeOn(s, &n)
	}
	io.Copy(io.Discard, os.Stdin)
	return true
}

// writeOn writes nodes whose data is the session in which it was decided to write them, two at once. Where the session ends
// between the decision and the call, which then belongs to the next session, it says so.
func writeOn(s store.Store, n *atomic.Int64) {
	for {
		session := s.Session()
		if session == 0 {
			runtime.Gosched()
			continue
		}
		a, b := n.Add(1), n.Add(1)
		began := sync.OnceFunc(func() {
			if s.Session() != session {
				fmt.Println("late", a, b)
			}
		})
		s.CommitEach(asked{context.Background(), began}, []store.Txn{{logNode(a, session)}, {logNode(b, session)}})
	}
}

// asked is a context that tells when somebody looks at it: a call does so once it has its session.
type asked struct {
	context.Context
	when func()
}

func (a asked) Done() <-chan struct{} {
	a.when()
	return a.Context.Done()
}

func logNode(n, session int64) store.Op {
	return store.Create(fmt.Sprintf("/log/%d", n), strconv.AppendInt(nil, session, 10), store.Persistent)
}

// TestStoppedProcess stops a client for longer than its session, in the midst of many commits.
func TestStoppedProcess(t *testing.T) {
	noLeaks(t)
	root := newRoot()
	server := ensemble(t)
	observer := open(t, server.Addr, root)
	commit(t, observer, store.Create("/log", nil, store.Persistent))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childConnect+"="+server.Addr+root)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		cmd.Process.Kill()
		in.Close()
		cmd.Wait()
	})
	t.Cleanup(stop)
	waitFor(t, func() bool { return len(children(t, observer, "/log")) > 100 })
	old := read(t, observer, "/owner").Stat.EphemeralOwner
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return !read(t, observer, "/owner").Exists })
	after := commit(t, observer, store.Create("/mark", nil, store.Persistent), store.Set("/mark", nil, 0))[1].Stat.Czxid
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	events, late := make(chan string, 10), &sync.Map{}
	listening := make(chan struct{})
	go listen(out, events, late, listening)
	if lost, begun := <-events, <-events; lost != fmt.Sprintf("session %d true", old) || !strings.HasSuffix(begun, " false") {
		t.Errorf("the client says %q, %q after its session %d", lost, begun, old)
	}
	waitFor(t, func() bool { _, since := written(t, observer, old, math.MaxInt64, late); return since > 100 })
	cmd.Process.Kill()
	<-listening
	stop()
	if before, _ := written(t, observer, old, after, late); before < 100 {
		t.Errorf("the old session wrote %d nodes only", before)
	}
}

// listen reads what the client says, until its end: its sessions, and the names of nodes whose calls came late.
func listen(out io.Reader, events chan<- string, late *sync.Map, done chan<- struct{}) {
	defer close(done)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if fields[0] != "late" {
			events <- lines.Text()
			continue
		}
		for _, name := range fields[1:] {
			late.Store("/log/"+name, true)
		}
	}
}

// written counts the nodes of /log that the session old wrote, and those of its successor. None of old's that did not come late
// may be younger than the transaction after, at which it had expired.
func written(t *testing.T, s store.Store, old, after int64, late *sync.Map) (before, since int) {
	t.Helper()
	var reqs []store.Req
	for _, name := range children(t, s, "/log") {
		reqs = append(reqs, store.Req{Path: "/log/" + name})
	}
	nodes, err := s.Read(context.Background(), reqs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		_, wasLate := late.Load(n.Path)
		switch decided, _ := strconv.ParseInt(string(n.Data), 10, 64); {
		case wasLate:
		case decided != old:
			since++
		case n.Stat.Czxid > after:
			t.Errorf("%s was decided in the session %d, which had ended, and written after it", n.Path, old)
		default:
			before++
		}
	}
	return before, since
}

// TestQueuedWritesEndWithTheSession keeps a client away from the servers for longer than its session while many calls wait.
func TestQueuedWritesEndWithTheSession(t *testing.T) {
	noLeaks(t)
	root := newRoot()
	server := ensemble(t)
	observer := open(t, server.Addr, root)
	p := newProxy(t, server.Addr)
	s := open(t, p.addr, root, func(o *zk.Options) { o.SessionTimeout = shortSession })
	commit(t, s, store.Create("/log", nil, store.Persistent), store.Create("/owner", nil, store.Ephemeral))
	events := make(chan store.SessionEvent, 10)
	s.WatchSession(func(e store.SessionEvent) { events <- e })
	old := s.Session()
	var n atomic.Int64
	var wg sync.WaitGroup
	var unknown atomic.Int64
	late := &sync.Map{}
	for range 30 {
		wg.Go(func() {
			for {
				id := n.Add(1)
				began := sync.OnceFunc(func() {
					if s.Session() != old {
						late.Store(fmt.Sprintf("/log/%d", id), true)
					}
				})
				_, err := s.Commit(asked{context.Background(), began}, logNode(id, old))
				switch {
				case errors.Is(err, store.ErrSessionExpired):
					return
				case errors.Is(err, store.ErrUnknown):
					unknown.Add(1)
				case err != nil:
					t.Errorf("commit: %v", err)
					return
				}
				if s.Session() != old {
					return
				}
			}
		})
	}
	waitFor(t, func() bool { return len(children(t, observer, "/log")) > 100 })
	p.away(true)
	waitFor(t, func() bool { return !read(t, observer, "/owner").Exists })
	after := commit(t, observer, store.Create("/mark", nil, store.Persistent), store.Set("/mark", nil, 0))[1].Stat.Czxid
	p.away(false)
	wg.Wait()
	if u := unknown.Load(); u > 10 {
		t.Errorf("%d commits unknown, more than were in flight", u)
	}
	if lost, begun := <-events, <-events; lost != (store.SessionEvent{ID: old, Lost: true}) || begun.Lost || begun.ID == old {
		t.Errorf("events %v, %v after the session %d", lost, begun, old)
	}
	commit(t, s, store.Create("/owner", nil, store.Ephemeral))
	written(t, observer, old, after, late)
}

func commit(t testing.TB, s store.Store, ops ...store.Op) []store.Result {
	t.Helper()
	r, err := s.Commit(context.Background(), ops...)
	if err != nil {
		t.Fatalf("commit %v: %v", ops, err)
	}
	return r
}

func read(t testing.TB, s store.Store, path string) store.Node {
	t.Helper()
	n, err := s.Read(context.Background(), store.Req{Path: path})
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return n[0]
}

func children(t testing.TB, s store.Store, path string) []string {
	t.Helper()
	n, err := s.Read(context.Background(), store.Req{Path: path, Kind: store.Children})
	if err != nil {
		t.Fatalf("children of %s: %v", path, err)
	}
	return n[0].Children
}

func waitFor(t testing.TB, what func() bool) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		if what() {
			return nil
		}
		return errors.New("it has not happened")
	})
}
