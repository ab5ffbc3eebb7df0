package api

import (
	"sync"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// WriteTxnMarkers ends transactions in partitions that this broker leads. Transaction coordinators send it, and
// kafka-transactions to abort one that hangs. It is answered when the markers are replicated.
// v1 flexible · v2 transaction version: from 2 on a marker's epoch is greater than that of the data (KIP-1228).
// Errors, by partition: UNKNOWN_TOPIC_OR_PARTITION where there is no replica here, NOT_LEADER_OR_FOLLOWER,
// NOT_ENOUGH_REPLICAS(_AFTER_APPEND), REQUEST_TIMED_OUT, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
// KAFKA_STORAGE_ERROR. After KafkaApis.handleWriteTxnMarkersRequest.
var writeTxnMarkers = Entry{
	Key: kmsg.WriteTxnMarkers, ZooKeeper: v(0, 1), Kafka4: v(1, 2),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction), Cost: 16, Runs: onHandler,
	Serve: func(s *Services, c *Call, request kmsg.Request) {
		s.WriteTxnMarkers(request.(*kmsg.WriteTxnMarkersRequest), func(response *kmsg.WriteTxnMarkersResponse) { c.Reply(response) })
	},
}

// bumpedVersion is the transaction version from which on every transaction has an epoch of its own.
const bumpedVersion = 2

// markers is a WriteTxnMarkers on its way.
type markers struct {
	request  *kmsg.WriteTxnMarkersRequest
	response *kmsg.WriteTxnMarkersResponse
	done     func(*kmsg.WriteTxnMarkersResponse)
	services *Services
	mu       struct {
		sync.Mutex
		waiting int
	}
}

// WriteTxnMarkers writes markers and calls done once, on any goroutine, with what became of them.
func (s *Services) WriteTxnMarkers(r *kmsg.WriteTxnMarkersRequest, done func(*kmsg.WriteTxnMarkersResponse)) {
	w := &markers{request: r, response: kmsg.NewPtrWriteTxnMarkersResponse(), done: done, services: s}
	w.response.Version = r.Version
	var data []replica.Marker
	var answers, offsetAnswers []*int16
	var offsets []replica.Marker // of __consumer_offsets: their coordinator's
	n := partitionsOf(r)
	data, answers = make([]replica.Marker, 0, n), make([]*int16, 0, n)
	for i := range r.Markers {
		w.response.Markers = append(w.response.Markers, markerAnswer(&r.Markers[i]))
		topics := w.response.Markers[i].Topics
		for j := range topics {
			for k := range topics[j].Partitions {
				m := replica.Marker{
					TopicPartition: log.TopicPartition{Topic: topics[j].Topic, Partition: topics[j].Partitions[k].Partition},
					EndTxn:         endTxn(&r.Markers[i]),
				}
				if m.Topic == metadata.ConsumerOffsets {
					offsets, offsetAnswers = append(offsets, m), append(offsetAnswers, &topics[j].Partitions[k].ErrorCode)
					continue
				}
				data, answers = append(data, m), append(answers, &topics[j].Partitions[k].ErrorCode)
			}
		}
	}
	w.mu.waiting = len(offsets) + 1
	for i := range offsets {
		s.Groups.EndTransaction(offsets[i].Partition, offsets[i].EndTxn, func(err error) {
			*offsetAnswers[i] = w.code(&offsets[i], asLeader(err))
			w.finish()
		})
	}
	timeout := config.RequestTimeout.Of(s.Config.Now())
	s.Replicas.WriteMarkers(data, timeout, func(errs []error) {
		for i, err := range errs {
			*answers[i] = w.code(&data[i], err)
		}
		w.finish()
	})
}

// partitionsOf counts the partitions of all markers.
func partitionsOf(r *kmsg.WriteTxnMarkersRequest) (n int) {
	for i := range r.Markers {
		for j := range r.Markers[i].Topics {
			n += len(r.Markers[i].Topics[j].Partitions)
		}
	}
	return n
}

func markerAnswer(m *kmsg.WriteTxnMarkersRequestMarker) kmsg.WriteTxnMarkersResponseMarker {
	a := kmsg.NewWriteTxnMarkersResponseMarker()
	a.ProducerID = m.ProducerID
	for i := range m.Topics {
		t := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
		t.Topic = m.Topics[i].Topic
		t.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, 0, len(m.Topics[i].Partitions))
		for _, p := range m.Topics[i].Partitions {
			ap := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
			ap.Partition = p
			t.Partitions = append(t.Partitions, ap)
		}
		a.Topics = append(a.Topics, t)
	}
	return a
}

func endTxn(m *kmsg.WriteTxnMarkersRequestMarker) record.EndTxn {
	return record.EndTxn{
		ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, Commit: m.Committed, CoordinatorEpoch: m.CoordinatorEpoch,
		Bumped: m.TransactionVersion >= bumpedVersion,
	}
}

// asLeader says in a leader's words what the group coordinator cannot do.
func asLeader(err error) error {
	switch errcode.Of(err) {
	case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code:
		return replica.ErrNotLeader
	}
	return err
}

// code is the answer for a marker.
func (w *markers) code(m *replica.Marker, err error) int16 {
	code := errcode.Of(err)
	if code == kerr.UnknownServerError.Code {
		w.services.Logger.Error("a transaction marker could not be written", zap.String("topic", m.Topic), zap.Int32("partition", m.Partition),
			zap.Int64("producer_id", m.ProducerID), zap.Error(err))
	}
	return code
}

func (w *markers) finish() {
	w.mu.Lock()
	w.mu.waiting--
	last := w.mu.waiting == 0
	w.mu.Unlock()
	if last {
		w.done(w.response)
	}
}
