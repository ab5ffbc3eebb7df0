package controller

import (
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Event is something that happened. IDs are those of the actions that asked for it.
type Event interface{ event() }

// Begin is the first event. Session is the store's.
type Begin struct{ Session int64 }

// SessionChanged says that the store's session ended or that a new one began.
type SessionChanged struct{ store.SessionEvent }

// Changed says that a watched node may have changed.
type Changed struct {
	Path string
	Kind store.Kind
}

// ReadDone is the result of a Read.
type ReadDone struct {
	ID    uint64
	Nodes []store.Node
	Err   error
}

// CommitDone is the result of a Commit.
type CommitDone struct {
	ID       uint64
	Outcomes []store.Outcome
}

// SendDone is a broker's answer. Err means that the order was given up because the broker or the reign is gone.
type SendDone struct {
	ID       uint64
	Response kmsg.Response
	Err      error
}

// Forwarded is the active controller's answer.
type Forwarded struct {
	ID       uint64
	Response kmsg.Response
	Err      error
}

// Fired says that the time of an After is over.
type Fired struct{ ID uint64 }

// Request is an administrative request from this broker; see the methods of Controller for what each does.
type Request struct{ run func(*Machine) }

func (Begin) event()          {}
func (SessionChanged) event() {}
func (Changed) event()        {}
func (ReadDone) event()       {}
func (CommitDone) event()     {}
func (SendDone) event()       {}
func (Forwarded) event()      {}
func (Fired) event()          {}
func (Request) event()        {}

// Action is something to be done. Actions of a turn are begun in order; reads, commits, and sends to different brokers then
// run side by side.
type Action interface{ action() }

// Read asks the store.
type Read struct {
	ID   uint64
	Reqs []store.Req
}

// Commit is any number of commits that do not depend on each other, decided in a session: in a later one they are to fail
// (store.Within). Session 0: whichever there is.
type Commit struct {
	ID      uint64
	Session int64
	Txns    []store.Txn
}

// Send gives an order, or a question, to a broker, after the ones before it have been answered.
type Send struct {
	ID      uint64
	Broker  int32
	Request kmsg.Request
}

// Forward sends a request to the active controller, another broker.
type Forward struct {
	ID      uint64
	Request kmsg.Request
}

// Drop ends a broker's queue of orders: it is gone. Each order in it ends with an error.
type Drop struct{ Broker int32 }

// After asks for a Fired event.
type After struct {
	ID    uint64
	Delay time.Duration
}

// Cancel takes back an After.
type Cancel struct{ ID uint64 }

// Watch asks for Changed events, until Unwatch.
type Watch struct {
	Path string
	Kind store.Kind
}

// Unwatch ends a Watch.
type Unwatch struct {
	Path string
	Kind store.Kind
}

// Answer completes a request: whoever drives the machine calls Reply.
type Answer struct {
	Response any
	reply    func()
}

// Reply hands the response to whoever asked.
func (a Answer) Reply() { a.reply() }

// NotifyConfig is for the Observer. Values nil: gone.
type NotifyConfig struct {
	Kind, Name string
	Values     map[string]string
}

// NotifyController is for the Observer: the active controller is ID, -1 none.
type NotifyController struct{ ID int32 }

// NotifyFeatures says which features are in force.
type NotifyFeatures struct{ Finalised *Finalised }

// Registered says that the broker has an epoch, -1 that it has lost it.
type Registered struct{ Epoch int64 }

// Ready says that the broker has its place: another controller is active, or this one has carried out its first orders.
type Ready struct{}

// Failed says that the broker cannot start, and why.
type Failed struct{ Err error }

func (Read) action()             {}
func (Commit) action()           {}
func (Send) action()             {}
func (Forward) action()          {}
func (Drop) action()             {}
func (After) action()            {}
func (Cancel) action()           {}
func (Watch) action()            {}
func (Unwatch) action()          {}
func (Answer) action()           {}
func (NotifyConfig) action()     {}
func (NotifyController) action() {}
func (NotifyFeatures) action()   {}
func (Registered) action()       {}
func (Ready) action()            {}
func (Failed) action()           {}
