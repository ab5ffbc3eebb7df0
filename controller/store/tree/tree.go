// Package tree holds the rules of the metadata tree, which the stores that keep it themselves (embedded, and the fake for tests)
// share: what a commit may do, and what it does to nodes, versions and sequence numbers.
package tree

import (
	"fmt"
	"iter"

	"github.com/gregor-broker/gregor/controller/store"
)

// Record is a node as it is kept.
type Record struct {
	Data    []byte
	Stat    store.Stat
	NextSeq uint32 // number of the next sequential child
}

// Base is the present state of a tree. The root always exists.
type Base interface {
	Get(path string) (Record, bool)
	Children(path string) iter.Seq[string] // names
}

// Commit says who commits, and when.
type Commit struct {
	Session int64
	Zxid    int64
	NowMs   int64
}

// Change is what a commit does to one node.
type Change struct {
	Record  Record
	Deleted bool
	Created bool // it did not exist before
	Stat    bool // only bookkeeping changed (NextSeq), nothing that a watch of data shows
}

// Apply works out what ops do to base, without touching it. The error is an *store.OpError.
func Apply(base Base, c Commit, ops []store.Op) (map[string]Change, []store.Result, error) {
	s := staged{base: base, commit: c, changes: make(map[string]Change, len(ops))}
	results := make([]store.Result, len(ops))
	for i, op := range ops {
		var err error
		if results[i], err = s.apply(op); err != nil {
			return nil, nil, &store.OpError{Index: i, Op: op, Err: err}
		}
	}
	return s.changes, results, nil
}

// staged is the tree as the ops so far have left it.
type staged struct {
	base    Base
	commit  Commit
	changes map[string]Change
}

func (s *staged) get(path string) (Record, bool) {
	if c, ok := s.changes[path]; ok {
		return c.Record, !c.Deleted
	}
	return s.base.Get(path)
}

func (s *staged) apply(op store.Op) (store.Result, error) {
	if !store.ValidPath(op.Path) {
		return store.Result{}, fmt.Errorf("%q is no path of a node", op.Path)
	}
	if op.Kind == store.OpCreate {
		return s.create(op)
	}
	node, ok := s.get(op.Path)
	if !ok {
		return store.Result{}, store.ErrNoNode
	}
	if op.Version != store.AnyVersion && op.Version != node.Stat.Version {
		return store.Result{}, store.ErrVersion
	}
	switch op.Kind {
	case store.OpSet:
		node.Data = op.Data
		node.Stat.Version++
		node.Stat.Mzxid, node.Stat.MtimeMs = s.commit.Zxid, s.commit.NowMs
		s.put(op.Path, Change{Record: node})
		return store.Result{Stat: node.Stat}, nil
	case store.OpDelete:
		if s.hasChildren(op.Path) {
			return store.Result{}, store.ErrNotEmpty
		}
		s.put(op.Path, Change{Deleted: true, Record: Record{Stat: node.Stat}})
	}
	return store.Result{}, nil
}

func (s *staged) create(op store.Op) (store.Result, error) {
	parentPath := store.Parent(op.Path)
	parent, ok := s.get(parentPath)
	switch {
	case !ok && parentPath != "/":
		return store.Result{}, store.ErrNoNode
	case parent.Stat.EphemeralOwner != 0:
		return store.Result{}, store.ErrEphemeral
	}
	path := op.Path
	if op.Mode == store.Sequential {
		path = fmt.Sprintf("%s%010d", path, parent.NextSeq)
		parent.NextSeq++
		c := s.changes[parentPath]
		s.put(parentPath, Change{Record: parent, Created: c.Created, Stat: true})
	}
	if _, exists := s.get(path); exists {
		return store.Result{}, store.ErrExists
	}
	stat := store.Stat{Czxid: s.commit.Zxid, Mzxid: s.commit.Zxid, CtimeMs: s.commit.NowMs, MtimeMs: s.commit.NowMs}
	if op.Mode == store.Ephemeral {
		stat.EphemeralOwner = s.commit.Session
	}
	s.put(path, Change{Record: Record{Data: op.Data, Stat: stat}, Created: true})
	return store.Result{Path: path}, nil
}

// put stages a change, keeping what an earlier op of the same commit means for those who watch.
func (s *staged) put(path string, c Change) {
	if before, ok := s.changes[path]; ok {
		c.Created = c.Created || before.Created && !c.Deleted
		c.Stat = c.Stat && before.Stat
	}
	s.changes[path] = c
}

func (s *staged) hasChildren(path string) bool {
	for child, c := range s.changes {
		if !c.Deleted && c.Created && store.Parent(child) == path {
			return true
		}
	}
	for name := range s.base.Children(path) {
		if !s.changes[path+"/"+name].Deleted {
			return true
		}
	}
	return false
}

// Touched calls f for what the changes of a commit may mean to watchers.
func Touched(changes map[string]Change, f func(path string, kind store.Kind)) {
	for path, c := range changes {
		if c.Stat && !c.Created {
			continue
		}
		f(path, store.Data)
		if c.Created || c.Deleted {
			f(path, store.Children)
			f(store.Parent(path), store.Children)
		}
	}
}

// Watches is a set of watchers. The zero value is empty. Not safe for concurrent use.
type Watches struct {
	by   map[key]map[int64]func()
	last int64
}

type key struct {
	path string
	kind store.Kind
}

// Add registers notify and returns the id to remove it with.
func (w *Watches) Add(path string, kind store.Kind, notify func()) int64 {
	if w.by == nil {
		w.by = map[key]map[int64]func(){}
	}
	k := key{path, kind}
	if w.by[k] == nil {
		w.by[k] = map[int64]func(){}
	}
	w.last++
	w.by[k][w.last] = notify
	return w.last
}

// Remove forgets a watcher.
func (w *Watches) Remove(path string, kind store.Kind, id int64) {
	k := key{path, kind}
	delete(w.by[k], id)
	if len(w.by[k]) == 0 {
		delete(w.by, k)
	}
}

// Collect adds the watchers that changes concern to due.
func (w *Watches) Collect(changes map[string]Change, due map[int64]func()) {
	if len(w.by) == 0 {
		return
	}
	Touched(changes, func(path string, kind store.Kind) {
		for id, notify := range w.by[key{path, kind}] {
			due[id] = notify
		}
	})
}

// All adds every watcher to due.
func (w *Watches) All(due map[int64]func()) {
	for _, m := range w.by {
		for id, notify := range m {
			due[id] = notify
		}
	}
}
