// Package kmsgfix puts right what the library of Kafka's messages (kmsg) gets wrong. From version 4 on it has StopReplica's
// isKRaftController behind the controller's epoch, where Kafka has it before: a broker that reads an order written so takes the
// epoch for a far newer one, and then refuses the orders of every controller. And it reads strings that are longer than Kafka's.
package kmsgfix

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request returns r, or in its place one that is written and read as Kafka does. What is read is in r.
func Request(r kmsg.Request) kmsg.Request {
	if stop, ok := r.(*kmsg.StopReplicaRequest); ok {
		return stopReplica{stop}
	}
	return r
}

// stopReplica is written and read in the right order.
type stopReplica struct{ *kmsg.StopReplicaRequest }

const (
	fixedVersion = 4 // the first one that is wrong
	flagAt       = 4 // behind controllerId
	flagSize     = 1
	epochSize    = 4
)

// AppendTo implements kmsg.Request.
func (r stopReplica) AppendTo(dst []byte) []byte {
	at := len(dst) + flagAt
	dst = r.StopReplicaRequest.AppendTo(dst)
	if r.Version >= fixedVersion {
		swap(dst[at:at+epochSize+flagSize], epochSize)
	}
	return dst
}

// ReadFrom implements kmsg.Request.
func (r stopReplica) ReadFrom(src []byte) error {
	if r.Version >= fixedVersion && len(src) >= flagAt+flagSize+epochSize {
		src = slices.Clone(src)
		swap(src[flagAt:flagAt+flagSize+epochSize], flagSize)
	}
	return r.StopReplicaRequest.ReadFrom(src)
}

// swap puts what follows the first n bytes before them.
func swap(b []byte, n int) {
	first := slices.Clone(b[:n])
	copy(b[copy(b, b[n:]):], first)
}
