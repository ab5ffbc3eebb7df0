package groupcoord

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
)

// Coordinator answers the requests of consumer groups. Safe for concurrent use. No method blocks; every reply is called
// exactly once, on any goroutine, and must not block either. Requests may be kept until then, but the bytes that they point to
// (of the frame they were read from) are not looked at after the method has returned.
type Coordinator struct {
	o       Options
	runtime *runtime.Runtime
	checks  worker // of regular expressions, whether they can be read
	matches worker // of regular expressions with the names of topics
}

// New returns a Coordinator that leads no partition yet.
func New(o Options) *Coordinator {
	c := &Coordinator{o: o}
	c.runtime = runtime.New(runtime.Options{
		Log: o.Log, Clock: o.Clock, Logger: o.Logger, Codec: o.Config.OffsetsTopicCodec, Patience: o.Config.OffsetsCommitTimeout,
		Waiting: o.Waiting,
		Machine: func(p int32) runtime.Machine { return c.machine(p) },
	})
	return c
}

// machine makes an empty machine for a partition.
func (c *Coordinator) machine(p int32) *machine {
	m := newMachine(&c.o, c.o.Logger.With(zap.Int32("partition", p)), newUUID)
	m.elsewhere = func(job resolution) {
		c.matches.do(func(stop func() bool) {
			deadline := c.o.Clock.Monotonic() + maxResolution
			ev := resolved{job(func() bool { return stop() || c.o.Clock.Monotonic() > deadline })}
			c.runtime.Tell(p, ev)
		})
	}
	return m
}

// Close unloads all partitions; who still waits is told NOT_COORDINATOR.
func (c *Coordinator) Close(ctx context.Context) error {
	return errors.Join(c.checks.close(ctx), c.matches.close(ctx), c.runtime.Close(ctx))
}

// Elected starts to load a partition of __consumer_offsets that this broker leads from leaderEpoch on.
func (c *Coordinator) Elected(partition, leaderEpoch int32) {
	c.runtime.Elected(partition, leaderEpoch)
}

// Resigned unloads a partition that this broker no longer leads as of leaderEpoch.
func (c *Coordinator) Resigned(partition, leaderEpoch int32) {
	c.runtime.Resigned(partition, leaderEpoch)
}

// TopicsDeleted makes all groups forget their offsets of topics that were deleted.
func (c *Coordinator) TopicsDeleted(topics []string) {
	c.runtime.Notify(func() runtime.Event { return &topicsDeleted{topics} })
}

// topicsDeleted is the event of TopicsDeleted.
type topicsDeleted struct{ topics []string }

// Refuse does nothing: whoever leads the partition hears of the deletion too.
func (*topicsDeleted) Refuse(error) {}

// PartitionFor returns the partition of __consumer_offsets that a group belongs to, -1 while the topic does not exist.
func (c *Coordinator) PartitionFor(group string) int32 {
	n := c.o.Partitions()
	if n <= 0 {
		return -1
	}
	return runtime.PartitionFor(group, n)
}

// submit hands ev to the shard of a group.
func (c *Coordinator) submit(group string, ev runtime.Event) {
	p := c.PartitionFor(group)
	if p < 0 {
		ev.Refuse(runtime.ErrNotCoordinator)
		return
	}
	c.runtime.Submit(p, ev)
}

// newUUID returns a random UUID, version 4, as Java prints it.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var s [36]byte
	hex.Encode(s[:8], b[:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:], b[10:])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

// newShortID returns a random id as Kafka's Uuid prints it: 22 characters, the first not a dash.
func newShortID() string {
	for {
		var b [16]byte
		rand.Read(b[:])
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		if s := base64.RawURLEncoding.EncodeToString(b[:]); s[0] != '-' {
			return s
		}
	}
}
