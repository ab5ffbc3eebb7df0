package api

import (
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/fetchenc"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch reads records from partitions, and may wait for them.
// v0–v1 converted to message format 0 · v2–v3 to format 1 · v3 max bytes; the first batch comes whole (KIP-74)
// · v4 isolation level · v5 log start offset · v7 sessions (KIP-227) · v9 leader epoch (KIP-320) · v10 zstd · v11 rack
// (KIP-392) · v12 last fetched epoch · v13 topic ids · v15 replica state · v16 the current leader (KIP-951) · v17, v18 for
// followers.
// Errors: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID,
// NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR;
// for the whole FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR,
// UNKNOWN_SERVER_ERROR for an isolation level that there is not. After KafkaApis.handleFetchRequest.
var fetch = Entry{
	Key: kmsg.Fetch, ZooKeeper: v(0, 17), Kafka4: v(4, 18),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead), Cost: 16, Runs: onProcessor,
	Ready: fetchReady, Serve: serveFetch,
}

// Versions of Fetch from which on something holds.
const (
	fetchSoftLimits  = 3 // the first batch comes whole
	fetchUnconverted = 4 // batches as they are stored
	fetchZstd        = 10
	fetchRack        = 11
	fetchByID        = 13
	fetchReplicaTag  = 15
	fetchLeader      = 16
)

// fewPartitions is how many partitions a Fetch may name, together with those of its session, to run on the processor.
const fewPartitions = 64

// fetchReady says whether a Fetch is short and cannot wait for a disk: few partitions, no conversion, and nothing to be
// read but at the ends of logs. Of what it finds, the network layer sends without waiting what is in the page cache.
func fetchReady(s *Services, request kmsg.Request) bool {
	r := request.(*kmsg.FetchRequest)
	n := s.Sessions.Pending(r.SessionID)
	for i := range r.Topics {
		n += len(r.Topics[i].Partitions)
	}
	if r.Version < fetchUnconverted || n > fewPartitions {
		return false
	}
	image := s.Metadata.Image()
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if !s.readableNow(image, r.Version, t.Topic, t.TopicID, p.Partition, p.FetchOffset) {
				return false
			}
		}
	}
	return s.Sessions.All(r.SessionID, func(p *fetchsession.Partition) bool {
		return s.readableNow(image, r.Version, p.Topic, p.ID, p.Partition, p.FetchOffset)
	})
}

func (s *Services) readableNow(image *metadata.Image, version int16, topic string, id log.TopicID, partition int32, offset int64) bool {
	if version >= fetchByID {
		t := image.TopicByID(id)
		if t == nil {
			return true // refused at once
		}
		topic = t.Name
	}
	return s.Replicas.CanReadNow(topic, partition, offset)
}

func serveFetch(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.FetchRequest)
	replicaID := replicaOf(r)
	if !knownIsolation(r.IsolationLevel) {
		c.replyFetch(fetchRefused(r))
		return
	}
	x, code := s.Sessions.Open(sessionRequest(r, replicaID >= 0))
	if code != 0 {
		c.replyFetch(&fetchenc.Response{ErrorCode: code})
		return
	}
	c.usage.exempt = replicaID >= 0
	f := &fetching{follower: replicaID >= 0, services: s, call: c, session: x}
	f.resolve()
	params := s.fetchParams(c, r, replicaID)
	if x.Standing() {
		params.Standing = &replica.Standing{Changes: x.Changes().(*purgatory.List), More: f.more, Looked: x.Looked}
	}
	s.Replicas.Fetch(params, f.entries, f.answer)
}

// replicaOf returns the broker that fetches, -1 for a consumer.
func replicaOf(r *kmsg.FetchRequest) int32 {
	if r.Version >= fetchReplicaTag {
		return r.ReplicaState.ID
	}
	return r.ReplicaID
}

// resolve makes entries of the partitions that the session wants and that have none yet.
func (f *fetching) resolve() {
	known := len(f.entries)
	f.wanted = f.session.Partitions()
	news := fetchEntries(f.services.Metadata.Image(), f.call.Version, f.wanted[known:])
	if f.session.Standing() {
		for i := range news {
			news[i].Place = f.session.Place(known + i)
		}
	}
	if known == 0 {
		f.entries = news
	} else {
		f.entries = append(f.entries, news...)
	}
}

// more is replica.Standing.More.
func (f *fetching) more() (entries []replica.FetchEntry, touched []int) {
	touched = f.session.More()
	f.resolve()
	return f.entries, touched
}

// fetchRefused is the answer to a request that makes no sense as a whole.
func fetchRefused(r *kmsg.FetchRequest) *fetchenc.Response {
	response := &fetchenc.Response{ErrorCode: kerr.UnknownServerError.Code}
	for i := range r.Topics {
		t := &r.Topics[i]
		answer := fetchenc.Topic{Topic: t.Topic, TopicID: t.TopicID}
		for j := range t.Partitions {
			answer.Partitions = append(answer.Partitions, fetchenc.Partition{
				Partition: t.Partitions[j].Partition, ErrorCode: response.ErrorCode, HighWatermark: -1, LastStableOffset: -1,
				LogStartOffset: -1, PreferredReadReplica: replica.NoPreference, AbortedTransactions: []fetchenc.AbortedTransaction{},
			})
		}
		response.Topics = append(response.Topics, answer)
	}
	return response
}

// sessionRequest is the request as far as sessions go.
func sessionRequest(r *kmsg.FetchRequest, follower bool) *fetchsession.Request {
	n := 0
	for i := range r.Topics {
		n += len(r.Topics[i].Partitions)
	}
	q := &fetchsession.Request{
		SessionID: r.SessionID, Epoch: r.SessionEpoch, ByID: r.Version >= fetchByID, Follower: follower,
		Partitions: make([]fetchsession.Partition, 0, n),
	}
	if follower && r.SessionEpoch == 0 {
		q.Changes = new(purgatory.List) // it is for a session that stands
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			q.Partitions = append(q.Partitions, fetchsession.Partition{
				Key:                fetchsession.Key{ID: t.TopicID, Topic: t.Topic, Partition: p.Partition},
				CurrentLeaderEpoch: p.CurrentLeaderEpoch, LastFetchedEpoch: p.LastFetchedEpoch, MaxBytes: p.PartitionMaxBytes,
				FetchOffset: p.FetchOffset, LogStartOffset: p.LogStartOffset,
			})
		}
	}
	for i := range r.ForgottenTopics {
		t := &r.ForgottenTopics[i]
		for _, p := range t.Partitions {
			q.Forgotten = append(q.Forgotten, fetchsession.Key{ID: t.TopicID, Topic: t.Topic, Partition: p})
		}
	}
	return q
}

func (s *Services) fetchParams(c *Call, r *kmsg.FetchRequest, replicaID int32) replica.FetchParams {
	maxBytes := int(config.FetchMaxBytes.Of(s.Config.Now()))
	if r.Version >= fetchSoftLimits {
		maxBytes = min(maxBytes, int(r.MaxBytes))
	}
	if replicaID < 0 {
		maxBytes = int(min(float64(maxBytes), s.Quotas.Most(quota.Fetch, c.User(), c.ClientID)))
	}
	return replica.FetchParams{
		ReplicaID: replicaID, MaxWait: time.Duration(r.MaxWaitMillis) * time.Millisecond,
		MinBytes: min(int(r.MinBytes), maxBytes), MaxBytes: maxBytes,
		HardLimit: r.Version < fetchSoftLimits, Committed: r.IsolationLevel == readCommitted,
		RefuseZstdTopics: refusesZstd(s.Embedded, r.Version), Gone: c.Dead,
		AnyReplica: r.Version >= fetchRack, Rack: r.Rack,
	}
}

// refusesZstd says whether topics with compression.type=zstd are refused. 3.9 does so below v10; 4.4, which knows no
// version below v4, passes them through to whoever asks.
func refusesZstd(embedded bool, version int16) bool {
	return version < fetchUnconverted || !embedded && version < fetchZstd
}

// fetchEntries resolves the partitions of a session. What the cluster does not have is refused at once, but does not
// end the wait for the rest.
func fetchEntries(image *metadata.Image, version int16, wanted []fetchsession.Partition) []replica.FetchEntry {
	entries := make([]replica.FetchEntry, len(wanted))
	for i := range wanted {
		w, e := &wanted[i], &entries[i]
		*e = replica.FetchEntry{
			Topic: w.Topic, TopicID: log.TopicID(w.ID), Partition: w.Partition, CurrentLeaderEpoch: w.CurrentLeaderEpoch,
			LastFetchedEpoch: w.LastFetchedEpoch, MaxBytes: int(w.MaxBytes), Offset: w.FetchOffset, LogStart: w.LogStartOffset,
		}
		topic, err := image.Topic(w.Topic), error(errUnknownPartition)
		if version >= fetchByID {
			topic, err = image.TopicByID(log.TopicID(w.ID)), errUnknownTopicID
		}
		if topic == nil {
			e.Err = err
			continue
		}
		e.Topic = topic.Name
		if topic.Partition(w.Partition) == nil {
			e.Err = errUnknownPartition
		}
	}
	return entries
}
