package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/wire/clock"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func opened(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestPassesTheSuite(t *testing.T) {
	storetest.Suite(t, func(t *testing.T) storetest.Harness {
		path := filepath.Join(t.TempDir(), "metadata")
		s := opened(t, path)
		return storetest.Harness{Store: s, Reopen: func() store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return opened(t, path)
		}}
	})
}

// copyOf is what a crash would leave: the file as it is now, without closing the store.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(path + ".crash")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	return to.Name()
}

func TestCommittedNodesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata")
	s := opened(t, path)
	ctx := context.Background()
	for i := range 20 {
		ops := []store.Op{store.Create(fmt.Sprintf("/n%d", i), []byte{byte(i)}, store.Persistent)}
		if i == 10 {
			ops = append(ops, store.Create("/ephemeral", nil, store.Ephemeral))
		}
		if _, err := s.Commit(ctx, ops...); err != nil {
			t.Fatal(err)
		}
	}
	s = opened(t, copyOf(t, path))
	nodes, err := s.Read(ctx, store.Req{Path: "/", Kind: store.Children}, store.Req{Path: "/ephemeral"}, store.Req{Path: "/n19"})
	if err != nil || len(nodes[0].Children) != 20 || nodes[1].Exists || nodes[2].Data[0] != 19 {
		t.Errorf("after a crash: %+v, %v", nodes, err)
	}
}

func TestConcurrentCommitsShareSyncs(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "metadata"))
	before, first := s.db.Stats(), transaction(t, s)
	const callers = 64
	var wg sync.WaitGroup
	commit := func(i int) {
		wg.Go(func() {
			if _, err := s.Commit(context.Background(), store.Create(fmt.Sprintf("/%d", i), nil, store.Persistent)); err != nil {
				t.Error(err)
			}
		})
	}
	s.state.RLock() // holds the first commit, so that the others queue up behind it
	commit(0)
	for s.state.TryRLock() { // it does not wait for us yet, and may still take others along
		s.state.RUnlock()
		runtime.Gosched()
	}
	for i := range callers - 1 {
		commit(i + 1)
	}
	for len(s.queue) < callers-1 {
		runtime.Gosched()
	}
	s.state.RUnlock()
	wg.Wait()
	after := s.db.Stats()
	if n := after.TxStats.GetWrite() - before.TxStats.GetWrite(); n > callers*3 {
		t.Errorf("%d pages written by %d concurrent commits", n, callers)
	}
	if n := transaction(t, s) - first; n != 2 {
		t.Errorf("%d transactions for %d concurrent commits, want one for the first and one for all that came meanwhile", n, callers)
	}
}

// transaction is the number of the last transaction.
func transaction(t *testing.T, s *Store) int {
	t.Helper()
	tx, err := s.db.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	return tx.ID()
}

func TestEphemeralCommitsNeedNoSync(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "metadata"))
	before := transaction(t, s)
	if _, err := s.Commit(context.Background(), store.Create("/e", nil, store.Ephemeral), store.Set("/e", []byte("x"), 0)); err != nil {
		t.Fatal(err)
	}
	if after := transaction(t, s); after != before {
		t.Errorf("transaction %d after %d", after, before)
	}
}

func TestOpenRefusesInWords(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer")
	s := opened(t, newer)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(formatKey, binary.BigEndian.AppendUint64(nil, format+1))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(dir, "used")
	opened(t, used)
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("garbage ", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, words := range map[string]string{
		newer:                                 "newer version; upgrade",
		used:                                  "another process uses it",
		garbage:                               "damaged or no metadata file",
		filepath.Join(dir, "no", "directory"): "no such file or directory",
	} {
		s, err := Open(path, Options{Clock: clock.System})
		if err == nil {
			s.Close()
			t.Errorf("opened %s", path)
		} else if !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", path, err, words)
		}
	}
}

func BenchmarkCreate10000(b *testing.B) {
	for b.Loop() {
		s := opened(b, filepath.Join(b.TempDir(), "metadata"))
		var txns []store.Txn
		s.Commit(context.Background(), store.Create("/p", nil, store.Persistent))
		for i := range 10000 {
			p := fmt.Sprintf("/p/%d", i)
			txns = append(txns, store.Txn{store.Check("/p", 0), store.Create(p, nil, store.Persistent),
				store.Create(p+"/state", make([]byte, 70), store.Persistent)})
		}
		s.CommitEach(context.Background(), txns)
		reqs := make([]store.Req, 10000)
		for i := range reqs {
			reqs[i].Path = fmt.Sprintf("/p/%d/state", i)
		}
		nodes, _ := s.Read(context.Background(), reqs...)
		if !nodes[9999].Exists {
			b.Fatal("missing")
		}
	}
}
