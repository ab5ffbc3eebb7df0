package controller

import (
	"errors"
	"fmt"
	"math"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDBlock is how many producer ids a broker takes at once. After org.apache.kafka.server.common.ProducerIdsBlock.
const producerIDBlock = 1000

// allocation is an AllocateProducerIDs on its way.
type allocation struct {
	broker int32
	done   func(first, count int64, err error)
	letGo  func()
}

func (a *allocation) answer(m *Machine, first int64, err error) {
	a.letGo()
	m.do(Answer{Response: first, reply: func() { a.done(first, producerIDBlock, err) }})
}

// serveProducerIDs serves another broker's AllocateProducerIds.
func (m *Machine) serveProducerIDs(r *kmsg.AllocateProducerIDsRequest, done func(*kmsg.AllocateProducerIDsResponse)) {
	resp := r.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	refuse := func(err error) {
		resp.ErrorCode, resp.ProducerIDStart, resp.ProducerIDLen = errcode.Of(err), 0, 0
		m.do(Answer{resp, func() { done(resp) }})
	}
	if !m.active() {
		refuse(errNotController)
		return
	}
	switch b := m.reign.brokers[r.BrokerID]; {
	case b == nil:
		refuse(kerr.BrokerIDNotRegistered)
	case b.epoch != r.BrokerEpoch:
		refuse(kerr.StaleBrokerEpoch)
	default:
		m.allocateProducerIDs(r.BrokerID, func(first, count int64, err error) {
			resp.ErrorCode = errcode.Of(err)
			if err == nil {
				resp.ProducerIDStart, resp.ProducerIDLen = first, int32(count)
			}
			done(resp)
		})
	}
}

// allocateProducerIDs takes a block for a broker. Any broker may: what Kafka leaves to the controller is safe here since the write
// is conditional, and does not depend on who is elected.
func (m *Machine) allocateProducerIDs(broker int32, done func(first, count int64, err error)) {
	a := &allocation{broker: broker, done: done}
	a.letGo = m.hold(func() { a.answer(m, -1, errNotController) })
	m.allocate(a)
}

// allocate takes the block after the last one. The write is conditional, so no block is given twice; one whose reply was lost is
// given up, which costs nothing.
func (m *Machine) allocate(a *allocation) {
	m.read(always, datas(znode.ProducerIDsPath), func(nodes []store.Node) {
		n := nodes[0]
		next, err := nextBlock(a.broker, n.Data)
		if err != nil {
			a.answer(m, -1, fmt.Errorf("%s: %w", n.Path, err))
			return
		}
		op := store.Set(n.Path, next.Encode(), n.Stat.Version)
		m.commit(always, []store.Txn{{op}}, func(outcomes []store.Outcome) {
			switch err := outcomes[0].Err; {
			case err == nil:
				a.answer(m, next.Start, nil)
			case store.FailedOp(err) >= 0, errors.Is(err, store.ErrUnknown):
				m.allocate(a)
			default:
				a.answer(m, -1, err)
			}
		})
	})
}

// nextBlock is the block after the one that data, nil at first, names.
func nextBlock(broker int32, data []byte) (znode.ProducerBlock, error) {
	next := znode.ProducerBlock{Broker: broker, End: producerIDBlock - 1}
	if len(data) == 0 {
		return next, nil
	}
	last, err := znode.DecodeProducerBlock(data)
	if err == nil && (last.End < 0 || last.End > math.MaxInt64-producerIDBlock) {
		err = errors.New("all producer ids have been given out")
	}
	next.Start, next.End = last.End+1, last.End+producerIDBlock
	return next, err
}
