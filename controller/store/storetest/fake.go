package storetest

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/tree"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Fault is what a test does to a call.
type Fault int8

const (
	NoFault     Fault = iota
	LoseRequest       // a commit does not happen, and its caller gets ErrUnknown
	LoseReply         // a commit happens, and its caller gets ErrUnknown
)

// Fake is a tree in memory that several clients share, each with a session of its own, as brokers share ZooKeeper. Everything
// happens on the caller's goroutine, watches too (after the commit, without a lock held), so a simulation over it is
// deterministic.
type Fake struct {
	clock clock.Clock
	// OnCommit, if set before use, decides the fate of each commit. It may be called with a lock held.
	OnCommit func(c *Client, ops []store.Op) Fault

	mu struct {
		sync.Mutex
		nodes    map[string]*tree.Record
		children map[string]map[string]struct{}
		clients  []*Client
		zxid     int64
		sessions int64
	}
}

// NewFake returns an empty tree.
func NewFake(c clock.Clock) *Fake {
	f := &Fake{clock: c}
	f.mu.nodes = map[string]*tree.Record{}
	f.mu.children = map[string]map[string]struct{}{}
	f.mu.zxid = 100
	return f
}

// Client is a store.Store on a Fake.
type Client struct {
	fake *Fake
	mu   struct { // guarded by fake.mu
		session  int64 // 0: closed or expired
		closed   bool
		watches  tree.Watches
		sessions map[int64]func(store.SessionEvent)
		last     int64
	}
}

// Client opens a client with a new session.
func (f *Fake) Client() *Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &Client{fake: f}
	c.mu.sessions = map[int64]func(store.SessionEvent){}
	f.mu.sessions++
	c.mu.session = f.mu.sessions
	f.mu.clients = append(f.mu.clients, c)
	return c
}

// Dump returns every path with its data, for tests.
func (f *Fake) Dump() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]string, len(f.mu.nodes))
	for path, r := range f.mu.nodes {
		all[path] = string(r.Data)
	}
	return all
}

// base is the tree for package tree; the caller holds the lock.
type base struct{ f *Fake }

func (b base) Get(path string) (tree.Record, bool) {
	r, ok := b.f.mu.nodes[path]
	if !ok {
		return tree.Record{}, false
	}
	return *r, true
}

func (b base) Children(path string) iter.Seq[string] { return maps.Keys(b.f.mu.children[path]) }

// put stores changes; the caller holds the lock.
func (f *Fake) put(changes map[string]tree.Change) {
	for path, c := range changes {
		parent, name := store.Parent(path), path[len(store.Parent(path)):]
		if parent != "/" {
			name = name[1:]
		}
		if c.Deleted {
			delete(f.mu.nodes, path)
			delete(f.mu.children[parent], name)
			continue
		}
		r := c.Record
		r.Data = slices.Clone(r.Data)
		f.mu.nodes[path] = &r
		if path != "/" {
			if f.mu.children[parent] == nil {
				f.mu.children[parent] = map[string]struct{}{}
			}
			f.mu.children[parent][name] = struct{}{}
		}
	}
}

// collect returns the watchers of all clients whom changes concern; the caller holds the lock.
func (f *Fake) collect(changes map[string]tree.Change) []func() {
	var due []func()
	for _, c := range f.mu.clients {
		m := map[int64]func(){}
		c.mu.watches.Collect(changes, m)
		due = append(due, sorted(m)...)
	}
	return due
}

func sorted(m map[int64]func()) []func() {
	var list []func()
	for _, id := range slices.SortedFunc(maps.Keys(m), cmp.Compare[int64]) {
		list = append(list, m[id])
	}
	return list
}

func run(due []func()) {
	for _, f := range due {
		f()
	}
}

// Read implements store.Store.
func (c *Client) Read(ctx context.Context, reqs ...store.Req) ([]store.Node, error) {
	f := c.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := c.usable(); err != nil {
		return nil, err
	}
	nodes := make([]store.Node, len(reqs))
	for i, r := range reqs {
		nodes[i] = store.Node{Path: r.Path, Exists: r.Path == "/"}
		if rec, ok := f.mu.nodes[r.Path]; ok {
			nodes[i].Exists, nodes[i].Stat = true, rec.Stat
			if r.Kind == store.Data {
				nodes[i].Data = slices.Clone(rec.Data)
			}
		}
		if r.Kind == store.Children {
			nodes[i].Children = slices.Sorted(maps.Keys(f.mu.children[r.Path]))
		}
	}
	return nodes, ctx.Err()
}

// usable says whether the client has a session; the caller holds the lock.
func (c *Client) usable() error {
	switch {
	case c.mu.closed:
		return store.ErrClosed
	case c.mu.session == 0:
		return store.ErrSessionExpired
	}
	return nil
}

// Commit implements store.Store.
func (c *Client) Commit(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	out := c.CommitEach(ctx, []store.Txn{ops})
	return out[0].Results, out[0].Err
}

// CommitEach implements store.Store.
func (c *Client) CommitEach(ctx context.Context, txns []store.Txn) []store.Outcome {
	outcomes := make([]store.Outcome, len(txns))
	var due []func()
	c.fake.mu.Lock()
	for i, ops := range txns {
		var more []func()
		outcomes[i], more = c.commit(ctx, ops)
		due = append(due, more...)
	}
	c.fake.mu.Unlock()
	run(due)
	return outcomes
}

// commit does one commit; the caller holds the lock.
func (c *Client) commit(ctx context.Context, ops []store.Op) (store.Outcome, []func()) {
	f := c.fake
	if err := cmp.Or(ctx.Err(), c.usable()); err != nil {
		return store.Outcome{Err: err}, nil
	}
	if !store.Belongs(ctx, c.mu.session) {
		return store.Outcome{Err: store.ErrSessionExpired}, nil
	}
	fault := NoFault
	if f.OnCommit != nil {
		fault = f.OnCommit(c, ops)
	}
	if fault == LoseRequest {
		return store.Outcome{Err: store.ErrUnknown}, nil
	}
	info := tree.Commit{Session: c.mu.session, Zxid: f.mu.zxid + 1, NowMs: f.clock.Now().UnixMilli()}
	changes, results, err := tree.Apply(base{f}, info, ops)
	if err != nil {
		if fault == LoseReply {
			err = store.ErrUnknown
		}
		return store.Outcome{Err: err}, nil
	}
	f.mu.zxid++
	f.put(changes)
	due := f.collect(changes)
	if fault == LoseReply {
		return store.Outcome{Err: store.ErrUnknown}, due
	}
	return store.Outcome{Results: results}, due
}

// Watch implements store.Store.
func (c *Client) Watch(path string, kind store.Kind, notify func()) (cancel func()) {
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	id := c.mu.watches.Add(path, kind, notify)
	return func() {
		c.fake.mu.Lock()
		defer c.fake.mu.Unlock()
		c.mu.watches.Remove(path, kind, id)
	}
}

// Session implements store.Store.
func (c *Client) Session() int64 {
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	return c.mu.session
}

// WatchSession implements store.Store.
func (c *Client) WatchSession(notify func(store.SessionEvent)) (cancel func()) {
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	c.mu.last++
	id := c.mu.last
	c.mu.sessions[id] = notify
	return func() {
		c.fake.mu.Lock()
		defer c.fake.mu.Unlock()
		delete(c.mu.sessions, id)
	}
}

// Expire ends the client's session: its ephemeral nodes vanish, and its calls fail until Renew.
func (c *Client) Expire() {
	run(c.end(false))
}

// Renew opens a new session after Expire. All watches are due, as after a reconnect.
func (c *Client) Renew() {
	f := c.fake
	f.mu.Lock()
	f.mu.sessions++
	c.mu.session = f.mu.sessions
	event := store.SessionEvent{ID: c.mu.session}
	due := c.sessionDue(event)
	m := map[int64]func(){}
	c.mu.watches.All(m)
	due = append(due, sorted(m)...)
	f.mu.Unlock()
	run(due)
}

// Close implements store.Store.
func (c *Client) Close() error {
	run(c.end(true))
	return nil
}

// end ends the session and returns who is to be told.
func (c *Client) end(closed bool) []func() {
	f := c.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	c.mu.closed = c.mu.closed || closed
	old := c.mu.session
	if old == 0 {
		return nil
	}
	c.mu.session = 0
	changes := map[string]tree.Change{}
	for path, r := range f.mu.nodes {
		if r.Stat.EphemeralOwner == old {
			changes[path] = tree.Change{Deleted: true}
		}
	}
	f.mu.zxid++
	f.put(changes)
	if closed {
		f.mu.clients = slices.DeleteFunc(f.mu.clients, func(x *Client) bool { return x == c })
		return f.collect(changes)
	}
	return append(c.sessionDue(store.SessionEvent{ID: old, Lost: true}), f.collect(changes)...)
}

// sessionDue returns the calls that tell those who watch the session; the caller holds the lock.
func (c *Client) sessionDue(e store.SessionEvent) []func() {
	m := map[int64]func(){}
	for id, notify := range c.mu.sessions {
		m[id] = func() { notify(e) }
	}
	return sorted(m)
}
