package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
)

const (
	namedByID       = 2 // from this version of AlterPartition on topics are named by their ids
	proposalBackoff = 50 * time.Millisecond
)

// proposals carries the leaders' proposals of in-sync replicas to the controller: one request at a time, with all that
// came up meanwhile in the next, until each is answered (DefaultAlterPartitionManager). Safe for concurrent use.
type proposals struct {
	ask      func(context.Context, kmsg.Request) (kmsg.Response, error)
	brokerID int32
	version  int16
	epoch    func() int64
	clock    clock.Clock
	logger   *zap.Logger

	ctx     context.Context
	cancel  context.CancelFunc
	senders sync.WaitGroup
	mu      struct {
		sync.Mutex
		waiting proposalQueue
		sending bool
		closed  bool
	}
}

// newProposals returns a carrier that sends with ask.
func newProposals(b *Broker, ask func(context.Context, kmsg.Request) (kmsg.Response, error)) *proposals {
	p := &proposals{
		ask: ask, brokerID: b.services.BrokerID, version: b.protocol.AlterPartition, clock: b.clock, logger: b.logger,
		epoch: func() int64 { return b.services.Controller.BrokerEpoch() },
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// propose sends a proposal; done is called on another goroutine with the answer, unless a newer proposal for the partition
// takes its place before it has been sent.
func (p *proposals) propose(one insync.Proposal, done func(insync.Outcome)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return
	}
	p.mu.waiting.add(proposal{one, done})
	if !p.mu.sending {
		p.mu.sending = true
		p.senders.Go(p.send)
	}
}

// close gives up what is not answered yet.
func (p *proposals) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.cancel()
	p.senders.Wait()
}

// send sends until nothing waits.
func (p *proposals) send() {
	for {
		p.mu.Lock()
		batch := p.mu.waiting.take()
		if len(batch) == 0 || p.mu.closed {
			p.mu.sending = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if err := p.exchange(batch); err != nil && p.ctx.Err() == nil {
			p.logger.Info("proposals of in-sync replicas did not reach the controller; they are repeated",
				zap.Int("count", len(batch)), zap.Error(err))
			p.mu.Lock()
			p.mu.waiting.putBack(batch)
			p.mu.Unlock()
			p.pause()
		}
	}
}

func (p *proposals) pause() {
	elapsed, timer := p.clock.NewTimer(proposalBackoff)
	defer timer.Stop()
	select {
	case <-elapsed:
	case <-p.ctx.Done():
	}
}

// exchange sends one request and hands out its answers. After an error nothing was handed out.
func (p *proposals) exchange(batch []proposal) error {
	request := proposalRequest(p.version, p.brokerID, p.epoch(), batch)
	response, err := p.ask(p.ctx, request)
	if err != nil {
		return err
	}
	answer, ok := response.(*kmsg.AlterPartitionResponse)
	if !ok {
		return errors.New("the answer is of another kind")
	}
	if answer.ErrorCode != 0 {
		return kerr.ErrorForCode(answer.ErrorCode)
	}
	deliver(batch, answer)
	return nil
}

// proposalRequest is the AlterPartition of a broker with an epoch.
func proposalRequest(version int16, broker int32, epoch int64, batch []proposal) *kmsg.AlterPartitionRequest {
	request := kmsg.NewPtrAlterPartitionRequest()
	request.Version, request.BrokerID, request.BrokerEpoch = version, broker, epoch
	topics := map[topicKey]int{}
	for _, one := range batch {
		key := keyOf(version, one.Topic, one.TopicID)
		at, ok := topics[key]
		if !ok {
			at = len(request.Topics)
			topics[key] = at
			request.Topics = append(request.Topics, kmsg.AlterPartitionRequestTopic{Topic: one.Topic, TopicID: one.TopicID})
		}
		request.Topics[at].Partitions = append(request.Topics[at].Partitions, encodeProposal(&one.Proposal))
	}
	return request
}

// topicKey is how a version names a topic: by the one or the other.
type topicKey struct {
	name string
	id   log.TopicID
}

func keyOf(version int16, name string, id log.TopicID) topicKey {
	if version < namedByID {
		return topicKey{name: name}
	}
	return topicKey{id: id}
}

func encodeProposal(one *insync.Proposal) kmsg.AlterPartitionRequestTopicPartition {
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.Partition, p.LeaderEpoch, p.PartitionEpoch, p.NewISR = one.Partition, one.LeaderEpoch, one.PartitionEpoch, one.ISR
	for _, id := range one.ISR {
		member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		member.BrokerID, member.BrokerEpoch = id, -1 // on ZooKeeper 3.9 sends no epochs either
		p.NewEpochISR = append(p.NewEpochISR, member)
	}
	return p
}

// deliver gives each proposal its answer; one that the controller left out was for a topic that is gone.
func deliver(batch []proposal, answer *kmsg.AlterPartitionResponse) {
	type key struct {
		topicKey
		partition int32
	}
	outcomes := map[key]insync.Outcome{}
	for _, t := range answer.Topics {
		for _, a := range t.Partitions {
			outcomes[key{keyOf(answer.Version, t.Topic, t.TopidID), a.Partition}] = insync.Outcome{
				Code: a.ErrorCode, LeaderEpoch: a.LeaderEpoch, PartitionEpoch: a.PartitionEpoch, ISR: a.ISR,
			}
		}
	}
	for _, one := range batch {
		outcome, ok := outcomes[key{keyOf(answer.Version, one.Topic, one.TopicID), one.Partition}]
		if !ok {
			outcome.Code = kerr.UnknownTopicOrPartition.Code
		}
		one.done(outcome)
	}
}
