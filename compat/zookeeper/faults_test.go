package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/zk"
)

// signal is a watcher that remembers being called.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) call() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func TestLostReplyToACommit(t *testing.T) {
	noLeaks(t)
	p := newProxy(t, ensemble(t).Addr)
	s := open(t, p.addr, newRoot())
	old := s.Session()
	var lost atomic.Bool
	p.lose(func(opcode int32) bool { return opcode == opMulti && lost.CompareAndSwap(false, true) })
	if _, err := s.Commit(context.Background(), store.Create("/a", nil, store.Ephemeral)); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("error %v, want ErrUnknown", err)
	}
	if n := read(t, s, "/a"); n.Stat.EphemeralOwner != old || s.Session() != old {
		t.Errorf("node %+v, sessions %d and %d", n, old, s.Session())
	}
	txns := make([]store.Txn, 600)
	for i := range txns {
		txns[i] = store.Txn{store.Create(fmt.Sprintf("/n%d", i), nil, store.Persistent)}
	}
	lost.Store(false)
	unknown := 0
	for i, out := range s.CommitEach(context.Background(), txns) {
		switch {
		case errors.Is(out.Err, store.ErrUnknown):
			unknown++
		case out.Err != nil:
			t.Fatalf("commit %d: %v", i, out.Err)
		}
		if !read(t, s, fmt.Sprintf("/n%d", i)).Exists {
			t.Errorf("/n%d does not exist", i)
		}
	}
	if unknown == 0 || unknown > 256 {
		t.Errorf("%d commits are unknown after one lost reply", unknown)
	}
}

func TestLostReplyToAReadIsNoError(t *testing.T) {
	noLeaks(t)
	p := newProxy(t, ensemble(t).Addr)
	s := open(t, p.addr, newRoot())
	var reqs []store.Req
	for i := range 200 {
		path := fmt.Sprintf("/%d", i)
		commit(t, s, store.Create(path, []byte(path), store.Persistent))
		reqs = append(reqs, store.Req{Path: path})
	}
	var replies atomic.Int64
	p.lose(func(opcode int32) bool { return opcode == opGetData && replies.Add(1) == 100 })
	nodes, err := s.Read(context.Background(), reqs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if !n.Exists || string(n.Data) != reqs[i].Path || n.Path != reqs[i].Path {
			t.Errorf("answer %d: %+v", i, n)
		}
	}
}

// TestCutConnections cuts connections while several clients' worth of commits are under way. What is said to have happened has;
// what is said to have failed has not; each writer's commits happened in its order.
func TestCutConnections(t *testing.T) {
	noLeaks(t)
	server := ensemble(t)
	p := newProxy(t, server.Addr)
	root := newRoot()
	s := open(t, p.addr, root)
	observer := open(t, server.Addr, root)
	const writers, rounds, each = 4, 12, 20
	var wg sync.WaitGroup
	var progress atomic.Int64
	for w := range writers {
		dir := fmt.Sprintf("/w%d", w)
		commit(t, s, store.Create(dir, nil, store.Persistent))
		wg.Go(func() {
			for r := range rounds {
				var txns []store.Txn
				for i := range each {
					txns = append(txns, store.Txn{store.Create(fmt.Sprintf("%s/%d", dir, r*each+i), nil, store.Persistent)})
				}
				for i, out := range s.CommitEach(context.Background(), txns) {
					progress.Add(1)
					exists := read(t, observer, txns[i][0].Path).Exists
					if out.Err == nil && !exists || out.Err != nil && !errors.Is(out.Err, store.ErrUnknown) {
						t.Errorf("%s: exists %v, outcome %v", txns[i][0].Path, exists, out.Err)
					}
				}
			}
		})
	}
	for at := int64(100); at < 600; at += 200 {
		waitFor(t, func() bool { return progress.Load() > at })
		p.cut()
	}
	wg.Wait()
	for w := range writers {
		var last int64
		for i := range rounds * each {
			if n := read(t, observer, fmt.Sprintf("/w%d/%d", w, i)); n.Exists {
				if n.Stat.Czxid < last {
					t.Errorf("%s of %d, after one of %d", n.Path, n.Stat.Czxid, last)
				}
				last = n.Stat.Czxid
			}
		}
	}
}

// TestClosedAmidCommits closes a client under load: its session ends at once, and what was refused has not happened.
func TestClosedAmidCommits(t *testing.T) {
	noLeaks(t)
	server := ensemble(t)
	root := newRoot()
	s := open(t, server.Addr, root)
	observer := open(t, server.Addr, root)
	gone := newSignal()
	commit(t, s, store.Create("/owner", nil, store.Ephemeral))
	observer.Watch("/owner", store.Data, gone.call)
	<-gone
	var wg sync.WaitGroup
	var n atomic.Int64
	refused := make(chan string, 30)
	for range cap(refused) {
		wg.Go(func() {
			for {
				path := fmt.Sprintf("/%d", n.Add(1))
				_, err := s.Commit(context.Background(), store.Create(path, nil, store.Persistent))
				if errors.Is(err, store.ErrClosed) {
					refused <- path
					return
				}
				if err != nil && !errors.Is(err, store.ErrUnknown) {
					t.Errorf("commit: %v", err)
					return
				}
			}
		})
	}
	waitFor(t, func() bool { return n.Load() > 500 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-gone
	wg.Wait()
	for range len(refused) {
		if path := <-refused; read(t, observer, path).Exists {
			t.Errorf("%s exists, its caller was told that the store is closed", path)
		}
	}
	if read(t, observer, "/owner").Exists {
		t.Error("the session has not ended")
	}
}

// TestCallersThatGiveUp cancels calls whose requests are in flight, or stuck on their way to the socket.
func TestCallersThatGiveUp(t *testing.T) {
	noLeaks(t)
	p := newProxy(t, ensemble(t).Addr)
	s := open(t, p.addr, newRoot())
	resume := p.stall()
	defer resume()
	ctx, cancel := context.WithCancel(context.Background())
	const calls = 9 // their data is more than the sockets' buffers hold
	errs := make(chan error, calls+1)
	for i := range calls {
		go func() {
			_, err := s.Commit(ctx, store.Create(fmt.Sprintf("/%d", i), make([]byte, 1_000_000), store.Persistent))
			errs <- err
		}()
	}
	go func() {
		_, err := s.Read(ctx, store.Req{Path: "/"})
		errs <- err
	}()
	elapse(t, 300*time.Millisecond) // nothing shows that a call is stuck
	cancel()
	unknown := 0
	for range calls + 1 {
		err := <-errs
		if errors.Is(err, store.ErrUnknown) {
			unknown++
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled call: %v", err)
		}
	}
	if unknown == 0 || unknown == calls {
		t.Errorf("%d of %d commits are unknown; some were in flight, others had not been sent", unknown, calls)
	}
	resume()
	commit(t, s, store.Create("/after", nil, store.Persistent))
}

func TestServerKilledAndStartedAgain(t *testing.T) {
	noLeaks(t)
	server := ensemble(t)
	var answers atomic.Int64
	states := make(chan zk.State, 10)
	s := open(t, server.Addr, newRoot(), func(o *zk.Options) {
		o.Answered, o.Changed = func(time.Duration) { answers.Add(1) }, func(state zk.State) { states <- state }
	})
	old := s.Session()
	before := answers.Load()
	commit(t, s, store.Create("/e", []byte("0"), store.Ephemeral))
	if n := answers.Load() - before; n != 1 {
		t.Errorf("%d answers to one commit", n)
	}
	seen := newSignal()
	s.Watch("/e", store.Data, seen.call)
	<-seen
	server.Kill()
	var wg sync.WaitGroup
	wg.Go(func() {
		if n := read(t, s, "/e"); string(n.Data) != "0" && string(n.Data) != "1" {
			t.Errorf("read across the restart: %+v", n)
		}
	})
	wg.Go(func() {
		_, err := s.Commit(context.Background(), store.Set("/e", []byte("1"), 0))
		if err != nil && !errors.Is(err, store.ErrUnknown) {
			t.Errorf("commit across the restart: %v", err)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() { // a caller that gives up is let go
		_, err := s.Commit(ctx, store.Create("/never", nil, store.Persistent))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled commit: %v", err)
		}
	})
	cancel()
	server.Start(t)
	wg.Wait()
	<-seen
	if n := read(t, s, "/e"); n.Stat.EphemeralOwner != old || s.Session() != old {
		t.Errorf("%+v, sessions %d and %d", n.Stat, old, s.Session())
	}
	if read(t, s, "/never").Exists {
		t.Error("a commit happened whose caller had been told that it will not")
	}
	if got := []zk.State{<-states, <-states, <-states}; !slices.Equal(got, []zk.State{zk.SyncConnected, zk.Disconnected, zk.SyncConnected}) {
		t.Errorf("the connection's states were %v", got)
	}
}

// TestServerPaused stops the server for longer than a session: whether it still knows the session is its affair, but the client must
// be told and serve again.
func TestServerPaused(t *testing.T) {
	noLeaks(t)
	server := ensemble(t)
	root := newRoot()
	var expired atomic.Int64
	s := open(t, server.Addr, root, func(o *zk.Options) {
		o.SessionTimeout = shortSession
		o.Changed = func(state zk.State) {
			if state == zk.Expired {
				expired.Add(1)
			}
		}
	})
	events := make(chan store.SessionEvent, 10)
	s.WatchSession(func(e store.SessionEvent) { events <- e })
	old := s.Session()
	seen := newSignal()
	s.Watch("/n", store.Data, seen.call)
	<-seen
	server.Pause()
	defer server.Resume()
	elapse(t, 2*shortSession)
	server.Resume()
	waitFor(t, func() bool {
		_, err := s.Commit(context.Background(), store.Create("/n", nil, store.Ephemeral))
		return err == nil || errors.Is(err, store.ErrExists)
	})
	<-seen
	now := s.Session()
	if (expired.Load() == 1) != (now != old) {
		t.Errorf("%d sessions expired; %d and %d", expired.Load(), old, now)
	}
	if now != old {
		if lost, begun := <-events, <-events; lost != (store.SessionEvent{ID: old, Lost: true}) || begun != (store.SessionEvent{ID: now}) {
			t.Errorf("events %v, %v; sessions %d, %d", lost, begun, old, now)
		}
	}
}

// TestWatchesAcrossAnOutage changes nodes while the client that watches them is away.
func TestWatchesAcrossAnOutage(t *testing.T) {
	noLeaks(t)
	server := ensemble(t)
	root := newRoot()
	p := newProxy(t, server.Addr)
	s := open(t, p.addr, root)
	other := open(t, server.Addr, root)
	const nodes = 300
	var create, change []store.Txn
	signals := make([]signal, 2*nodes)
	for i := range nodes {
		path := fmt.Sprintf("/n%d", i)
		create = append(create, store.Txn{store.Create(path, nil, store.Persistent)})
		change = append(change, store.Txn{store.Set(path, []byte("x"), 0), store.Create(path+"/child", nil, store.Persistent)})
		signals[2*i], signals[2*i+1] = newSignal(), newSignal()
		if i%2 == 0 { // the other half is watched before it exists
			commit(t, other, create[i]...)
		}
		s.Watch(path, store.Data, signals[2*i].call)
		s.Watch(path, store.Children, signals[2*i+1].call)
	}
	for _, c := range signals {
		<-c
	}
	p.away(true)
	other.CommitEach(context.Background(), create)
	for i, out := range other.CommitEach(context.Background(), change) {
		if out.Err != nil {
			t.Fatalf("change %d: %v", i, out.Err)
		}
	}
	p.away(false)
	for _, c := range signals {
		<-c
	}
	for range 2 { // and they go on
		for i := range nodes {
			drain(signals[2*i])
			commit(t, other, store.Set(fmt.Sprintf("/n%d", i), nil, store.AnyVersion))
		}
		for i := range nodes {
			<-signals[2*i]
		}
	}
}

func drain(s signal) {
	select {
	case <-s:
	default:
	}
}
