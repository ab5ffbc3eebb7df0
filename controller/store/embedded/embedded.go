// Package embedded keeps the metadata tree of a single node in one bbolt file.
//
// How a commit travels: callers put it into a queue and wait. One goroutine takes whatever is queued, applies each commit in
// order inside one bbolt transaction (each all or nothing, by package tree), and syncs once for all of them. Then it answers
// and fires the watches. Reads open a bbolt read transaction and never wait for a sync to begin.
//
// There is one session, the process. Ephemeral nodes live in memory only: they vanish with the process by nature and
// cost no sync. The pair (transaction, map of ephemerals) changes under one lock, so a reader sees both from the same commit.
package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/tree"
	"github.com/gregor-broker/gregor/wire/clock"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// format is the version of what is written. A file of a larger one is refused; smaller ones will be converted at Open.
const format = 1

// initialMap is how much address space the file is mapped into at first. bbolt copies every page of a transaction when it has to map a
// larger one, and waits for readers; address space costs nothing.
const initialMap = 64 << 20

var (
	metaBucket = []byte("meta")
	nodeBucket = []byte("nodes")
	formatKey  = []byte("format")
	zxidKey    = []byte("zxid")
)

// Options of Open.
type Options struct {
	Clock clock.Clock // for the times in node stats
}

// Store implements store.Store on a file.
type Store struct {
	db      *bbolt.DB
	clock   clock.Clock
	session int64
	queue   chan *batch
	closing chan struct{}
	done    chan struct{}

	state struct { // the pair that readers take; written by the committer
		sync.RWMutex
		ephemeral map[string]tree.Record // never changed once published
		zxid      int64
	}
	watch struct {
		sync.Mutex
		tree.Watches
	}
}

// batch is one CommitEach on its way.
type batch struct {
	txns     []store.Txn
	outcomes []store.Outcome
	done     chan struct{}
}

// Open opens or creates the file. It fails in words when another process holds the file or a newer gregor wrote it.
func Open(path string, o Options) (*Store, error) {
	s, err := open(path, o)
	if errors.Is(err, os.ErrNotExist) {
		if err = create(path, o); err == nil {
			s, err = open(path, o)
		}
	}
	if err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

// newSuffix is of a file that is being made.
const newSuffix = ".new"

// create makes an empty file whole: a crash leaves it or none, and never one that no start can read.
func create(path string, o Options) error {
	if err := os.Remove(path + newSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path+newSuffix, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	s, err := open(path+newSuffix, o)
	if err != nil {
		return err
	}
	if err := s.db.Close(); err != nil {
		return err
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// open opens a file that is there; it may be empty.
func open(path string, o Options) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 100 * time.Millisecond, FreelistType: bbolt.FreelistMapType, InitialMmapSize: initialMap})
	if err != nil {
		return nil, openError(path, err)
	}
	s := &Store{db: db, clock: o.Clock, queue: make(chan *batch, 64), closing: make(chan struct{}), done: make(chan struct{})}
	if err := s.load(path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.state.ephemeral = map[string]tree.Record{}
	s.session = s.state.zxid + 1
	return s, nil
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("metadata file %s: another process uses it; stop that one first", path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("metadata file %s is damaged or no metadata file (%w); restore a copy of it", path, err)
	}
	return fmt.Errorf("metadata file %s: %w", path, err)
}

// load checks the format, and sets up a new file.
func (s *Store) load(path string) error {
	var found uint64
	err := s.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		if v := meta.Get(formatKey); len(v) == 8 {
			found = binary.BigEndian.Uint64(v)
		}
		if v := meta.Get(zxidKey); len(v) == 8 {
			s.state.zxid = int64(binary.BigEndian.Uint64(v))
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case found > format:
		return fmt.Errorf("metadata file %s has format %d, this gregor knows formats up to %d: "+
			"it was written by a newer version; upgrade, or restore a copy of the file from before", path, found, format)
	case found == format:
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucketIfNotExists(nodeBucket); err != nil {
			return err
		}
		return meta.Put(formatKey, number(format))
	})
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, reqs ...store.Req) ([]store.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.state.RLock()
	tx, err := s.db.Begin(false)
	v := view{ephemeral: s.state.ephemeral}
	s.state.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", store.ErrClosed, err)
	}
	v.nodes = tx.Bucket(nodeBucket)
	nodes := make([]store.Node, len(reqs))
	for i, r := range reqs {
		nodes[i] = v.read(r)
	}
	return nodes, tx.Rollback()
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	out := s.CommitEach(ctx, []store.Txn{ops})
	return out[0].Results, out[0].Err
}

// CommitEach implements store.Store: all commits of a call, and those of other callers at the same time, share one sync.
// Once queued it does not stop for ctx: a local sync is not worth an unknown outcome.
func (s *Store) CommitEach(ctx context.Context, txns []store.Txn) []store.Outcome {
	b := &batch{txns: txns, outcomes: make([]store.Outcome, len(txns)), done: make(chan struct{})}
	if !store.Belongs(ctx, s.Session()) {
		return b.fail(store.ErrSessionExpired)
	}
	select {
	case s.queue <- b:
	case <-s.closing:
		return b.fail(store.ErrClosed)
	case <-ctx.Done():
		return b.fail(ctx.Err())
	}
	select {
	case <-b.done:
		return b.outcomes
	case <-s.done:
	}
	select {
	case <-b.done:
		return b.outcomes
	default:
		return b.fail(store.ErrClosed)
	}
}

// fail gives every outcome that is not an error yet this one.
func (b *batch) fail(err error) []store.Outcome {
	for i := range b.outcomes {
		if b.outcomes[i].Err == nil {
			b.outcomes[i] = store.Outcome{Err: err}
		}
	}
	return b.outcomes
}

// run is the committer.
func (s *Store) run() {
	defer close(s.done)
	for {
		select {
		case b := <-s.queue:
			s.commit(s.gather(b))
		case <-s.closing:
			return
		}
	}
}

// gather takes what else is queued, at most the queue's length.
func (s *Store) gather(first *batch) []*batch {
	batches := []*batch{first}
	for len(batches) < cap(s.queue) {
		select {
		case b := <-s.queue:
			batches = append(batches, b)
		default:
			return batches
		}
	}
	return batches
}

func (s *Store) commit(batches []*batch) {
	due := map[int64]func(){}
	if err := s.apply(batches, due); err != nil {
		for _, b := range batches {
			b.fail(err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(due)) {
		due[id]()
	}
	for _, b := range batches {
		close(b.done)
	}
}

// apply is the transaction of a group of batches. After an error nothing of it is visible, unless the error is ErrUnknown.
func (s *Store) apply(batches []*batch, due map[int64]func()) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	v := view{tx.Bucket(nodeBucket), maps.Clone(s.state.ephemeral), map[string]map[string]tree.Change{}}
	info := tree.Commit{Session: s.session, Zxid: s.state.zxid, NowMs: s.clock.Now().UnixMilli()}
	var all []map[string]tree.Change
	for _, b := range batches {
		for i, ops := range b.txns {
			info.Zxid++
			changes, results, err := tree.Apply(v, info, ops)
			b.outcomes[i] = store.Outcome{Results: results, Err: err}
			if err != nil {
				continue
			}
			v.stage(changes)
			all = append(all, changes)
		}
	}
	durable, err := v.write()
	if err != nil {
		return err
	}
	if durable {
		if err := tx.Bucket(metaBucket).Put(zxidKey, number(uint64(info.Zxid))); err != nil {
			return err
		}
	}
	if err := s.publish(tx, durable, v.ephemeral, info.Zxid); err != nil {
		return fmt.Errorf("%w (%w)", store.ErrUnknown, err)
	}
	s.watch.Lock()
	defer s.watch.Unlock()
	for _, changes := range all {
		s.watch.Collect(changes, due)
	}
	return nil
}

// publish makes a transaction and its ephemerals visible at once.
func (s *Store) publish(tx *bbolt.Tx, durable bool, ephemeral map[string]tree.Record, zxid int64) error {
	s.state.Lock()
	defer s.state.Unlock()
	if durable {
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	s.state.ephemeral, s.state.zxid = ephemeral, zxid
	return nil
}

// Watch implements store.Store. notify runs on the committer.
func (s *Store) Watch(path string, kind store.Kind, notify func()) (cancel func()) {
	s.watch.Lock()
	defer s.watch.Unlock()
	id := s.watch.Add(path, kind, notify)
	return func() {
		s.watch.Lock()
		defer s.watch.Unlock()
		s.watch.Remove(path, kind, id)
	}
}

// Session implements store.Store.
func (s *Store) Session() int64 { return s.session }

// Commits is the number of commits that the store has seen in its life.
func (s *Store) Commits() int64 {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.zxid
}

// WatchSession implements store.Store: the session of a process does not expire.
func (s *Store) WatchSession(func(store.SessionEvent)) (cancel func()) { return func() {} }

// Close waits for the commit under way and closes the file.
func (s *Store) Close() error {
	select {
	case <-s.closing:
	default:
		close(s.closing)
	}
	<-s.done
	return s.db.Close()
}
