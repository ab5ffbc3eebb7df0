package api

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Produce appends records to partitions.
// v0–v1 message format 0 · v2 format 1, log append time in the answer · v3 batches, one per partition, transactional id
// · v5 log start offset · v7 zstd · v8 which records are at fault, in words · v10 the current leader (KIP-951)
// · v12 partitions join a transaction implicitly (KIP-890) · v13 topic ids.
// With acks=0 there is no answer, and an error closes the connection.
// Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, INVALID_REQUIRED_ACKS,
// NOT_ENOUGH_REPLICAS(_AFTER_APPEND), REQUEST_TIMED_OUT, INVALID_TOPIC_EXCEPTION (internal topics), those of record.Check
// and of the log's producer state, INVALID_TXN_STATE and TRANSACTIONAL_ID_AUTHORIZATION_FAILED for transactional
// records. After KafkaApis.handleProduceRequest.
var produce = Entry{
	Key: kmsg.Produce, ZooKeeper: v(0, 11), Kafka4: v(0, 13),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationWrite), Cost: 2, Runs: onProcessor,
	Ready: produceReady, Serve: serveProduce,
}

// Versions of Produce from which on something holds.
const (
	produceBatches = 3  // one batch of magic 2 per partition
	produceLeader  = 10 // the answer tells the current leader
	produceByID    = 13
)

// adminClient is the client id under which Kafka's tools may write to internal topics (AdminUtils.ADMIN_CLIENT_ID).
const adminClient = "__admin_client"

// produceReady says whether a Produce neither waits for another writer, nor rolls a segment, nor opens or makes
// compressed records, whose size says nothing of the time that takes.
func produceReady(s *Services, request kmsg.Request) bool {
	r := request.(*kmsg.ProduceRequest)
	image := s.Metadata.Image()
	for i := range r.Topics {
		t := &r.Topics[i]
		name := t.Topic
		if r.Version >= produceByID {
			topic := image.TopicByID(t.TopicID)
			if topic == nil {
				continue
			}
			name = topic.Name
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if b, ok := batchOf(p.Records); ok && b.Codec() != record.None {
				return false
			}
			if !s.Replicas.CanAppendNow(name, p.Partition, len(p.Records)) {
				return false
			}
		}
	}
	return r.Version >= produceBatches
}

// batchOf returns the first batch of a record set if it is one of magic 2. Nothing beyond its header is checked.
func batchOf(records []byte) (record.Batch, bool) {
	const magicAt = 16
	if len(records) < record.HeaderSize || records[magicAt] != 2 {
		return nil, false
	}
	return record.Batch(records), true
}

func serveProduce(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.ProduceRequest)
	image := s.Metadata.Image()
	entries := s.produceEntries(image, r)
	params := replica.ProduceParams{
		Version: r.Version, Acks: r.Acks, Timeout: time.Duration(r.TimeoutMillis) * time.Millisecond,
		Internal: c.ClientID == adminClient, TransactionalID: r.TransactionID,
	}
	size := c.size
	s.Replicas.Produce(params, entries, func(results []replica.ProduceResult) {
		c.throttle(s.Quotas.Record(quota.Produce, c.User(), c.ClientID, float64(size)))
		s.meterProduced(entries, results)
		if r.Acks == replica.AcksNone {
			endSilentProduce(c, entries, results)
			return
		}
		c.Reply(s.produceResponse(c, r, entries, results))
	})
}

var (
	errUnknownTopicID     = errcode.New(kerr.UnknownTopicID, "no topic has this id")
	errUnknownPartition   = errcode.New(kerr.UnknownTopicOrPartition, "the topic or partition does not exist")
	errNoTransactionalID  = errcode.New(kerr.TransactionalIDAuthorizationFailed, "transactional records need a transactional id in the request")
	errDuplicatePartition = errcode.New(kerr.InvalidRequest, "the partition is named twice in the request")
)

func (s *Services) meterProduced(entries []replica.ProduceEntry, results []replica.ProduceResult) {
	if s.Meter == nil {
		return
	}
	for i := range results {
		if e, r := &entries[i], &results[i]; e.Err == nil {
			s.Meter.Produced(e.Topic, len(e.Records), r.Messages(), howProduced(r.Err))
			s.Meter.Converted(e.Topic, int(r.Converted), true)
			s.meterFaults(r.Err)
		}
	}
}

// meterFaults counts what was wrong with records that were refused.
func (s *Services) meterFaults(err error) {
	var invalid *record.Invalid
	if err == nil || !errors.As(err, &invalid) {
		return
	}
	s.Meter.Refused(meter.InvalidMagic, invalid.Faults[record.FaultMagic])
	s.Meter.Refused(meter.InvalidChecksum, invalid.Faults[record.FaultChecksum])
	s.Meter.Refused(meter.InvalidNumbers, invalid.Faults[record.FaultNumbers])
	s.Meter.Refused(meter.KeylessRecords, invalid.Faults[record.FaultKey])
}

// howProduced says what an error is, to who counts. The codes are those that Kafka knows, in ReplicaManager.appendRecordsToLeader.
func howProduced(err error) meter.How {
	switch errcode.Of(err) {
	case 0:
		return meter.Well
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code:
		return meter.TooLarge
	case kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.CorruptMessage.Code, kerr.KafkaStorageError.Code:
		return meter.Refused
	}
	return meter.Failed
}

// produceEntries lists the partitions of a request. Of several record sets for one partition only the last counts, as
// in Kafka, which puts them into a map. A leader may be named by another broker before it has heard of the topic itself, once it leads:
// then it takes records too (case P6).
func (s *Services) produceEntries(image *metadata.Image, r *kmsg.ProduceRequest) []replica.ProduceEntry {
	n := 0
	for i := range r.Topics {
		n += len(r.Topics[i].Partitions)
	}
	entries := make([]replica.ProduceEntry, 0, n)
	refused := unsentTransaction(r)
	for i := range r.Topics {
		t := &r.Topics[i]
		topic, err := image.Topic(t.Topic), error(errUnknownPartition)
		if r.Version >= produceByID {
			topic, err = image.TopicByID(t.TopicID), errUnknownTopicID
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			e := replica.ProduceEntry{Topic: t.Topic, TopicID: t.TopicID, Partition: p.Partition, Records: p.Records}
			switch {
			case refused != nil:
				e.Err = refused
			case topic == nil:
				if r.Version >= produceByID || !s.Replicas.Leads(e.Topic, e.Partition) {
					e.Err = err
				}
			default:
				e.Topic = topic.Name
				if topic.Partition(p.Partition) == nil && !s.Replicas.Leads(e.Topic, e.Partition) {
					e.Err = errUnknownPartition
				}
			}
			entries = append(entries, e)
		}
	}
	return lastOfEach(entries)
}

func lastOfEach(entries []replica.ProduceEntry) []replica.ProduceEntry {
	double := duplicates(len(entries), func(i int) partitionKey {
		e := &entries[i]
		return partitionKey{e.Topic, e.TopicID, e.Partition}
	})
	if double == nil {
		return entries
	}
	kept := entries[:0]
	for i, e := range entries {
		if !double[i].again {
			kept = append(kept, e)
		}
	}
	return kept
}

// unsentTransaction refuses a whole request that carries transactional records without a transactional id.
func unsentTransaction(r *kmsg.ProduceRequest) error {
	if r.TransactionID != nil {
		return nil
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if b, ok := batchOf(r.Topics[i].Partitions[j].Records); ok && b.IsTransactional() {
				return errNoTransactionalID
			}
		}
	}
	return nil
}

// endSilentProduce ends a Produce with acks=0.
func endSilentProduce(c *Call, entries []replica.ProduceEntry, results []replica.ProduceResult) {
	for i := range results {
		if err := results[i].Err; err != nil {
			c.Close(fmt.Sprintf("a produce with acks=0 failed for %s-%d: %v", entries[i].Topic, entries[i].Partition, err))
			return
		}
	}
	c.NoReply()
}

// produceResponse puts the answer together, a topic for each run of entries of the same one.
func (s *Services) produceResponse(c *Call, r *kmsg.ProduceRequest, entries []replica.ProduceEntry, results []replica.ProduceResult) *kmsg.ProduceResponse {
	response := kmsg.NewPtrProduceResponse()
	response.Topics = make([]kmsg.ProduceResponseTopic, 0, len(r.Topics))
	partitions := make([]kmsg.ProduceResponseTopicPartition, len(entries))
	for from := 0; from < len(entries); {
		e := &entries[from]
		to := from
		for ; to < len(entries) && entries[to].Topic == e.Topic && entries[to].TopicID == e.TopicID; to++ {
			s.producePartition(c, response, &entries[to], &results[to], &partitions[to])
		}
		response.Topics = append(response.Topics, kmsg.ProduceResponseTopic{
			Topic: e.Topic, TopicID: e.TopicID, Partitions: partitions[from:to:to],
		})
		from = to
	}
	return response
}

func (s *Services) producePartition(c *Call, response *kmsg.ProduceResponse, e *replica.ProduceEntry, r *replica.ProduceResult, p *kmsg.ProduceResponseTopicPartition) {
	p.Default()
	p.Partition, p.BaseOffset, p.LogAppendTime, p.LogStartOffset = e.Partition, r.BaseOffset, r.LogAppendTime, r.LogStartOffset
	if r.Err == nil {
		return
	}
	p.ErrorCode, p.ErrorMessage = c.Code(r.Err), errcode.Message(r.Err)
	var invalid *record.Invalid
	if errors.As(r.Err, &invalid) {
		for _, re := range invalid.RecordErrors {
			er := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			er.RelativeOffset, er.ErrorMessage = re.Index, &re.Message
			p.ErrorRecords = append(p.ErrorRecords, er)
		}
	}
	if c.Version >= produceLeader && p.ErrorCode == kerr.NotLeaderForPartition.Code {
		l := s.currentLeader(c, e.Topic, e.Partition)
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = l.id, l.epoch
		known := slices.ContainsFunc(response.Brokers, func(b kmsg.ProduceResponseBroker) bool { return b.NodeID == l.id })
		if l.reachable && !known {
			response.Brokers = append(response.Brokers, kmsg.ProduceResponseBroker{NodeID: l.id, Host: l.Host, Port: l.Port, Rack: l.rack})
		}
	}
	if p.ErrorCode == kerr.UnknownServerError.Code {
		s.logUnexpected(c, "produce", e.Topic, e.Partition, r.Err)
	}
}
