package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	zoo "github.com/go-zookeeper/zk"
	"github.com/gregor-broker/gregor/controller/store"
)

// Commits of one CommitEach share multi-operations of at most so many commits and bytes: a server takes one sync for each.
const (
	groupTxns  = 256
	groupBytes = 256 << 10
)

// txn is a commit in the library's terms.
type txn struct {
	of    store.Txn
	ops   []any
	bytes int // of ops on the wire
	out   *store.Outcome
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	out := s.CommitEach(ctx, []store.Txn{ops})
	return out[0].Results, out[0].Err
}

// CommitEach implements store.Store. Commits go in groups, each group one multi-operation, one group after the other. Where a
// group fails by a rule of the tree, none of it has happened: then its commits go one by one, many in flight, and the next
// groups are smaller.
func (s *Store) CommitEach(ctx context.Context, txns []store.Txn) []store.Outcome {
	outcomes := make([]store.Outcome, len(txns))
	in, err := s.present()
	if err == nil && !store.Belongs(ctx, in.id()) {
		err = store.ErrSessionExpired
	}
	if err != nil {
		for i := range outcomes {
			outcomes[i].Err = err
		}
		return outcomes
	}
	list := s.translate(txns, outcomes)
	size := groupTxns
	for len(list) > 0 {
		group := list[:s.fit(list, size)]
		if len(group) == 1 {
			group = list[:s.fit(list, groupTxns)]
			if s.oneByOne(ctx, in, group) {
				size *= 4
			}
		} else if s.together(ctx, in, group) {
			size *= 4
		} else {
			size /= 4
			s.oneByOne(ctx, in, group)
		}
		size = max(1, min(size, groupTxns))
		list = list[len(group):]
	}
	return outcomes
}

// fit returns how many of list, one at least, make a group of at most size commits.
func (s *Store) fit(list []*txn, size int) int {
	most := min(groupBytes, s.o.MaxPacketBytes-multiBytes)
	n, bytes := 0, 0
	for n < min(len(list), size) && (n == 0 || bytes+list[n].bytes <= most) {
		bytes += list[n].bytes
		n++
	}
	return n
}

// translate makes requests of what can be sent; the others get their outcome.
func (s *Store) translate(txns []store.Txn, outcomes []store.Outcome) []*txn {
	list := make([]*txn, 0, len(txns))
	for i, ops := range txns {
		t := &txn{of: ops, ops: make([]any, len(ops)), out: &outcomes[i]}
		err := s.translateOne(t)
		switch {
		case err != nil:
			t.out.Err = err
		case len(ops) == 0:
			t.out.Results = []store.Result{}
		default:
			list = append(list, t)
		}
	}
	return list
}

func (s *Store) translateOne(t *txn) error {
	for i, op := range t.of {
		if !store.ValidPath(op.Path) {
			return &store.OpError{Index: i, Op: op, Err: fmt.Errorf("%q is no path of a node", op.Path)}
		}
		t.ops[i] = s.request(op)
		t.bytes += wireBytes(t.ops[i])
	}
	if most := s.o.MaxPacketBytes - multiBytes; t.bytes > most {
		return fmt.Errorf("%w: %d bytes, ZooKeeper takes %d (the servers' jute.maxbuffer)", store.ErrTooLarge, t.bytes, most)
	}
	return nil
}

// request puts an op into the library's terms. Data is copied, because the library may encode it after the caller has gone.
func (s *Store) request(op store.Op) any {
	path := s.at(op.Path)
	var data []byte
	if op.Data != nil {
		data = append([]byte{}, op.Data...)
	}
	switch op.Kind {
	case store.OpSet:
		return &zoo.SetDataRequest{Path: path, Data: data, Version: op.Version}
	case store.OpDelete:
		return &zoo.DeleteRequest{Path: path, Version: op.Version}
	case store.OpCheck:
		return &zoo.CheckVersionRequest{Path: path, Version: op.Version}
	}
	flags := map[store.Mode]int32{store.Ephemeral: zoo.FlagEphemeral, store.Sequential: zoo.FlagSequence}[op.Mode]
	return &zoo.CreateRequest{Path: path, Data: data, Acl: acl(s.o.SetACL, op.Path), Flags: flags}
}

// Sizes on the wire, in bytes: of a multi-operation's request header and end, and of each op's header.
const (
	multiBytes  = 8 + headerBytes
	headerBytes = 9
)

// wireBytes returns what an op takes of a multi-operation.
func wireBytes(op any) int {
	switch r := op.(type) {
	case *zoo.CreateRequest:
		n := headerBytes + 4 + len(r.Path) + 4 + len(r.Data) + 4 + 4
		for _, a := range r.Acl {
			n += 4 + 4 + len(a.Scheme) + 4 + len(a.ID)
		}
		return n
	case *zoo.SetDataRequest:
		return headerBytes + 4 + len(r.Path) + 4 + len(r.Data) + 4
	case *zoo.DeleteRequest:
		return headerBytes + 4 + len(r.Path) + 4
	case *zoo.CheckVersionRequest:
		return headerBytes + 4 + len(r.Path) + 4
	}
	panic(fmt.Sprintf("zk: an op of type %T", op))
}

// reply is the answer to a multi-operation.
type reply struct {
	ops []zoo.MultiResponse
	err error
}

// multi sends ops as one multi-operation; the reply is there when answer is.
func multi(ctx context.Context, in *session, ops []any) (r *reply, answer <-chan error, err error) {
	r = &reply{}
	answer, err = in.begin(ctx, func(c *zoo.Conn) error {
		r.ops, r.err = c.Multi(ops...)
		return r.err
	})
	return r, answer, err
}

// wait returns what became of a multi-operation of n ops. A failure by a rule names the op.
func (r *reply) wait(ctx context.Context, answer <-chan error, n int) (results []zoo.MultiResponse, failed int, err error) {
	select {
	case <-answer:
	case <-ctx.Done():
		return nil, -1, fmt.Errorf("%w (%w)", store.ErrUnknown, ctx.Err())
	}
	if len(r.ops) == n {
		for i, op := range r.ops {
			switch {
			case op.Error == nil:
			case errors.Is(op.Error, zoo.ErrSessionExpired):
				return nil, -1, store.ErrSessionExpired
			case errors.Is(op.Error, zoo.ErrSessionMoved):
				return nil, -1, fmt.Errorf("%w (%w)", store.ErrUnknown, op.Error)
			default:
				return nil, i, reason(op.Error)
			}
		}
		if r.err == nil {
			return r.ops, -1, nil
		}
	}
	switch {
	case r.err == nil:
		return nil, -1, fmt.Errorf("%w (a reply with %d results for %d ops)", store.ErrUnknown, len(r.ops), n)
	case errors.Is(r.err, zoo.ErrSessionExpired):
		return nil, -1, store.ErrSessionExpired
	}
	return nil, -1, fmt.Errorf("%w (%w)", store.ErrUnknown, r.err)
}

// unsent is the outcome of a request that begin returned err for.
func unsent(err error) error {
	if errors.Is(err, errAbandoned) {
		return fmt.Errorf("%w (%w)", store.ErrUnknown, err)
	}
	return err
}

// together commits a group as one multi-operation. It returns false if the group failed by a rule: then nothing has happened,
// and no outcome is set.
func (s *Store) together(ctx context.Context, in *session, group []*txn) bool {
	var ops []any
	for _, t := range group {
		ops = append(ops, t.ops...)
	}
	r, answer, err := multi(ctx, in, ops)
	if err = unsent(err); err == nil {
		var failed int
		var results []zoo.MultiResponse
		if results, failed, err = r.wait(ctx, answer, len(ops)); failed >= 0 {
			return false
		}
		if err == nil {
			for _, t := range group {
				t.out.Results = s.results(t, results[:len(t.ops)])
				results = results[len(t.ops):]
			}
			return true
		}
	}
	for _, t := range group {
		t.out.Err = err
	}
	return true
}

// oneByOne commits each by a multi-operation of its own, and reports whether all succeeded.
func (s *Store) oneByOne(ctx context.Context, in *session, group []*txn) (all bool) {
	replies := make([]*reply, len(group))
	answers := make([]<-chan error, len(group))
	for i, t := range group {
		var err error
		if replies[i], answers[i], err = multi(ctx, in, t.ops); err != nil {
			t.out.Err = unsent(err)
		}
	}
	all = true
	for i, t := range group {
		if t.out.Err == nil {
			results, failed, err := replies[i].wait(ctx, answers[i], len(t.ops))
			switch {
			case failed >= 0:
				t.out.Err = &store.OpError{Index: failed, Op: t.of[failed], Err: err}
			case err != nil:
				t.out.Err = err
			default:
				t.out.Results = s.results(t, results)
			}
		}
		all = all && t.out.Err == nil
	}
	return all
}

// results puts a multi-operation's results into the store's terms.
func (s *Store) results(t *txn, answers []zoo.MultiResponse) []store.Result {
	results := make([]store.Result, len(answers))
	for i, a := range answers {
		switch {
		case t.of[i].Kind == store.OpCreate:
			results[i].Path = strings.TrimPrefix(a.String, s.root)
		case t.of[i].Kind == store.OpSet && a.Stat != nil:
			results[i].Stat = stat(a.Stat)
		}
	}
	return results
}
