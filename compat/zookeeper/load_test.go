package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/zk"
)

// TestTenThousandNodes counts what 10,000 partitions cost: commits that succeed share requests, commits that fail and reads are in
// flight together, and never more than allowed.
func TestTenThousandNodes(t *testing.T) {
	noLeaks(t)
	const partitions, inFlight = 10_000, 10
	p := newProxy(t, ensemble(t).Addr)
	s := open(t, p.addr, newRoot(), func(o *zk.Options) { o.MaxInFlight = inFlight })
	commit(t, s, store.Create("/epoch", nil, store.Persistent), store.Create("/p", nil, store.Persistent))
	txns := make([]store.Txn, partitions)
	reqs := make([]store.Req, partitions)
	for i := range txns {
		reqs[i].Path = fmt.Sprintf("/p/%d", i)
		txns[i] = store.Txn{store.Check("/epoch", 0), store.Create(reqs[i].Path, fmt.Appendf(nil, "%0100d", i), store.Persistent)}
	}
	p.count(opMulti)
	for i, out := range s.CommitEach(context.Background(), txns) {
		if out.Err != nil || out.Results[1].Path != reqs[i].Path {
			t.Fatalf("commit %d: %+v", i, out)
		}
	}
	if n, most := p.count(opMulti); n > partitions/100 || most != 1 {
		t.Errorf("%d requests, %d in flight, for %d commits", n, most, partitions)
	}
	nodes, err := s.Read(context.Background(), reqs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if !n.Exists || string(n.Data) != fmt.Sprintf("%0100d", i) {
			t.Fatalf("node %d: %+v", i, n)
		}
	}
	if n, most := p.count(opGetData); n != partitions || most != inFlight {
		t.Errorf("%d requests, %d in flight, for %d reads", n, most, partitions)
	}
	const again = 2000
	for i, out := range s.CommitEach(context.Background(), txns[:again]) {
		if !errors.Is(out.Err, store.ErrExists) || store.FailedOp(out.Err) != 1 {
			t.Fatalf("commit %d again: %+v", i, out)
		}
	}
	if n, most := p.count(opMulti); n > again+10 || most != inFlight {
		t.Errorf("%d requests, %d in flight, for %d commits that fail", n, most, again)
	}
}

// TestPacketLimit goes to the server's limit, to the byte.
func TestPacketLimit(t *testing.T) {
	noLeaks(t)
	s := open(t, ensemble(t).Addr, newRoot())
	old := s.Session()
	fits := func(bytes int) error {
		_, err := s.Commit(context.Background(), store.Create("/big", make([]byte, bytes), store.Persistent), store.Delete("/big", 0))
		return err
	}
	const least, span = 1<<20 - 400, 400
	over := sort.Search(span, func(i int) bool { return fits(least+i) != nil })
	if err := fits(least + over); over == span || err == nil || !strings.Contains(err.Error(), "jute.maxbuffer") || s.Session() != old {
		t.Errorf("%d bytes of data: %v, sessions %d and %d", least+over, err, old, s.Session())
	}
	if err := fits(least + over - 1); err != nil {
		t.Errorf("%d bytes of data: %v", least+over-1, err)
	}
	var txns []store.Txn
	for i := range 400 {
		txns = append(txns, store.Txn{store.Create(fmt.Sprintf("/%d", i), make([]byte, 8<<10), store.Persistent)})
	}
	for i, out := range s.CommitEach(context.Background(), txns) {
		if out.Err != nil {
			t.Fatalf("commit %d: %v", i, out.Err)
		}
	}
}
