// Package storetest holds what every implementation of store.Store must pass, and a fake that tests break on purpose.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
)

// Harness gives the suite a tree of its own.
type Harness struct {
	// Store is a client of an empty tree.
	Store store.Store
	// Other opens a second client of the same tree, with a session of its own; nil where there can be only one.
	Other func() store.Store
	// Reopen closes Store in order and opens the same tree again; nil where a tree lives only in memory.
	Reopen func() store.Store
	// Expire ends Store's session and lets it open a new one; nil where sessions do not expire.
	Expire func()
}

// Suite runs every test on a new tree.
func Suite(t *testing.T, open func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"create and read", testCreate},
		{"versions", testVersions},
		{"delete", testDelete},
		{"all or nothing", testAtomic},
		{"ops see earlier ops", testOrder},
		{"which op failed", testFailures},
		{"children", testChildren},
		{"sequential", testSequential},
		{"ephemeral", testEphemeral},
		{"set tells czxid", testStat},
		{"commit each", testEach},
		{"watches", testWatches},
		{"racing writers", testRace},
		{"reopen", testReopen},
		{"second client", testOther},
		{"expiry", testExpire},
		{"decided in another session", testWithin},
		{"closed", testClosed},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func commit(t *testing.T, s store.Store, ops ...store.Op) []store.Result {
	t.Helper()
	r, err := s.Commit(context.Background(), ops...)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	if len(r) != len(ops) {
		t.Fatalf("%d results for %d ops", len(r), len(ops))
	}
	return r
}

func refuse(t *testing.T, s store.Store, want error, index int, ops ...store.Op) {
	t.Helper()
	r, err := s.Commit(context.Background(), ops...)
	if !errors.Is(err, want) || store.FailedOp(err) != index || r != nil {
		t.Errorf("commit %v: results %v, error %v at op %d; want %v at op %d", ops, r, err, store.FailedOp(err), want, index)
	}
}

func read(t *testing.T, s store.Store, path string, kind store.Kind) store.Node {
	t.Helper()
	n, err := s.Read(context.Background(), store.Req{Path: path, Kind: kind})
	if err != nil || len(n) != 1 || n[0].Path != path {
		t.Fatalf("read %s: %v, %v", path, n, err)
	}
	return n[0]
}

// shows checks a node's data and version; version -1 says that it must be missing.
func shows(t *testing.T, s store.Store, path, data string, version int32) {
	t.Helper()
	n := read(t, s, path, store.Data)
	if version < 0 {
		if n.Exists {
			t.Errorf("%s exists with %q", path, n.Data)
		}
		return
	}
	if !n.Exists || string(n.Data) != data || n.Stat.Version != version {
		t.Errorf("%s: exists %v, %q, version %d; want %q, version %d", path, n.Exists, n.Data, n.Stat.Version, data, version)
	}
}

func children(t *testing.T, s store.Store, path string) string {
	t.Helper()
	n := read(t, s, path, store.Children)
	slices.Sort(n.Children)
	return strings.Join(n.Children, " ")
}

func create(path, data string) store.Op { return store.Create(path, []byte(data), store.Persistent) }
func node(path string) store.Op         { return store.Create(path, nil, store.Persistent) }
func set(path, data string, v int32) store.Op {
	return store.Set(path, []byte(data), v)
}

func testCreate(t *testing.T, h Harness) {
	s := h.Store
	shows(t, s, "/a", "", -1)
	if n := read(t, s, "/", store.Children); !n.Exists || len(n.Children) != 0 {
		t.Errorf("the empty root: %+v", n)
	}
	if r := commit(t, s, create("/a", "x")); r[0].Path != "/a" || r[0].Stat != (store.Stat{}) {
		t.Errorf("result of a create: %+v", r[0])
	}
	shows(t, s, "/a", "x", 0)
	commit(t, s, node("/null"), create("/empty", ""))
	if n := read(t, s, "/null", store.Data); n.Data != nil {
		t.Errorf("a node without data reads as %q", n.Data)
	}
	refuse(t, s, store.ErrExists, 0, create("/a", "y"))
	refuse(t, s, store.ErrNoNode, 0, create("/b/c", "y"))
	nodes, err := s.Read(context.Background(), store.Req{Path: "/no"}, store.Req{Path: "/a"}, store.Req{Path: "/a/b"})
	if err != nil || len(nodes) != 3 || nodes[0].Exists || !nodes[1].Exists || nodes[2].Exists {
		t.Errorf("read of three: %+v, %v", nodes, err)
	}
	for _, path := range []string{"", "/", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a\x00", "/" + strings.Repeat("x", 1024)} {
		if _, err := s.Commit(context.Background(), create(path, "")); err == nil {
			t.Errorf("created %q", path)
		}
	}
	big := strings.Repeat("0123456789abcdef", 40<<10)
	commit(t, s, create("/big", big))
	shows(t, s, "/big", big, 0)
}

func testVersions(t *testing.T, h Harness) {
	s := h.Store
	refuse(t, s, store.ErrNoNode, 0, set("/a", "x", store.AnyVersion))
	commit(t, s, create("/a", "0"))
	commit(t, s, set("/a", "1", 0))
	commit(t, s, set("/a", "2", store.AnyVersion))
	shows(t, s, "/a", "2", 2)
	refuse(t, s, store.ErrVersion, 0, set("/a", "3", 1))
	refuse(t, s, store.ErrVersion, 0, set("/a", "3", 3))
	commit(t, s, store.Check("/a", 2))
	refuse(t, s, store.ErrVersion, 0, store.Check("/a", 1))
	refuse(t, s, store.ErrNoNode, 0, store.Check("/b", store.AnyVersion))
	commit(t, s, store.Delete("/a", 2), create("/a", "new"))
	shows(t, s, "/a", "new", 0)
}

func testDelete(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, node("/a"), node("/a/b"))
	refuse(t, s, store.ErrNotEmpty, 0, store.Delete("/a", store.AnyVersion))
	refuse(t, s, store.ErrVersion, 0, store.Delete("/a/b", 1))
	refuse(t, s, store.ErrNoNode, 0, store.Delete("/c", store.AnyVersion))
	commit(t, s, store.Delete("/a/b", 0), store.Delete("/a", store.AnyVersion))
	shows(t, s, "/a", "", -1)
	shows(t, s, "/a/b", "", -1)
}

func testAtomic(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, create("/a", "0"), create("/gone", ""))
	refuse(t, s, store.ErrVersion, 3, set("/a", "1", 0), create("/b", ""), store.Delete("/gone", 0), store.Check("/a", 0))
	shows(t, s, "/a", "0", 0)
	shows(t, s, "/b", "", -1)
	shows(t, s, "/gone", "", 0)
}

func testOrder(t *testing.T, h Harness) {
	s := h.Store
	r := commit(t, s, node("/a"), create("/a/b", "0"), set("/a/b", "1", 0), set("/a/b", "2", 1), store.Check("/a/b", 2))
	if r[3].Stat.Version != 2 {
		t.Errorf("stat of the second set: %+v", r[3].Stat)
	}
	shows(t, s, "/a/b", "2", 2)
	refuse(t, s, store.ErrNotEmpty, 1, create("/a/c", ""), store.Delete("/a", store.AnyVersion))
	commit(t, s, store.Delete("/a/b", 2), store.Delete("/a", 0), node("/a"))
	if c := children(t, s, "/a"); c != "" {
		t.Errorf("children of a node created again: %s", c)
	}
}

func testFailures(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, create("/epoch", "1"), node("/t"))
	refuse(t, s, store.ErrVersion, 0, store.Check("/epoch", 5), create("/t", ""))
	refuse(t, s, store.ErrExists, 1, store.Check("/epoch", 0), create("/t", ""))
	_, err := s.Commit(context.Background(), store.Check("/epoch", 0), create("/t", ""))
	if want := "create /t: the node exists already"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func testChildren(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, node("/t"))
	for _, name := range []string{"a", "a-b", "a.b", "a_b", "a0", "aa", "<default>", "al%20ice"} {
		commit(t, s, node("/t/"+name), node("/t/"+name+"/partitions"), node("/t/"+name+"/partitions/0"))
	}
	commit(t, s, node("/tt"))
	if got, want := children(t, s, "/t"), "<default> a a-b a.b a0 a_b aa al%20ice"; got != want {
		t.Errorf("children %q, want %q", got, want)
	}
	if got := children(t, s, "/"); got != "t tt" {
		t.Errorf("children of the root %q", got)
	}
	if n := read(t, s, "/none", store.Children); n.Exists || len(n.Children) > 0 {
		t.Errorf("children of a missing node: %+v", n)
	}
}

func testSequential(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, create("/c", "parent"))
	last := ""
	for i := range 3 {
		r := commit(t, s, store.Create("/c/config_change_", []byte{byte('0' + i)}, store.Sequential))
		digits, ok := strings.CutPrefix(r[0].Path, "/c/config_change_")
		if !ok || len(digits) != 10 || digits <= last {
			t.Fatalf("sequential node %s after %s", r[0].Path, last)
		}
		last = digits
		shows(t, s, r[0].Path, string('0'+byte(i)), 0)
	}
	commit(t, s, store.Delete("/c/config_change_"+last, 0))
	if r := commit(t, s, store.Create("/c/config_change_", nil, store.Sequential)); r[0].Path <= "/c/config_change_"+last {
		t.Errorf("the number %s was given again: %s", last, r[0].Path)
	}
	shows(t, s, "/c", "parent", 0)
}

func testEphemeral(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, node("/ids"))
	commit(t, s, store.Create("/ids/1", []byte("x"), store.Ephemeral), set("/ids/1", "y", 0))
	n := read(t, s, "/ids/1", store.Data)
	if n.Stat.EphemeralOwner != s.Session() || s.Session() == 0 || string(n.Data) != "y" {
		t.Errorf("ephemeral node %+v of session %d", n, s.Session())
	}
	if p := read(t, s, "/ids", store.Data); p.Stat.EphemeralOwner != 0 || p.Stat.Version != 0 {
		t.Errorf("the parent: %+v", p.Stat)
	}
	refuse(t, s, store.ErrEphemeral, 0, node("/ids/1/x"))
	refuse(t, s, store.ErrNotEmpty, 0, store.Delete("/ids", store.AnyVersion))
	if c := children(t, s, "/ids"); c != "1" {
		t.Errorf("children %q", c)
	}
	refuse(t, s, store.ErrVersion, 1, set("/ids/1", "z", 1), store.Check("/ids/1", 1))
	shows(t, s, "/ids/1", "y", 1)
	commit(t, s, store.Delete("/ids/1", 1), create("/ids/1", "persistent"))
	if n := read(t, s, "/ids/1", store.Data); n.Stat.EphemeralOwner != 0 {
		t.Errorf("after delete and create: %+v", n.Stat)
	}
}

func testStat(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, node("/ids"))
	var last int64
	for range 3 {
		r := commit(t, s, store.Create("/ids/1", nil, store.Ephemeral), set("/ids/1", "x", 0))
		st := r[1].Stat
		if st.Czxid <= last || st.Version != 1 || st.Mzxid != st.Czxid || st.CtimeMs <= 0 {
			t.Errorf("stat %+v after czxid %d", st, last)
		}
		if n := read(t, s, "/ids/1", store.Data); n.Stat != st {
			t.Errorf("read %+v, commit said %+v", n.Stat, st)
		}
		last = st.Czxid
		r = commit(t, s, set("/ids/1", "y", 1))
		if r[0].Stat.Czxid != last || r[0].Stat.Mzxid <= last {
			t.Errorf("stat %+v after a set of a node of %d", r[0].Stat, last)
		}
		commit(t, s, store.Delete("/ids/1", store.AnyVersion))
	}
}

func testEach(t *testing.T, h Harness) {
	s := h.Store
	if out := s.CommitEach(context.Background(), nil); len(out) != 0 {
		t.Errorf("outcomes of nothing: %v", out)
	}
	commit(t, s, create("/epoch", ""), node("/p"))
	var txns []store.Txn
	for i := range 500 {
		path := fmt.Sprintf("/p/%d", i/2)
		txns = append(txns, store.Txn{store.Check("/epoch", 0), create(path, "x"), set(path, "y", 0)})
	}
	for i, out := range s.CommitEach(context.Background(), txns) {
		switch {
		case i%2 == 0 && (out.Err != nil || len(out.Results) != 3 || out.Results[2].Stat.Version != 1):
			t.Fatalf("commit %d: %+v", i, out)
		case i%2 == 1 && (!errors.Is(out.Err, store.ErrExists) || store.FailedOp(out.Err) != 1):
			t.Fatalf("commit %d: %+v", i, out)
		}
	}
	if n := len(read(t, s, "/p", store.Children).Children); n != 250 {
		t.Errorf("%d nodes, want 250", n)
	}
}

// flag is a watcher that counts.
type flag struct {
	c chan struct{}
}

func watch(s store.Store, path string, kind store.Kind) (*flag, func()) {
	f := &flag{make(chan struct{}, 1)}
	cancel := s.Watch(path, kind, func() {
		select {
		case f.c <- struct{}{}:
		default:
		}
	})
	return f, cancel
}

// wait blocks until the watch has fired; the test's own deadline is the limit.
func (f *flag) wait() { <-f.c }

func testWatches(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, node("/t"))
	data, stop := watch(s, "/t/a", store.Data)
	kids, _ := watch(s, "/t", store.Children)
	deep, _ := watch(s, "/t/a", store.Children)
	commit(t, s, create("/t/a", "0"))
	data.wait()
	kids.wait()
	commit(t, s, set("/t/a", "1", 0))
	data.wait()
	commit(t, s, store.Create("/t/a/seq_", nil, store.Sequential))
	deep.wait()
	commit(t, s, store.Create("/t/e", nil, store.Ephemeral))
	kids.wait()
	commit(t, s, store.Delete("/t/e", 0))
	kids.wait()
	stop()
	again, _ := watch(s, "/t/a", store.Data)
	commit(t, s, set("/t/a", "2", 1))
	again.wait()
}

func testRace(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, create("/n", "0"))
	const writers, rounds = 8, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < rounds; {
				n, err := s.Read(context.Background(), store.Req{Path: "/n"})
				if err != nil {
					t.Error(err)
					return
				}
				var v int
				fmt.Sscan(string(n[0].Data), &v)
				_, err = s.Commit(context.Background(), set("/n", fmt.Sprint(v+1), n[0].Stat.Version))
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrVersion):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	shows(t, s, "/n", fmt.Sprint(writers*rounds), writers*rounds)
}

func testReopen(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("the tree lives in memory")
	}
	s := h.Store
	commit(t, s, create("/a", "x"), set("/a", "y", 0), node("/ids"))
	r := commit(t, s, store.Create("/ids/1", nil, store.Ephemeral), set("/ids/1", "", 0))
	seq := commit(t, s, store.Create("/a/s_", nil, store.Sequential))[0].Path
	before := read(t, s, "/a", store.Data)
	s = h.Reopen()
	if after := read(t, s, "/a", store.Data); after.Stat != before.Stat || string(after.Data) != "y" {
		t.Errorf("after reopening %+v, before %+v", after, before)
	}
	shows(t, s, "/ids/1", "", -1)
	again := commit(t, s, store.Create("/ids/1", nil, store.Ephemeral), set("/ids/1", "", 0))
	if again[1].Stat.Czxid <= r[1].Stat.Czxid {
		t.Errorf("czxid %d after %d", again[1].Stat.Czxid, r[1].Stat.Czxid)
	}
	if next := commit(t, s, store.Create("/a/s_", nil, store.Sequential))[0].Path; next <= seq {
		t.Errorf("sequential node %s after %s", next, seq)
	}
}

func testOther(t *testing.T, h Harness) {
	if h.Other == nil {
		t.Skip("there is one client only")
	}
	a, b := h.Store, h.Other()
	commit(t, a, create("/a", "0"))
	shows(t, b, "/a", "0", 0)
	seen, _ := watch(a, "/a", store.Data)
	commit(t, b, set("/a", "1", 0))
	seen.wait()
	refuse(t, a, store.ErrVersion, 0, set("/a", "2", 0))
	commit(t, b, store.Create("/e", nil, store.Ephemeral))
	if n := read(t, a, "/e", store.Data); n.Stat.EphemeralOwner != b.Session() || b.Session() == a.Session() {
		t.Errorf("owner %d, sessions %d and %d", n.Stat.EphemeralOwner, a.Session(), b.Session())
	}
	refuse(t, a, store.ErrExists, 0, store.Create("/e", nil, store.Ephemeral))
	gone, _ := watch(a, "/e", store.Data)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	gone.wait()
	shows(t, a, "/e", "", -1)
}

func testExpire(t *testing.T, h Harness) {
	if h.Expire == nil {
		t.Skip("sessions do not expire")
	}
	s := h.Store
	var mu sync.Mutex
	var events []store.SessionEvent
	renewed := make(chan struct{})
	s.WatchSession(func(e store.SessionEvent) {
		mu.Lock()
		defer mu.Unlock()
		if events = append(events, e); !e.Lost {
			close(renewed)
		}
	})
	old := s.Session()
	commit(t, s, store.Create("/e", nil, store.Ephemeral), node("/p"))
	gone, _ := watch(s, "/e", store.Data)
	h.Expire()
	<-renewed
	gone.wait()
	mu.Lock()
	defer mu.Unlock()
	if len(events) != 2 || events[0] != (store.SessionEvent{ID: old, Lost: true}) || events[1].ID != s.Session() || events[1].ID == old {
		t.Errorf("events %+v, sessions %d then %d", events, old, s.Session())
	}
	shows(t, s, "/e", "", -1)
	shows(t, s, "/p", "", 0)
	commit(t, s, store.Create("/e", nil, store.Ephemeral))
}

// testWithin: what was decided in one session does not happen in another.
func testWithin(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, node("/a"))
	other, own := store.Within(context.Background(), s.Session()+1), store.Within(context.Background(), s.Session())
	if _, err := s.Commit(other, node("/b")); !errors.Is(err, store.ErrSessionExpired) {
		t.Errorf("in another session: %v", err)
	}
	for _, o := range s.CommitEach(other, []store.Txn{{node("/b")}, {store.Set("/a", []byte("x"), 0)}}) {
		if !errors.Is(o.Err, store.ErrSessionExpired) {
			t.Errorf("one of several in another session: %v", o.Err)
		}
	}
	shows(t, s, "/b", "", -1)
	shows(t, s, "/a", "", 0)
	if _, err := s.Commit(own, node("/b")); err != nil {
		t.Errorf("in the session in which it was decided: %v", err)
	}
}

func testClosed(t *testing.T, h Harness) {
	s := h.Store
	commit(t, s, node("/a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(context.Background(), store.Req{Path: "/a"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Commit(context.Background(), node("/b")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("commit: %v", err)
	}
}
