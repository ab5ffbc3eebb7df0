package txn

import (
	"context"
	"math"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
)

// Coordinator answers the requests of transactional producers. Safe for concurrent use. No method blocks; every reply is called
// exactly once, on any goroutine, and must not block either.
type Coordinator struct {
	o       Options
	runtime *runtime.Runtime
	sender  *sender
}

// New returns a Coordinator that leads no partition yet.
func New(o Options) *Coordinator {
	c := &Coordinator{o: o}
	c.sender = newSender(&c.o, c.markersVersion, func(l *life, ev *marked) { c.runtime.Tell(l.partition, ev) })
	c.runtime = runtime.New(runtime.Options{
		Log: o.Log, Clock: o.Clock, Logger: o.Logger, Patience: o.Config.RequestTimeout, Waiting: o.Waiting,
		Machine: func(p int32) runtime.Machine {
			return newMachine(&c.o, p, c.sender, func(ev runtime.Event) { c.runtime.Submit(p, ev) })
		},
	})
	return c
}

// markersVersion is in which version markers are sent: 3.9 does not know the one that tells the protocol.
func (c *Coordinator) markersVersion() int16 {
	if c.o.Config.Kafka4 {
		return 2
	}
	return 1
}

// Close unloads all partitions; who still waits is told NOT_COORDINATOR.
func (c *Coordinator) Close(ctx context.Context) error {
	err := c.runtime.Close(ctx)
	c.sender.close()
	return err
}

// MarkersWaiting is how many partitions' markers wait because nobody leads the partition, or its leader has refused them.
func (c *Coordinator) MarkersWaiting() int { return int(c.sender.held.Load()) }

// Elected starts to load a partition of __transaction_state that this broker leads from leaderEpoch on.
func (c *Coordinator) Elected(partition, leaderEpoch int32) {
	c.runtime.Elected(partition, leaderEpoch)
}

// Resigned unloads a partition that this broker no longer leads as of leaderEpoch.
func (c *Coordinator) Resigned(partition, leaderEpoch int32) {
	c.runtime.Resigned(partition, leaderEpoch)
}

// PartitionFor returns the partition of __transaction_state that a transactional id belongs to, -1 while the topic does not exist.
func (c *Coordinator) PartitionFor(id string) int32 {
	n := c.o.Partitions()
	if n <= 0 {
		return -1
	}
	return runtime.PartitionFor(id, n)
}

// longestID is in bytes: what the key of a record can hold.
const longestID = math.MaxInt16

// submit hands ev to the shard of a transactional id.
func (c *Coordinator) submit(id string, ev runtime.Event) {
	if len(id) > longestID {
		ev.Refuse(errTransactionalID)
		return
	}
	p := c.PartitionFor(id)
	if p < 0 {
		ev.Refuse(runtime.ErrUnavailable)
		return
	}
	c.runtime.Submit(p, ev)
}
