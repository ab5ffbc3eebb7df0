package replica

import (
	"time"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// Marker is the end of a transaction for one partition.
type Marker struct {
	log.TopicPartition
	record.EndTxn
}

// WriteMarkers appends the markers and calls done with an error for each, nil where the in-sync replicas have it. Errors:
// ErrUnknownPartition where this broker holds no replica, ErrNotLeader, ErrNotEnoughReplicas, ErrTimeout, and those of the
// log's producer state. After KafkaApis.handleWriteTxnMarkersRequest.
func (m *Manager) WriteMarkers(markers []Marker, timeout time.Duration, done func([]error)) {
	results := make([]ProduceResult, len(markers))
	for i := range markers {
		m.writeMarker(&markers[i], &results[i])
	}
	for i := range results {
		if q := results[i].partition; q != nil {
			q.appended()
		}
	}
	finish := func(results []ProduceResult) {
		errs := make([]error, len(results))
		for i := range results {
			errs[i] = results[i].Err
		}
		done(errs)
	}
	if settleAll(results) {
		finish(results)
		return
	}
	m.awaitAcks(&ProduceParams{Timeout: timeout}, results, finish)
}

func (m *Manager) writeMarker(k *Marker, r *ProduceResult) {
	partition := m.find(k.Topic, k.Partition)
	if partition == nil {
		r.Err = ErrUnknownPartition
		return
	}
	role, err := partition.leading(-1)
	if err == nil && !partition.enoughInSync(role) {
		err = ErrNotEnoughReplicas
	}
	if err != nil {
		r.Err = err
		return
	}
	end, err := partition.endTransaction(&k.EndTxn, role.leaderEpoch)
	if err != nil {
		r.Err = err
		return
	}
	r.partition, r.epoch, r.end = partition, role.leaderEpoch, end
}

// endTransaction appends a marker as the leader in an epoch, if that is not over, and returns the offset after it.
func (p *Partition) endTransaction(k *record.EndTxn, epoch int32) (end int64, err error) {
	p.writing.RLock()
	defer p.writing.RUnlock()
	switch r, err := p.leading(-1); {
	case err != nil:
		return -1, err
	case r.leaderEpoch != epoch:
		return -1, ErrNotLeader
	}
	a, err := p.log.WriteMarker(log.Marker{
		ProducerID: k.ProducerID, ProducerEpoch: k.ProducerEpoch, Commit: k.Commit, CoordinatorEpoch: k.CoordinatorEpoch,
		Bumped: k.Bumped, LeaderEpoch: epoch,
	})
	return a.LastOffset + 1, p.wrote(err)
}
