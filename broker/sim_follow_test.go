package broker

import (
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/broker/replica/fetcher"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// simFollowers drives a process's fetcher machines, one for each leader's broker, as fetcher.Set does.
type simFollowers struct {
	proc     *simProc
	fetchers map[int32]*simFetcher
	of       map[log.TopicPartition]*simFetcher
}

// simFetcher is what fetcher.fetcher is.
type simFetcher struct {
	proc    *simProc
	to      int32
	machine *fetcher.Machine
	peer    *simPeer
	inbox   []func(*fetcher.Machine)
	busy    bool
	giveUp  func() // the Fetch that is on its way
	woken   int
}

func (s *simFollowers) Follow(broker int32, assignments []fetcher.Assignment) {
	f := s.fetchers[broker]
	if f == nil {
		f = &simFetcher{proc: s.proc, to: broker, peer: &simPeer{proc: s.proc, id: broker}, machine: fetcher.NewMachine(fetcher.Settings{
			BrokerID: s.proc.id, BrokerEpoch: func() int64 { return s.proc.control.epoch }, MaxWait: 500 * time.Millisecond, MinBytes: 1,
			MaxBytes: 10 << 20, PartitionBytes: 200, Backoff: time.Second, FetchVersion: 17, ListOffsetsVersion: 9,
		})}
		s.fetchers[broker] = f
	}
	for _, a := range assignments {
		if old := s.of[a.TopicPartition]; old != nil && old != f {
			old.take(func(m *fetcher.Machine) { m.Remove(a.TopicPartition) })
		}
		s.of[a.TopicPartition] = f
		f.take(func(m *fetcher.Machine) { m.Add(a) })
	}
	if f.giveUp != nil && s.proc.w.rand.IntN(2) == 0 {
		f.giveUp()
		f.busy, f.giveUp = false, nil
		f.machine.Interrupted()
		f.wake(0)
	}
}

func (s *simFollowers) Forget(tps []log.TopicPartition) {
	for _, tp := range tps {
		if f := s.of[tp]; f != nil {
			delete(s.of, tp)
			f.take(func(m *fetcher.Machine) { m.Remove(tp) })
		}
	}
}

func (s *simFollowers) Close() {}

func (s *simFollowers) Resize(int) {}

// Failed implements replica.Following.
func (s *simFollowers) Failed() int { return 0 }

func (f *simFetcher) take(order func(*fetcher.Machine)) {
	f.inbox = append(f.inbox, order)
	f.wake(0)
}

func (f *simFetcher) wake(d time.Duration) {
	f.woken++
	woken := f.woken
	f.proc.after(d, "fetcher", func() {
		if f.woken == woken && !f.busy {
			f.next()
		}
	})
}

func (f *simFetcher) next() {
	for _, order := range f.inbox {
		order(f.machine)
	}
	f.inbox = nil
	now := func() time.Duration { return simClock{f.proc}.Monotonic() }
	s := f.machine.Next(now())
	switch r := s.Request.(type) {
	case *kmsg.FetchRequest:
		f.busy = true
		f.proc.w.sayFetch(f, r)
		f.giveUp = f.peer.call(simRequestTimeout, func(to *simProc, reply func(any)) { to.serveFetch(r, reply) }, func(answer any, err error) {
			f.busy, f.giveUp = false, nil
			response, _ := answer.(*kmsg.FetchResponse)
			f.proc.w.sayAnswer(f, response, err)
			f.machine.Fetched(now(), response, err)
			f.wake(0)
		})
	case *kmsg.ListOffsetsRequest:
		f.busy = true
		f.peer.call(simRequestTimeout, func(to *simProc, reply func(any)) { reply(to.serveOffsets(r)) }, func(answer any, err error) {
			f.busy = false
			response, _ := answer.(*kmsg.ListOffsetsResponse)
			f.proc.w.say("%d asked %d for offsets %+v: %+v, %v", f.proc.id, f.to, r.Topics, response, err)
			f.machine.Listed(now(), r, response, err)
			f.wake(0)
		})
	default:
		f.proc.w.say("%d waits with fetching from %d for %v", f.proc.id, f.to, s.Wait)
		if s.Wait != fetcher.Forever {
			f.wake(s.Wait)
		}
	}
	for _, r := range f.machine.Refused() {
		f.proc.w.say("%d has trouble with %s-%d in epoch %d: %v", f.proc.id, r.Topic, r.Partition, r.LeaderEpoch, r.Err)
	}
}

func (w *simWorld) sayFetch(f *simFetcher, r *kmsg.FetchRequest) {
	for _, t := range r.Topics {
		for _, q := range t.Partitions {
			w.say("%d fetches from %d: session %d/%d, %x-%d at %d, epoch %d, last %d", f.proc.id, f.to, r.SessionID, r.SessionEpoch, t.TopicID[:2], q.Partition,
				q.FetchOffset, q.CurrentLeaderEpoch, q.LastFetchedEpoch)
		}
	}
	for _, t := range r.ForgottenTopics {
		w.say("%d forgets at %d: session %d/%d, %x-%v", f.proc.id, f.to, r.SessionID, r.SessionEpoch, t.TopicID[:2], t.Partitions)
	}
}

func (w *simWorld) sayAnswer(f *simFetcher, r *kmsg.FetchResponse, err error) {
	if err != nil || r.ErrorCode != 0 {
		w.say("%d got nothing from %d: %v %+v", f.proc.id, f.to, err, r)
		return
	}
	for _, t := range r.Topics {
		for _, q := range t.Partitions {
			w.say("%d got from %d: session %d, %x-%d code %d, %d bytes, high watermark %d, diverging %v", f.proc.id, f.to, r.SessionID, t.TopicID[:2], q.Partition,
				q.ErrorCode, len(q.RecordBatches), q.HighWatermark, q.DivergingEpoch)
		}
	}
}

// serveFetch serves a follower as broker/api does.
func (p *simProc) serveFetch(r *kmsg.FetchRequest, reply func(any)) {
	response := kmsg.NewPtrFetchResponse()
	response.Version = r.Version
	q := &fetchsession.Request{SessionID: r.SessionID, Epoch: r.SessionEpoch, ByID: true, Follower: true}
	for _, t := range r.Topics {
		for _, f := range t.Partitions {
			q.Partitions = append(q.Partitions, fetchsession.Partition{
				Key: fetchsession.Key{ID: t.TopicID, Partition: f.Partition}, CurrentLeaderEpoch: f.CurrentLeaderEpoch,
				LastFetchedEpoch: f.LastFetchedEpoch, MaxBytes: f.PartitionMaxBytes, FetchOffset: f.FetchOffset, LogStartOffset: f.LogStartOffset,
			})
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, f := range t.Partitions {
			q.Forgotten = append(q.Forgotten, fetchsession.Key{ID: t.TopicID, Partition: f})
		}
	}
	x, code := p.sessions.Open(q)
	if response.ErrorCode = code; code != 0 {
		reply(response)
		return
	}
	wanted := x.Partitions()
	entries := make([]replica.FetchEntry, len(wanted))
	for i, w := range wanted {
		entries[i] = replica.FetchEntry{
			TopicID: w.ID, Partition: w.Partition, CurrentLeaderEpoch: w.CurrentLeaderEpoch, LastFetchedEpoch: w.LastFetchedEpoch,
			MaxBytes: int(w.MaxBytes), Offset: w.FetchOffset, LogStart: w.LogStartOffset,
		}
		if t := p.image.Image().TopicByID(w.ID); t != nil {
			entries[i].Topic = t.Name
		} else {
			entries[i].Err = replica.ErrUnknownTopicID
		}
	}
	p.replicas.Fetch(replica.FetchParams{
		ReplicaID: r.ReplicaState.ID, MaxWait: time.Duration(r.MaxWaitMillis) * time.Millisecond, MinBytes: int(r.MinBytes), MaxBytes: int(r.MaxBytes),
	}, entries, func(results []replica.FetchResult) { reply(p.fetchAnswer(response, x, wanted, results)) })
}

func (p *simProc) fetchAnswer(response *kmsg.FetchResponse, x *fetchsession.Context, wanted []fetchsession.Partition, results []replica.FetchResult) any {
	told := make([]fetchsession.Result, len(results))
	for i := range results {
		f := &results[i]
		told[i] = fetchsession.Result{
			RecordBytes: f.Records.Size(), HighWatermark: f.HighWatermark, LogStartOffset: f.LogStartOffset, Code: errcode.Of(f.Err), Always: f.Diverging != nil,
		}
	}
	response.SessionID, response.ErrorCode = x.Finish(told)
	for i := range results {
		f := &results[i]
		q := kmsg.NewFetchResponseTopicPartition()
		q.Partition, q.ErrorCode, q.HighWatermark, q.LogStartOffset = wanted[i].Partition, told[i].Code, f.HighWatermark, f.LogStartOffset
		q.RecordBatches = p.w.contents(f)
		if f.Diverging != nil {
			q.DivergingEpoch.Epoch, q.DivergingEpoch.EndOffset = f.Diverging.Epoch, f.Diverging.End
		}
		if !told[i].Omit {
			response.Topics = append(response.Topics, kmsg.FetchResponseTopic{TopicID: wanted[i].ID, Partitions: []kmsg.FetchResponseTopicPartition{q}})
		}
	}
	return response
}

// contents copies the records of a result, and releases them.
func (w *simWorld) contents(r *replica.FetchResult) []byte {
	if r.Records.File == nil {
		return r.Records.Bytes
	}
	defer r.Records.File.Release()
	buf := make([]byte, r.Records.Len)
	if _, err := r.Records.File.ReadAt(buf, r.Records.Pos); err != nil && err != io.EOF {
		w.t.Errorf("reading a result: %v", err)
	}
	return buf
}

func (p *simProc) serveOffsets(r *kmsg.ListOffsetsRequest) any {
	response := kmsg.NewPtrListOffsetsResponse()
	for _, rt := range r.Topics {
		for _, rp := range rt.Partitions {
			o, err := p.replicas.Offset(&replica.OffsetQuery{
				Topic: rt.Topic, Partition: rp.Partition, Timestamp: rp.Timestamp, CurrentLeaderEpoch: rp.CurrentLeaderEpoch, ReplicaID: r.ReplicaID,
			})
			q := kmsg.NewListOffsetsResponseTopicPartition()
			q.Partition, q.Offset, q.ErrorCode = rp.Partition, o.Offset, errcode.Of(err)
			response.Topics = append(response.Topics, kmsg.ListOffsetsResponseTopic{Topic: rt.Topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{q}})
		}
	}
	return response
}

// tpName is how people write a partition.
func tpName(tp log.TopicPartition) string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }
