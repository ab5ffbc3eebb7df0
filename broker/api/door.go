package api

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// door keeps the requests of clients waiting while the broker does not know its cluster yet: what it said of topics then
// would be wrong ("does not exist"), and a connection that is refused would hide the orders that tell it. The zero door is
// open. Safe for concurrent use.
type door struct {
	shut    atomic.Bool
	mu      sync.Mutex
	waiting []visit // in order of arrival; guarded by mu
	bytes   int     // of the requests that wait; guarded by mu
}

// doorBytes bounds the requests that wait, whose memory no budget counts any more. Whoever comes after has its connection closed,
// as if it had come before the broker listened.
const doorBytes = 64 << 20

// visit is a request at the door.
type visit struct {
	entry   *Entry
	call    *Call
	request kmsg.Request
}

// keeps says whether the request has to wait; then it is taken.
func (d *door) keeps(v visit) bool {
	if !d.shut.Load() || v.entry.BetweenBrokers || v.entry.Key == kmsg.ApiVersions || ofReplica(v.request) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut.Load() {
		return false
	}
	if d.bytes += v.call.size; d.bytes > doorBytes {
		d.bytes -= v.call.size
		v.call.Close("the broker does not know the cluster yet, and too much waits for that")
		return true
	}
	d.waiting = append(d.waiting, v)
	return true
}

// open lets everybody in, who waits first: requests of one connection stay in order.
func (d *door) open(enter func(visit)) {
	for {
		d.mu.Lock()
		batch := d.waiting
		d.waiting, d.bytes = nil, 0
		if len(batch) == 0 {
			d.shut.Store(false)
		}
		d.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, v := range batch {
			enter(v)
		}
	}
}

// ofReplica says whether a request that clients send as well comes from another broker's replica.
func ofReplica(request kmsg.Request) bool {
	switch r := request.(type) {
	case *kmsg.FetchRequest:
		return max(r.ReplicaID, r.ReplicaState.ID) >= 0
	case *kmsg.OffsetForLeaderEpochRequest:
		return r.ReplicaID >= 0
	case *kmsg.ListOffsetsRequest:
		return r.ReplicaID >= 0
	}
	return false
}

// HoldClients keeps what clients ask from now on until ServeClients or TurnAway. Call it before the network starts.
func (s *Services) HoldClients() { s.door.shut.Store(true) }

// ServeClients serves what clients asked meanwhile, and everything from now on.
func (s *Services) ServeClients() {
	s.door.open(func(v visit) {
		s.meter(v.call, v.entry) // the wait is not the client's to pay for
		s.serve(v)
	})
}

// KnowsCluster says whether what the metadata does not know does not exist: not while clients are kept waiting.
func (s *Services) KnowsCluster() bool { return !s.door.shut.Load() }

// TurnAway closes the connections of clients that still wait: a broker stops that never came to know its cluster.
func (s *Services) TurnAway() {
	s.door.open(func(v visit) { v.call.Close("the broker stops before it knows the cluster") })
}
