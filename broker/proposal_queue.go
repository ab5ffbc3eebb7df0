package broker

import (
	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/log"
)

// proposal is an ISR that a leader proposes, and where the answer goes.
type proposal struct {
	insync.Proposal
	done func(insync.Outcome)
}

// proposalKey is the partition of a proposal.
type proposalKey struct {
	topic     log.TopicID
	partition int32
}

func (p *proposal) key() proposalKey { return proposalKey{p.TopicID, p.Partition} }

// proposalQueue is what waits to be sent: one proposal for a partition, in the order in which the partitions came. The
// controller refuses a request that names a partition twice.
type proposalQueue struct {
	list []proposal
	at   map[proposalKey]int
}

// add takes a proposal in, in the place of an older one for the same partition: the leader has been elected anew since that
// one was made, and would not hear its answer.
func (q *proposalQueue) add(one proposal) {
	if i, ok := q.at[one.key()]; ok {
		q.list[i] = one
		return
	}
	if q.at == nil {
		q.at = map[proposalKey]int{}
	}
	q.at[one.key()] = len(q.list)
	q.list = append(q.list, one)
}

// putBack has a batch that was taken wait again, before what has come since.
func (q *proposalQueue) putBack(batch []proposal) {
	newer := q.take()
	for _, one := range append(batch, newer...) {
		q.add(one)
	}
}

// take empties the queue.
func (q *proposalQueue) take() []proposal {
	list := q.list
	*q = proposalQueue{}
	return list
}
