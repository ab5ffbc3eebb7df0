package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/gregor-broker/gregor/wire/fetchenc"
	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/twmb/franz-go/pkg/kerr"
)

// fetching is a Fetch from its reading to its answer.
type fetching struct {
	follower bool
	services *Services
	call     *Call
	session  *fetchsession.Context
	wanted   []fetchsession.Partition
	entries  []replica.FetchEntry
}

// answer encodes the results that the session finds worth telling.
func (f *fetching) answer(results []replica.FetchResult) {
	if wait := f.throttled(results); wait > 0 {
		f.answerLater(results, wait)
		return
	}
	told := make([]fetchsession.Result, len(results))
	for i := range results {
		r, e := &results[i], &f.entries[i]
		if m := f.services.Meter; m != nil && e.Err == nil {
			m.Fetched(e.Topic, r.Records.Size(), howFetched(r.Err), f.follower)
			if r.Added {
				m.Reassigned(r.Records.Size())
			}
		}
		told[i] = fetchsession.Result{
			RecordBytes: r.Records.Size(), HighWatermark: r.HighWatermark, LogStartOffset: r.LogStartOffset,
			Code: f.call.Code(r.Err), Always: r.Diverging != nil || r.Preferred != replica.NoPreference,
			Settled: r.Settled,
		}
	}
	var response fetchenc.Response
	response.SessionID, response.ErrorCode = f.session.Finish(told)
	if response.ErrorCode != 0 {
		for i := range results {
			release(results[i].Records)
		}
		f.call.replyFetch(&response)
		return
	}
	f.fill(&response, results, told)
	f.call.replyFetch(&response)
}

// howFetched says what an error is, to who counts. The codes are those that Kafka knows, in ReplicaManager.readFromLog.
func howFetched(err error) meter.How {
	switch errcode.Of(err) {
	case 0:
		return meter.Well
	case kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.UnknownLeaderEpoch.Code, kerr.FencedLeaderEpoch.Code,
		kerr.ReplicaNotAvailable.Code, kerr.KafkaStorageError.Code, kerr.OffsetOutOfRange.Code, kerr.InconsistentTopicID.Code:
		return meter.Refused
	}
	return meter.Failed
}

// throttled counts what a consumer would get, and returns how long it is to wait: then it gets nothing, and that does not count.
func (f *fetching) throttled(results []replica.FetchResult) time.Duration {
	wait := f.call.throttled()
	if q := f.services.Quotas; !f.follower && q.Enabled(quota.Fetch) {
		bytes := 0.0
		for i := range results {
			bytes += float64(results[i].Records.Size())
		}
		user, client := f.call.User(), f.call.ClientID
		if wait = max(wait, q.Record(quota.Fetch, user, client, bytes)); wait > 0 {
			q.Unrecord(quota.Fetch, user, client, bytes)
		}
	}
	f.call.usage.told = wait
	return wait
}

// answerLater answers with nothing but the time, and leaves the session as it was.
func (f *fetching) answerLater(results []replica.FetchResult, wait time.Duration) {
	for i := range results {
		release(results[i].Records)
	}
	response := fetchenc.Response{ThrottleMillis: int32(wait.Milliseconds())}
	response.SessionID, response.ErrorCode = f.session.Throttled()
	f.call.request.Throttle(wait)
	f.call.replyFetch(&response)
}

func release(p payload.Part) {
	if p.File != nil {
		p.File.Release()
	}
}

// fill puts the partitions into the response, a topic for each run of partitions of the same one. Those that were
// refused unread come last, as in Kafka.
func (f *fetching) fill(response *fetchenc.Response, results []replica.FetchResult, told []fetchsession.Result) {
	partitions := make([]fetchenc.Partition, 0, len(results))
	partitions = f.fillThose(false, partitions, response, results, told)
	f.fillThose(true, partitions, response, results, told)
}

func (f *fetching) fillThose(refused bool, partitions []fetchenc.Partition, response *fetchenc.Response, results []replica.FetchResult, told []fetchsession.Result) []fetchenc.Partition {
	for i := range results {
		if told[i].Omit || refused != (f.entries[i].Err != nil) {
			continue
		}
		w := &f.wanted[i]
		partitions = append(partitions, f.partition(response, &f.entries[i], &results[i], told[i].Code))
		n := len(response.Topics)
		if n == 0 || response.Topics[n-1].Topic != w.Topic || response.Topics[n-1].TopicID != w.ID {
			response.Topics = append(response.Topics, fetchenc.Topic{Topic: w.Topic, TopicID: w.ID, Partitions: partitions[len(partitions)-1:]})
			continue
		}
		t := &response.Topics[n-1]
		t.Partitions = t.Partitions[:len(t.Partitions)+1] // the next of the shared array
	}
	return partitions
}

func (f *fetching) partition(response *fetchenc.Response, e *replica.FetchEntry, r *replica.FetchResult, code int16) fetchenc.Partition {
	p := fetchenc.Partition{
		Partition: e.Partition, ErrorCode: code, HighWatermark: r.HighWatermark, LastStableOffset: r.LastStable,
		LogStartOffset: r.LogStartOffset, PreferredReadReplica: r.Preferred, Records: r.Records,
	}
	if r.Aborted != nil || e.Err != nil {
		p.AbortedTransactions = abortedTransactions(r.Aborted) // empty, not null, for what was refused unread
	}
	if r.Diverging != nil {
		p.DivergingEpoch = &fetchenc.EpochEnd{Epoch: r.Diverging.Epoch, EndOffset: r.Diverging.End}
	}
	switch code {
	case 0:
		if f.call.Version < fetchUnconverted {
			f.convert(e, &p)
		}
	case kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code:
		if f.call.Version >= fetchLeader {
			f.addLeader(response, e, &p)
		}
	case kerr.UnknownServerError.Code:
		f.services.logUnexpected(f.call, "fetch", e.Topic, e.Partition, r.Err)
	}
	return p
}

func abortedTransactions(aborted []log.AbortedTxn) []fetchenc.AbortedTransaction {
	out := make([]fetchenc.AbortedTransaction, len(aborted))
	for i, a := range aborted {
		out[i] = fetchenc.AbortedTransaction{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset}
	}
	return out
}

func (f *fetching) addLeader(response *fetchenc.Response, e *replica.FetchEntry, p *fetchenc.Partition) {
	l := f.services.currentLeader(f.call, e.Topic, e.Partition)
	p.CurrentLeader = &fetchenc.Leader{ID: l.id, Epoch: l.epoch}
	known := slices.ContainsFunc(response.Brokers, func(b fetchenc.Broker) bool { return b.NodeID == l.id })
	if l.reachable && !known {
		response.Brokers = append(response.Brokers, fetchenc.Broker{NodeID: l.id, Host: l.Host, Port: l.Port, Rack: l.rack})
	}
}

// convert turns a partition's records into what clients of Fetch v0 to v3 understand. Under the hard limits of v0 to v2
// a first batch that does not fit leaves nothing, as in Apache Kafka since it stores batches.
func (f *fetching) convert(e *replica.FetchEntry, p *fetchenc.Partition) {
	if p.Records.Size() == 0 {
		return
	}
	stored := p.Records
	p.Records = payload.Part{}
	var err error
	if p.Records.Bytes, err = f.converted(e, stored); err == nil {
		return
	}
	*p = fetchenc.Partition{Partition: p.Partition, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, PreferredReadReplica: -1}
	if p.ErrorCode = f.call.Code(err); p.ErrorCode == kerr.UnknownServerError.Code {
		f.services.logUnexpected(f.call, "fetch", e.Topic, e.Partition, err)
	}
}

// errNoConversion is the answer where message.downconversion.enable is false (KIP-283).
var errNoConversion = errcode.New(kerr.UnsupportedVersion, "records of this topic are not converted for clients this old")

// converted returns what a client of Fetch v0 to v3 gets for stored records, which it releases.
func (f *fetching) converted(e *replica.FetchEntry, stored payload.Part) ([]byte, error) {
	defer release(stored)
	if !f.services.Downconvert(e.Topic) {
		return nil, errNoConversion
	}
	magic := int8(1)
	if f.call.Version < 2 {
		magic = 0
	}
	entries, err := readPart(stored)
	if err != nil {
		return nil, err
	}
	out, converted, err := record.Downconvert(nil, entries, magic, e.Offset, record.Limits{})
	f.services.Meter.Converted(e.Topic, converted, false)
	return out, err
}

// readPart copies a range of a log into memory.
func readPart(p payload.Part) ([]byte, error) {
	if p.File == nil {
		return p.Bytes, nil
	}
	buf := make([]byte, p.Len)
	if n, err := p.File.ReadAt(buf, p.Pos); n < len(buf) {
		return nil, fmt.Errorf("%w: %w", log.ErrStorage, err)
	}
	return buf, nil
}
