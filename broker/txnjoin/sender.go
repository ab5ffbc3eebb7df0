package txnjoin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// sender brings questions to one other broker. Its queue is guarded by the Joiner's lock; its client belongs to the
// goroutine that runs while there is something in the queue.
type sender struct {
	broker  int32
	client  Client
	queue   []*question
	running bool
}

// maxWaiting is how many questions may wait for one broker.
const maxWaiting = 10_000

// send queues a question for another broker.
func (j *Joiner) send(broker int32, q *question) {
	j.mu.Lock()
	s := j.mu.senders[broker]
	if s == nil {
		s = &sender{broker: broker, client: j.o.Dial(broker)}
		j.mu.senders[broker] = s
	}
	if j.mu.closed || len(s.queue) >= maxWaiting {
		j.mu.Unlock()
		j.settle(q, q.all(kerr.NetworkException.Code))
		return
	}
	s.queue = append(s.queue, q)
	if !s.running {
		s.running = true
		j.wg.Go(func() { j.run(s) })
	}
	j.mu.Unlock()
}

// run asks until nothing is left.
func (j *Joiner) run(s *sender) {
	for {
		qs := j.next(s)
		if qs == nil {
			return
		}
		response := kmsg.NewPtrAddPartitionsToTxnResponse()
		err := s.client.Do(j.running, request(qs), response)
		if err != nil {
			j.o.Logger.Warn("a transaction coordinator could not be asked", zap.Int32("broker", s.broker), zap.Error(err))
			response.ErrorCode = kerr.NetworkException.Code
		}
		for _, q := range qs {
			j.settle(q, q.codes(response))
		}
	}
}

// next takes the questions of the next request: for each transactional id the first. nil when there are none.
func (j *Joiner) next(s *sender) []*question {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(s.queue) == 0 {
		s.running = false
		return nil
	}
	seen := make(map[string]bool, len(s.queue))
	var now, later []*question
	for _, q := range s.queue {
		if seen[q.TransactionalID] {
			later = append(later, q)
			continue
		}
		seen[q.TransactionalID] = true
		now = append(now, q)
	}
	s.queue = later
	return now
}
