// Package store is what the controller knows of the place where metadata lives: a small tree of versioned nodes in
// ZooKeeper's shape, so that ZooKeeper is one implementation and an embedded file another. One conformance suite
// (store/storetest) runs on all of them.
//
// Paths are absolute, "/a/b", without a trailing slash; the root "/" exists and cannot be written. A node has data, a
// version that counts its Sets from 0, and children. Ephemeral nodes have no children and live as long as the session
// that created them.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// The reasons why an operation can fail. Errors of a store wrap one of them, or something unexpected.
var (
	ErrVersion        = errors.New("the node has another version")
	ErrExists         = errors.New("the node exists already")
	ErrNoNode         = errors.New("the node does not exist")
	ErrNotEmpty       = errors.New("the node has children")
	ErrEphemeral      = errors.New("an ephemeral node cannot have children")
	ErrUnknown        = errors.New("the reply was lost: the commit may have happened or not")
	ErrSessionExpired = errors.New("the session has expired, nothing was changed")
	ErrClosed         = errors.New("the store is closed")

	// ErrTooLarge is answered to clients, who alone can make a commit that large: nothing was sent.
	ErrTooLarge = errcode.New(kerr.PolicyViolation, "this is more than the store takes in one change")
)

// AnyVersion in a Set, Delete or Check matches every version of a node that exists.
const AnyVersion int32 = -1

// Store is a client of the tree with a session of its own. It is safe for concurrent use.
//
// A connection that breaks and comes back within the session is the implementation's affair, except that the outcome of a
// commit may have got lost on the way (ErrUnknown): the caller then reads back what is there. When the session expires the
// implementation opens a new one by itself and says so to those who watch it.
type Store interface {
	// Read answers every request, in the order asked. A missing node is no error: its Exists is false. The answers are not
	// one snapshot. An error concerns the whole call. The caller owns what it gets.
	Read(ctx context.Context, reqs ...Req) ([]Node, error)

	// Commit applies all ops or none, in order, each seeing the ones before it. A failure by a rule of the tree is an
	// *OpError that names the op. ErrUnknown: all or none were applied, and nobody can say which. See Within for the session.
	Commit(ctx context.Context, ops ...Op) ([]Result, error)

	// CommitEach applies commits that have nothing to do with each other, each as Commit does, and reports one outcome each.
	// It is how thousands of commits cost few round trips or few syncs. They are applied in order, but a failed one does not
	// keep the later ones from happening. The call returns when all have an outcome.
	CommitEach(ctx context.Context, txns []Txn) []Outcome

	// Watch calls notify whenever what kind says of path may have changed: one call may stand for many changes, and there may
	// be calls without a change (after a reconnect, for instance), but a change after Watch returned is never missed. The node
	// need not exist. notify must not block and must not call the store; it may still be called once after cancel.
	Watch(path string, kind Kind, notify func()) (cancel func())

	// Session returns the id of the present session, the EphemeralOwner of the nodes it creates.
	Session() int64

	// WatchSession calls notify for every end and start of a session, in order, under the rules of Watch.
	WatchSession(notify func(SessionEvent)) (cancel func())

	// Close ends the session: its ephemeral nodes vanish.
	Close() error
}

type sessionKey struct{}

// Within returns a context for commits that were decided in a session and shall not slip into the next one: there they fail
// with ErrSessionExpired. Session 0 means any.
func Within(ctx context.Context, session int64) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

// Belongs says whether a commit with this context may be made in a session. It is for implementations.
func Belongs(ctx context.Context, session int64) bool {
	wanted, _ := ctx.Value(sessionKey{}).(int64)
	return wanted == 0 || wanted == session
}

// Kind is what a read asks for and what a watch looks at.
type Kind int8

const (
	Data     Kind = iota // the node itself: created, deleted, set
	Children             // the list of its children
)

// Req asks for a node. Data reads data and stat, Children the names of the children and the stat.
type Req struct {
	Path string
	Kind Kind
}

// Node is the answer to a Req. Data is nil for a node without data and for Kind Children.
type Node struct {
	Path     string
	Exists   bool
	Data     []byte
	Stat     Stat
	Children []string // names without the path, in no promised order
}

// Stat is what the tree keeps about a node.
type Stat struct {
	Czxid          int64 // of the commit that created the node; rises from commit to commit
	Mzxid          int64 // of the commit that set it last
	CtimeMs        int64 // when it was created, wall clock of the store
	MtimeMs        int64
	Version        int32 // number of Sets
	EphemeralOwner int64 // session, 0 for persistent nodes
}

// Mode is the kind of node that a Create makes.
type Mode int8

const (
	Persistent Mode = iota
	Ephemeral
	Sequential // persistent, with ten digits appended to the name that rise among the siblings; gaps are possible
)

// OpKind is what an Op does.
type OpKind int8

const (
	OpCreate OpKind = iota
	OpSet
	OpDelete
	OpCheck
)

// Op is one step of a commit; make it with Create, Set, Delete or Check. The store does not keep Data.
type Op struct {
	Kind    OpKind
	Path    string
	Data    []byte
	Version int32
	Mode    Mode
}

// Create makes a node whose parent exists.
func Create(path string, data []byte, mode Mode) Op {
	return Op{Kind: OpCreate, Path: path, Data: data, Mode: mode}
}

// Set replaces a node's data if it has the version.
func Set(path string, data []byte, version int32) Op {
	return Op{Kind: OpSet, Path: path, Data: data, Version: version}
}

// Delete removes a node without children if it has the version.
func Delete(path string, version int32) Op { return Op{Kind: OpDelete, Path: path, Version: version} }

// Check demands that a node has the version.
func Check(path string, version int32) Op { return Op{Kind: OpCheck, Path: path, Version: version} }

// Result is what an op of a successful commit did. Path is that of a created node, with its number if it is sequential.
// Stat is the node's after a Set and zero after everything else: ZooKeeper's multi-operation says no more. Who needs the Stat
// of a node it creates adds a Set to the commit.
type Result struct {
	Path string
	Stat Stat
}

// Txn is a commit of CommitEach.
type Txn []Op

// Outcome is what became of a Txn: Results as from Commit, or Err.
type Outcome struct {
	Results []Result
	Err     error
}

// SessionEvent says that the session ID has ended (Lost: its ephemeral nodes are gone or will be) or begun.
type SessionEvent struct {
	ID   int64
	Lost bool
}

// OpError is the failure of one op, and so of its whole commit. It wraps one of the errors above.
type OpError struct {
	Index int // in the commit
	Op    Op
	Err   error
}

func (e *OpError) Error() string {
	return fmt.Sprintf("%s %s: %v", [...]string{"create", "set", "delete", "check"}[e.Op.Kind], e.Op.Path, e.Err)
}

// Unwrap returns the reason.
func (e *OpError) Unwrap() error { return e.Err }

// FailedOp returns the index of the op that made err, or -1.
func FailedOp(err error) int {
	var op *OpError
	if errors.As(err, &op) {
		return op.Index
	}
	return -1
}

// ValidPath reports whether path is one that a store accepts for a node other than the root: at most 1,024 bytes and 32 names.
func ValidPath(path string) bool {
	if len(path) < 2 || len(path) > 1024 || strings.Count(path, "/") > 32 || path[0] != '/' || path[len(path)-1] == '/' || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}

// Parent returns the path of a node's parent, "/" for one directly below the root.
func Parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}
