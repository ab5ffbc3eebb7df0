// Package groups kills the coordinator while groups of real members are in each of their states, and looks afterwards whether
// anything that was promised is broken: nobody uses a partition that another uses, committed offsets never go back, and every group
// comes to rest with all of its members.
package groups

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// gate holds up whoever comes to it until it is opened.
type gate struct {
	arrived, open chan struct{}
	first, last   sync.Once
}

// gate returns one that a member of the group will come to. It is open when the test is over.
func (g *group) gate() *gate {
	x := &gate{arrived: make(chan struct{}), open: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.gates = append(g.mu.gates, x)
	return x
}

func (g *group) openGates() {
	g.mu.Lock()
	gates := g.mu.gates
	g.mu.Unlock()
	for _, x := range gates {
		x.release()
	}
}

// pass waits for release.
func (g *gate) pass() {
	g.first.Do(func() { close(g.arrived) })
	<-g.open
}

// await waits until somebody is there.
func (g *gate) await(t testing.TB) {
	t.Helper()
	select {
	case <-g.arrived:
	case <-harness.Context(t, limit).Done():
		t.Fatal("nobody has come to the gate")
	}
}

func (g *gate) release() { g.last.Do(func() { close(g.open) }) }

// member is a process in a group: it reads, and commits what it has read.
type member struct {
	client *kgo.Client
	group  *group
	revoke *gate // before it gives partitions up; nil: none
	cancel context.CancelFunc
	ended  chan struct{}
	once   sync.Once
}

// What members may speak: the classic protocol, giving everything up for a rebalance or only what goes to others, and the consumer
// protocol.
func eager() []kgo.Opt       { return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())} }
func cooperative() []kgo.Opt { return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())} }

func modern() []kgo.Opt {
	return []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
}

// join starts a member of the group, which ends with the test.
func (g *group) join(t testing.TB, revoke *gate, options ...kgo.Opt) *member {
	t.Helper()
	m := &member{group: g, revoke: revoke, ended: make(chan struct{})}
	options = append([]kgo.Opt{
		harness.RetryEOF(), kgo.SeedBrokers(g.seeds...), kgo.ConsumerGroup(g.id), kgo.ConsumeTopics(g.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.SessionTimeout(20 * time.Second), kgo.RebalanceTimeout(40 * time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { g.take(m, p[g.topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.giveUp(p[g.topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { g.release(m, p[g.topic]) }),
	}, options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	m.client = client
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go m.run(ctx)
	t.Cleanup(func() {
		g.openGates()
		m.leave()
	})
	return m
}

// leave makes the process end in order. A static member keeps its place.
func (m *member) leave() {
	m.once.Do(func() {
		m.cancel()
		<-m.ended
		m.client.Close()
		m.group.forget(m)
	})
}

func (m *member) giveUp(partitions []int32) {
	if m.revoke != nil && len(partitions) > 0 {
		m.revoke.pass()
	}
	m.group.release(m, partitions)
}

func (m *member) run(ctx context.Context) {
	defer close(m.ended)
	for ctx.Err() == nil {
		m.client.PollFetches(ctx)
		m.commit(ctx)
	}
}

func (m *member) commit(ctx context.Context) {
	read := m.client.UncommittedOffsets()
	if len(read) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m.client.CommitOffsetsSync(limited, read, func(_ *kgo.Client, r *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			m.group.acknowledge(r, resp)
		}
	})
}

// slowLeader is a balancer that stands still before it assigns for the n-th time.
type slowLeader struct {
	kgo.GroupBalancer
	gate *gate
	nth  int
	mu   sync.Mutex
}

func (b *slowLeader) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	inner, topics, err := b.GroupBalancer.MemberBalancer(members)
	if err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	b.nth--
	now := b.nth == 0
	b.mu.Unlock()
	if now {
		b.gate.pass()
	}
	return inner, topics, nil
}
