package producer

import (
	"fmt"
)

// Guard stands for a verification that was begun: only with it may a producer's first batch of a transaction be
// appended, and only while nothing has ended the transaction in between. The zero Guard stands for none. Source:
// org.apache.kafka.storage.internals.log.VerificationGuard.
type Guard struct{ of *verification }

// verification is what is known of a producer that is about to begin a transaction: whoever asks the coordinator now,
// with whatever batch, shares it (KIP-890). Source: org.apache.kafka.storage.internals.log.VerificationStateEntry.
type verification struct {
	stamp  int64 // ms
	lowest int32 // the lowest sequence that was refused or waits: no higher one may be stored first
	epoch  int16
	bumps  bool // the client bumps its epoch with every transaction (transaction version 2)
}

// BeginVerification says whether the coordinator must be asked before a batch of a producer's transaction is appended:
// not if its transaction is open here. bumps is whether the client speaks transaction version 2.
func (s *State) BeginVerification(id int64, epoch int16, seq int32, bumps bool, nowMs int64) (g Guard, ask bool) {
	if s.inTransaction(id, epoch) {
		return Guard{}, false
	}
	v := s.verifying[id]
	switch {
	case v == nil:
		if s.verifying == nil {
			s.verifying = map[int64]*verification{}
		}
		v = &verification{nowMs, seq, epoch, bumps}
		s.verifying[id] = v
	case epoch > v.epoch:
		v.epoch, v.lowest = epoch, seq
	case epoch == v.epoch:
		v.lowest = min(v.lowest, seq)
	}
	return Guard{v}, true
}

// inTransaction says whether the producer has a transaction open in that epoch: one of a newer epoch is another one.
func (s *State) inTransaction(id int64, epoch int16) bool {
	e := s.producers[id]
	return e != nil && e.txnFirst >= 0 && e.epoch == epoch
}

// checkVerified says whether a transactional batch may begin or continue a transaction.
func (s *State) checkVerified(id int64, epoch int16, from Origin) error {
	if !from.Verified || s.inTransaction(id, epoch) {
		return nil
	}
	if v := s.verifying[id]; v == nil || v != from.Guard.of {
		return fmt.Errorf("producer %d: %w", id, ErrNotInTxn)
	}
	return nil
}

// checkOrder refuses a sequence that would be stored before a lower one whose verification failed and which the client
// sends again; and under transaction version 2 a producer that begins in the middle of its sequence.
func (s *State) checkOrder(id int64, first int32) error {
	v := s.verifying[id]
	if v == nil {
		return nil
	}
	if e := s.producers[id]; v.bumps && first != 0 && (e == nil || e.count == 0) {
		return fmt.Errorf("producer %d begins with sequence %d: %w", id, first, ErrOutOfOrder)
	}
	if first > v.lowest {
		return fmt.Errorf("producer %d: sequence %d before %d, which was not stored yet: %w", id, first, v.lowest, ErrOutOfOrder)
	}
	return nil
}
