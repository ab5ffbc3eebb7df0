package replica

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/wire/clock"
)

// proposeAgain is after what time a proposal is sent again that failed for no reason of its own
// (AlterPartitionManager).
const proposeAgain = 50 * time.Millisecond

// proposal is an ISR on its way to the controller.
type proposal struct {
	insync.Proposal
	partition *Partition
	number    int64
}

// fetchedBy takes note of a follower's fetch: the high watermark may move, and the follower may join the ISR. Most often
// neither can happen, as a member asks for more of a partition that has none.
func (p *Partition) fetchedBy(id, epoch int32, x *insync.Fetch) error {
	p.mu.Lock()
	r := p.role.Load()
	if !r.leads || epoch >= 0 && epoch != r.leaderEpoch {
		p.mu.Unlock()
		return ErrNotLeader
	}
	known, moved := p.mu.leader.Fetched(id, x)
	if !known {
		p.mu.Unlock()
		if epoch >= 0 {
			return ErrUnknownEpoch // the orders that make it one are on their way
		}
		return ErrNotLeader
	}
	var next *proposal
	if !slices.Contains(r.isr, id) {
		e := p.env()
		next = p.propose(p.mu.leader.Expand(id, &e))
	}
	raised := moved && p.raise()
	p.mu.Unlock()
	if raised {
		p.moved()
	}
	p.starts.Notify()
	p.manager.send(next)
	return nil
}

// propose notes an ISR as proposed; nil is none. The caller holds mu, and sends the result when it has let go of it.
func (p *Partition) propose(isr []int32) *proposal {
	if isr == nil || p.manager.options.AlterPartition == nil {
		return nil
	}
	l := &p.mu.leader
	l.Proposed = isr
	p.mu.proposal++
	p.publishISR()
	return &proposal{insync.Proposal{
		Topic: p.tp.Topic, TopicID: p.id, Partition: p.tp.Partition, LeaderEpoch: l.LeaderEpoch, PartitionEpoch: l.PartitionEpoch, ISR: isr,
	}, p, p.mu.proposal}
}

// publishISR shows everybody the ISR that the leader's state has. The caller holds mu.
func (p *Partition) publishISR() {
	r := *p.role.Load()
	l := &p.mu.leader
	p.manager.options.OnISR(len(r.isr), len(l.ISR))
	r.isr, r.partitionEpoch, r.maximalISR = l.ISR, l.PartitionEpoch, l.MaximalISR()
	p.role.Store(&r)
}

func (m *Manager) send(x *proposal) {
	if x != nil {
		m.options.AlterPartition(x.Proposal, x.answered)
	}
}

// answered takes the controller's answer. One to an older proposal, or of an epoch that is over, says nothing.
func (x *proposal) answered(o insync.Outcome) {
	p := x.partition
	p.mu.Lock()
	r, l := p.role.Load(), &p.mu.leader
	if !r.leads || l.LeaderEpoch != x.LeaderEpoch || p.mu.proposal != x.number || l.Proposed == nil {
		p.mu.Unlock()
		return
	}
	again := false
	if o.Code != 0 {
		again = l.Refused(o.Code)
	} else if !l.Committed(o.LeaderEpoch, o.PartitionEpoch, o.ISR) {
		p.mu.Unlock()
		return
	}
	p.publishISR()
	raised := p.raise()
	p.mu.Unlock()
	if o.Code != 0 && !again {
		p.manager.options.OnISRRefused()
	}
	x.log(&o, again)
	if raised {
		p.moved()
	}
	p.acks.Notify()       // what is committed may now be on too few replicas
	p.places.touch(false) // who is in sync, and so settled, has changed
	if again {
		p.manager.clock.AfterFunc(proposeAgain, x.again)
	}
}

// again sends the proposal once more, unless it has been overtaken.
func (x *proposal) again() {
	p := x.partition
	p.mu.Lock()
	r, l := p.role.Load(), &p.mu.leader
	current := r.leads && l.LeaderEpoch == x.LeaderEpoch && p.mu.proposal == x.number && l.Proposed != nil
	p.mu.Unlock()
	if current && !p.manager.lagging.stopped() {
		p.manager.send(x)
	}
}

func (x *proposal) log(o *insync.Outcome, again bool) {
	logger := x.partition.manager.logger.With(zap.String("topic", x.Topic), zap.Int32("partition", x.Partition),
		zap.Int32("leader_epoch", x.LeaderEpoch), zap.Int32s("isr", x.ISR))
	switch {
	case o.Code == 0:
		logger.Info("the in-sync replicas changed")
	case again:
		logger.Debug("the controller did not answer about the in-sync replicas; asking again", zap.Int16("code", o.Code))
	default:
		logger.Info("the controller refused a change of the in-sync replicas", zap.Int16("code", o.Code))
	}
}

// lagCheck looks from time to time for followers that lag.
type lagCheck struct {
	mu struct {
		sync.Mutex
		timer  clock.Timer
		closed bool
	}
}

func (c *lagCheck) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.closed
}

func (m *Manager) startLagCheck() {
	c := &m.lagging
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.timer = m.clock.AfterFunc(m.options.ReplicaLagMax/2, func() {
		m.shrink()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.mu.closed {
			c.mu.timer.Reset(m.options.ReplicaLagMax / 2)
		}
	})
}

func (m *Manager) stopLagCheck() {
	c := &m.lagging
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
}

// shrink proposes to take those out of the ISRs that lag.
func (m *Manager) shrink() {
	for _, ps := range *m.topics.Load() {
		for _, p := range ps {
			if p != nil {
				m.send(p.shrink())
			}
		}
	}
}

func (p *Partition) shrink() *proposal {
	if r := p.role.Load(); !r.leads || len(r.isr) < 2 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.role.Load().leads {
		return nil
	}
	e := p.env()
	return p.propose(p.mu.leader.Shrink(&e))
}
