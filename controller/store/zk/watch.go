package zk

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	zoo "github.com/go-zookeeper/zk"
	"github.com/gregor-broker/gregor/controller/store"
	"go.uber.org/zap"
)

// key is what a watch looks at; the path is the caller's.
type key struct {
	path string
	kind store.Kind
}

// stage is where a key is between two notifications.
type stage int8

const (
	due    stage = iota // to be armed, then its watchers are called
	arming              // the request is on its way
	armed               // a server will tell
)

// watched is a key that somebody watches, or that a server still has a watch for.
type watched struct {
	stage    stage
	fired    bool // while arming: the answer is old already
	watchers map[int64]func()
}

// watches is every key of a Store. Safe for concurrent use; no watcher is called with the lock held.
type watches struct {
	wake chan struct{} // holds a token while a key is due or look is set
	mu   struct {
		sync.Mutex
		keys map[key]*watched
		due  map[key]*watched // of keys, those in that stage
		look bool             // call every watcher whose key is armed: events may have been lost
		last int64
	}
}

func (w *watches) init() {
	w.wake = make(chan struct{}, 1)
	w.mu.keys = map[key]*watched{}
	w.mu.due = map[key]*watched{}
}

// Watch implements store.Store. It returns at once; when the watch is not armed yet, notify is called once it is.
func (s *Store) Watch(path string, kind store.Kind, notify func()) (cancel func()) {
	return s.watches.add(key{path, kind}, notify)
}

func (w *watches) add(k key, notify func()) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.mu.keys[k]
	if x == nil {
		x = &watched{watchers: map[int64]func(){}}
		w.mu.keys[k] = x
		w.makeDue(k, x)
	}
	w.mu.last++
	id := w.mu.last
	x.watchers[id] = notify
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(x.watchers, id) // the key stays as long as a server may tell of it
	}
}

// makeDue puts a key into the queue; the caller holds the lock.
func (w *watches) makeDue(k key, x *watched) {
	x.stage, x.fired = due, false
	w.mu.due[k] = x
	w.signal()
}

func (w *watches) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// fired is told of every event of a server. A list of children is watched through its node's existence while that is missing.
func (w *watches) fired(event zoo.EventType, path string) {
	switch event {
	case zoo.EventNodeCreated, zoo.EventNodeDeleted:
		w.touch(key{path, store.Data})
		w.touch(key{path, store.Children})
	case zoo.EventNodeDataChanged:
		w.touch(key{path, store.Data})
	case zoo.EventNodeChildrenChanged:
		w.touch(key{path, store.Children})
	}
}

func (w *watches) touch(k key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.mu.keys[k]
	switch {
	case x == nil:
	case x.stage == arming:
		x.fired = true
	case x.stage == armed:
		w.makeDue(k, x)
	}
}

// allDue forgets what was armed, because the session that it was armed in is over.
func (w *watches) allDue() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, x := range w.mu.keys {
		w.makeDue(k, x)
	}
}

// lookAgain has every watcher called.
func (w *watches) lookAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.look = true
	w.signal()
}

// take returns the keys to arm, which are arming then, and whom to call. Keys that nobody watches any more are dropped.
func (w *watches) take() (keys []key, calls []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, x := range w.mu.due {
		if len(x.watchers) == 0 {
			delete(w.mu.keys, k)
			continue
		}
		x.stage = arming
		keys = append(keys, k)
	}
	clear(w.mu.due)
	if w.mu.look {
		w.mu.look = false
		for _, x := range w.mu.keys {
			if x.stage == armed {
				calls = append(calls, inOrder(x.watchers)...)
			}
		}
	}
	return keys, calls
}

// done says how the arming of a key went, and returns whom to call. A key that could not be armed is due again if retry is set;
// otherwise its watchers are called, to find out by reading, and it waits for the next session.
func (w *watches) done(k key, err error, retry bool) []func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.mu.keys[k]
	if x == nil || x.stage != arming {
		return nil
	}
	if err != nil && retry || err == nil && x.fired {
		w.makeDue(k, x)
		return nil
	}
	x.stage = armed
	return inOrder(x.watchers)
}

func inOrder[F any](m map[int64]F) []F {
	list := make([]F, 0, len(m))
	for _, id := range slices.SortedFunc(maps.Keys(m), cmp.Compare[int64]) {
		list = append(list, m[id])
	}
	return list
}

func callAll(calls []func()) {
	for _, call := range calls {
		call()
	}
}

// rewatching is called by the socket when the library begins to set the watches of a resumed session again. The library tells
// the server up to where it has seen events, but may take that from a reply that has overtaken them; so everybody looks again.
func (n *session) rewatching(c *socket) {
	if c.resumed {
		c.resumed = false
		n.store.watches.lookAgain()
	}
}

// arm arms what is due, until the session ends. The channel it returns is closed when its goroutines have ended.
func (s *Store) arm(in *session) (ended <-chan struct{}) {
	s.watches.allDue()
	all := make(chan struct{})
	go func() {
		defer close(all)
		var wg sync.WaitGroup
		defer wg.Wait()
		for {
			select {
			case <-s.watches.wake:
			case <-in.ended:
				return
			}
			keys, calls := s.watches.take()
			callAll(calls)
			for _, k := range keys {
				s.armOne(in, k, &wg)
			}
		}
	}()
	return all
}

// errCreated says that a missing node appeared while it was being watched.
var errCreated = errors.New("the node was created meanwhile")

// armOne sends what arms one key; a goroutine of wg waits for the answer. The list of children of a missing node cannot be
// watched, only its appearance.
func (s *Store) armOne(in *session, k key, wg *sync.WaitGroup) {
	path, ctx := s.at(k.path), context.Background() // ends with the session
	answer, err := in.begin(ctx, func(c *zoo.Conn) error {
		if k.kind == store.Children {
			_, _, _, err := c.ChildrenW(path)
			return err
		}
		_, _, _, err := c.ExistsW(path)
		return err
	})
	if err != nil {
		s.armed(k, err)
		return
	}
	wg.Go(func() {
		err := <-answer
		if errors.Is(err, zoo.ErrNoNode) {
			err = in.call(ctx, func(c *zoo.Conn) error {
				exists, _, _, err := c.ExistsW(path)
				if err == nil && exists {
					return errCreated
				}
				return err
			})
		}
		s.armed(k, err)
	})
}

// armed takes the answer to the arming of a key.
func (s *Store) armed(k key, err error) {
	retry := disconnected(err)
	for _, passing := range []error{errCreated, store.ErrSessionExpired, store.ErrClosed, zoo.ErrSessionExpired} {
		retry = retry || errors.Is(err, passing)
	}
	if err != nil && !retry {
		s.o.Logger.Error("cannot watch a node of ZooKeeper", zap.String("path", k.path), zap.Error(reason(err)))
	}
	callAll(s.watches.done(k, err, retry))
}
