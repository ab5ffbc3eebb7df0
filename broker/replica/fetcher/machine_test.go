package fetcher

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
)

var topicID = log.TopicID{7}

func newMachine() *Machine {
	return NewMachine(Settings{
		BrokerID: 2, BrokerEpoch: func() int64 { return 99 }, MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20,
		PartitionBytes: 1 << 20, Backoff: time.Second, FetchVersion: 17, ListOffsetsVersion: 9,
	})
}

func assign(partition int32, r *replica) Assignment {
	return Assignment{log.TopicPartition{Topic: "t", Partition: partition}, topicID, r.leaderEpoch, r}
}

// asked describes a Fetch: session, partitions with their offsets and last epochs, what is forgotten.
func asked(t *testing.T, s Step) string {
	t.Helper()
	r, ok := s.Request.(*kmsg.FetchRequest)
	if !ok {
		t.Fatalf("the next step is %+v, not a fetch", s)
	}
	text := fmt.Sprintf("%d/%d", r.SessionID, r.SessionEpoch)
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			text += fmt.Sprintf(" %d@%d:%d", p.Partition, p.FetchOffset, p.LastFetchedEpoch)
		}
	}
	for _, topic := range r.ForgottenTopics {
		text += fmt.Sprintf(" -%v", topic.Partitions)
	}
	return text
}

func expect(t *testing.T, s Step, want string) {
	t.Helper()
	if got := asked(t, s); got != want {
		t.Fatalf("asks %q, want %q", got, want)
	}
}

func records(t *testing.T, partition int32, hw int64, sets ...[]byte) kmsg.FetchResponseTopicPartition {
	p := answer(partition)
	p.HighWatermark, p.RecordBatches = hw, slices.Concat(sets...)
	return p
}

// TestSession: only what changed is asked for, and what is gone is forgotten.
func TestSession(t *testing.T) {
	m := newMachine()
	a, b, c := newReplica(3, 0), newReplica(3, 5, 2, 2), newReplica(3, 0)
	m.Add(assign(0, a))
	m.Add(assign(1, b))
	expect(t, m.Next(0), "0/0 0@0:-1 1@7:2")
	m.Fetched(0, answers(11, topicID, records(t, 0, 1, batch(t, 0, 3, 2)), answer(1)), nil)
	if a.end() != 2 || a.hw != 1 {
		t.Errorf("the log ends at %d, high watermark %d", a.end(), a.hw)
	}
	expect(t, m.Next(0), "11/1 0@2:3")
	m.Fetched(0, answers(11, topicID), nil)
	m.Add(assign(2, c))
	m.Remove(log.TopicPartition{Topic: "t", Partition: 1})
	expect(t, m.Next(0), "11/2 2@0:-1 -[1]")
	m.Fetched(0, answers(11, topicID, records(t, 0, 2)), nil)
	expect(t, m.Next(0), "11/3")
	m.Fetched(0, answers(11, topicID), nil)
	m.Add(assign(1, b)) // back again
	m.Remove(log.TopicPartition{Topic: "t", Partition: 2})
	m.Add(assign(2, c)) // never away, as the leader sees it
	expect(t, m.Next(0), "11/4 1@7:2 2@0:-1")
	broken := answers(0, topicID)
	broken.ErrorCode = kerr.InvalidFetchSessionEpoch.Code
	m.Fetched(0, broken, nil)
	expect(t, m.Next(0), "11/0 0@2:3 1@7:2 2@0:-1")
	broken.ErrorCode = kerr.FetchSessionIDNotFound.Code
	m.Fetched(0, broken, nil)
	if s := m.Next(0); s.Request != nil || s.Wait <= 0 {
		t.Errorf("a second refusal must not be followed at once: %+v", s)
	}
	expect(t, m.Next(time.Second), "0/0 0@2:3 1@7:2 2@0:-1")
	m.Fetched(time.Second, answers(0, topicID), nil) // the leader keeps no session
	expect(t, m.Next(time.Second), "0/0 0@2:3 1@7:2 2@0:-1")
}

// TestLateAnswers: an answer to what was asked before the last order changes nothing.
func TestLateAnswers(t *testing.T) {
	m := newMachine()
	a := newReplica(3, 0)
	m.Add(assign(0, a))
	expect(t, m.Next(0), "0/0 0@0:-1")
	a.leaderEpoch = 4
	m.Add(assign(0, a))
	m.Fetched(0, answers(11, topicID, records(t, 0, 1, batch(t, 0, 3, 1))), nil)
	if a.end() != 0 {
		t.Error("the answer was taken")
	}
	s := m.Next(0)
	expect(t, s, "11/1 0@0:-1")
	if e := s.Request.(*kmsg.FetchRequest).Topics[0].Partitions[0].CurrentLeaderEpoch; e != 4 {
		t.Errorf("in epoch %d", e)
	}
	a.leaderEpoch = 5 // the replica knows already, the machine not yet
	m.Fetched(0, answers(11, topicID, records(t, 0, 1, batch(t, 0, 3, 1))), nil)
	if a.end() != 0 || m.Refused() != nil || m.Failed() != 0 {
		t.Error("a superseded answer was taken, or complained about")
	}
	if s := m.Next(0); s.Wait != Forever {
		t.Errorf("nothing is to be done before the order: %+v", s)
	}
	m.Add(assign(0, a))
	expect(t, m.Next(0), "11/2 0@0:-1")
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  func(p *kmsg.FetchResponseTopicPartition)
		replica error
		waits   bool // and goes on
		refused int
	}{
		{"fenced", func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.FencedLeaderEpoch.Code }, nil, false, 1},
		{"leader knows an older epoch", func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.UnknownLeaderEpoch.Code }, nil, true, 0},
		{"leader is none", func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.NotLeaderForPartition.Code }, nil, true, 0},
		{"unknown topic", func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.UnknownTopicID.Code }, nil, true, 0},
		{"the leader's disk", func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.KafkaStorageError.Code }, nil, true, 1},
		{"corrupt", func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = make([]byte, 80) }, nil, true, 1},
		{"our disk", func(p *kmsg.FetchResponseTopicPartition) {}, errDisk, false, 1},
		{"our disk is full", func(p *kmsg.FetchResponseTopicPartition) {}, log.ErrStorage, true, 1},
		{"somebody else wrote", func(p *kmsg.FetchResponseTopicPartition) {}, log.ErrUnexpectedOffset, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine()
			a, b := newReplica(3, 0), newReplica(3, 0)
			m.Add(assign(0, a))
			m.Add(assign(1, b))
			m.Next(0)
			p := answer(0)
			c.answer(&p)
			a.err = c.replica
			m.Fetched(0, answers(11, topicID, p, answer(1)), nil)
			if got := m.Refused(); len(got) != c.refused || c.refused > 0 && got[0].Failed == c.waits {
				t.Errorf("refused: %+v", got)
			}
			if n := m.Failed(); (n == 1) == c.waits {
				t.Errorf("%d partitions have failed", n)
			}
			a.err = nil
			s := m.Next(0)
			expect(t, s, "11/1 -[0]")
			wait := s.Request.(*kmsg.FetchRequest).MaxWaitMillis
			if c.waits != (wait == 32) {
				t.Errorf("the others wait %d ms", wait)
			}
			m.Fetched(0, answers(11, topicID), nil)
			want := "11/2"
			if c.waits {
				want += " 0@0:-1"
			}
			expect(t, m.Next(time.Second/32), want)
			m.Add(assign(0, a))
			if n := m.Failed(); n != 0 {
				t.Errorf("%d partitions have failed that are fetched again", n)
			}
		})
	}
}

func TestBackoffGrows(t *testing.T) {
	m := newMachine()
	m.Add(assign(0, newReplica(3, 0)))
	now := time.Duration(0)
	for _, want := range []time.Duration{31250, 62500, 125000, 250000, 500000, 1000000, 1000000} {
		expect(t, m.Next(now), "0/0 0@0:-1")
		m.Fetched(now, nil, errors.New("connection refused"))
		s := m.Next(now)
		if s.Wait != want*time.Microsecond {
			t.Errorf("waits %v, want %v", s.Wait, want*time.Microsecond)
		}
		now += s.Wait
	}
	m.Next(now)
	m.Fetched(now, answers(0, topicID), nil)
	m.Next(now)
	m.Fetched(now, nil, errors.New("connection reset"))
	if s := m.Next(now); s.Wait != time.Second/32 {
		t.Errorf("after a success it begins anew: %v", s.Wait)
	}
	for range 3 {
		m.Fetched(now, nil, errors.New("connection reset"))
	}
	m.Add(assign(1, newReplica(3, 0)))
	if s := m.Next(now); s.Request == nil {
		t.Errorf("it rests, although the controller has just said that the leader's broker lives: %v", s.Wait)
	}
	m.Fetched(now, nil, errors.New("connection reset"))
	if s := m.Next(now); s.Wait != time.Second/32 {
		t.Errorf("after an assignment it begins anew: %v", s.Wait)
	}
}

// listed answers a ListOffsets with one offset for everything.
func listed(r *kmsg.ListOffsetsRequest, offset int64) *kmsg.ListOffsetsResponse {
	response := kmsg.NewPtrListOffsetsResponse()
	for _, rt := range r.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Offset = rp.Partition, offset
			topic.Partitions = append(topic.Partitions, p)
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}

// TestNothingToCompare: where the leader has deleted all by which the histories could be compared, nothing of ours is kept.
func TestNothingToCompare(t *testing.T) {
	for _, c := range []struct {
		name              string
		leaderStart, ends int64
		start, end        int64
	}{
		{"it parts above the leader's start", 5, 7, 0, 7},
		{"it parts at the leader's start", 6, 6, 6, 6},
		{"our log starts there, too", 0, 0, 0, 0},
	} {
		m := newMachine()
		a := newReplica(3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		m.Add(assign(0, a))
		m.Next(0)
		p := answer(0)
		p.LogStartOffset, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = c.leaderStart, 0, c.ends
		m.Fetched(0, answers(11, topicID, p), nil)
		if a.start != c.start || a.end() != c.end {
			t.Errorf("%s: %d to %d, want %d to %d", c.name, a.start, a.end(), c.start, c.end)
		}
	}
}

func TestOutOfRange(t *testing.T) {
	for _, c := range []struct {
		name        string
		latest      int64
		earliest    int64 // -1: not asked
		start, next int64
		lastEpoch   int32
	}{
		{"an unclean leader has less", 12, -1, 10, 12, 2},
		{"the leader deleted what we need", 90, 50, 50, 50, -1},
		{"the leader has reached us", 14, 5, 10, 14, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine()
			a := newReplica(3, 10, 2, 2, 2, 2)
			m.Add(assign(0, a))
			m.Next(0)
			p := answer(0)
			p.ErrorCode = kerr.OffsetOutOfRange.Code
			m.Fetched(0, answers(11, topicID, p), nil)
			r := m.Next(0).Request.(*kmsg.ListOffsetsRequest)
			if q := r.Topics[0].Partitions[0]; q.Timestamp != -1 || q.CurrentLeaderEpoch != 3 || r.ReplicaID != 2 {
				t.Errorf("asks %+v", r)
			}
			m.Listed(0, r, listed(r, c.latest), nil)
			if c.earliest >= 0 {
				r = m.Next(0).Request.(*kmsg.ListOffsetsRequest)
				if q := r.Topics[0].Partitions[0]; q.Timestamp != -2 {
					t.Errorf("asks %+v", r)
				}
				m.Listed(0, r, listed(r, c.earliest), nil)
			}
			expect(t, m.Next(0), fmt.Sprintf("11/1 0@%d:%d", c.next, c.lastEpoch))
			if a.start != c.start {
				t.Errorf("the log starts at %d, want %d", a.start, c.start)
			}
		})
	}
}

// TestByName: one topic without an id, and all are named.
func TestByName(t *testing.T) {
	m := newMachine()
	m.Add(assign(0, newReplica(3, 0)))
	expect(t, m.Next(0), "0/0 0@0:-1")
	m.Fetched(0, answers(11, topicID), nil)
	old := newReplica(3, 0)
	m.Add(Assignment{TopicPartition: log.TopicPartition{Topic: "old"}, LeaderEpoch: 3, Replica: old})
	s := m.Next(0)
	expect(t, s, "11/0 0@0:-1 0@0:-1")
	if v := s.Request.(*kmsg.FetchRequest).Version; v != 12 {
		t.Errorf("version %d", v)
	}
	r := answers(12, log.TopicID{}, records(t, 0, 1, batch(t, 0, 3, 1)))
	r.Topics[0].Topic = "old"
	m.Fetched(0, r, nil)
	if old.end() != 1 {
		t.Error("the answer by name was not taken")
	}
	m.Remove(log.TopicPartition{Topic: "old"})
	s = m.Next(0)
	expect(t, s, "12/0 0@0:-1")
	if v := s.Request.(*kmsg.FetchRequest).Version; v != 17 {
		t.Errorf("version %d", v)
	}
}

// TestOldFormats: a log without epochs goes back to its high watermark.
func TestOldFormats(t *testing.T) {
	m := newMachine()
	a := newReplica(3, 0, 1, 1, 1)
	a.history, a.hw = nil, 2
	m.Add(assign(0, a))
	expect(t, m.Next(0), "0/0 0@2:-1")
}

func TestWholeEntries(t *testing.T) {
	one, two := batch(t, 0, 3, 2), batch(t, 2, 4, 1)
	both := slices.Concat(one, two)
	for _, c := range []struct {
		name  string
		buf   []byte
		epoch int32
		want  int
	}{
		{"nothing", nil, 9, 0}, {"all", both, 4, len(both)}, {"a later epoch", both, 3, len(one)},
		{"cut", both[:len(both)-1], 4, len(one)}, {"cut in the head", both[:len(one)+5], 4, len(one)},
		{"only a piece", one[:20], 4, 0}, {"garbage is for Append to refuse", append(slices.Clone(one), make([]byte, 50)...), 4, len(one) + 50},
	} {
		if got := wholeEntries(c.buf, c.epoch); len(got) != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, len(got), c.want)
		}
	}
}

func TestTruncationPoint(t *testing.T) {
	for _, c := range []struct {
		name                     string
		leaderEpoch              int32
		leaderEnd                int64
		ownEpoch                 int32
		ownEnd, logEnd, hw, want int64
	}{
		{"the leader's epoch ended before ours did", 4, 20, 4, 25, 30, 10, 20},
		{"ours ended before the leader's", 4, 25, 4, 20, 30, 10, 20},
		{"we do not know the leader's epoch", 4, 25, 3, 15, 30, 10, 15},
		{"the leader knows nothing", -1, -1, 4, 20, 30, 10, 10},
		{"we know nothing", 4, 25, -1, -1, 30, 10, 25},
		{"never beyond our end", 4, 50, 4, 40, 30, 10, 30},
	} {
		if got := TruncationPoint(c.leaderEpoch, c.leaderEnd, c.ownEpoch, c.ownEnd, c.logEnd, c.hw); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// budget is a Throttle of partition 0 whose limit is reached when the test says so.
type budget struct {
	spent    int
	exceeded bool
}

func (b *budget) Any() bool                                    { return true }
func (b *budget) Throttled(topic string, partition int32) bool { return topic == "t" && partition == 0 }
func (b *budget) Exceeded() bool                               { return b.exceeded }
func (b *budget) Record(bytes int)                             { b.spent += bytes }

// TestThrottle: what is throttled is left out of the Fetch while too much was fetched, until it is in sync.
func TestThrottle(t *testing.T) {
	m, b := newMachine(), &budget{}
	m.settings.Throttle = b
	m.Add(assign(0, newReplica(3, 0)))
	m.Add(assign(1, newReplica(3, 0)))
	expect(t, m.Next(0), "0/0 0@0:-1 1@0:-1")
	set := batch(t, 0, 3, 2)
	m.Fetched(0, answers(11, topicID, records(t, 0, 9, set), records(t, 1, 9, set)), nil)
	if b.spent != len(set) {
		t.Errorf("%d bytes are counted, want %d", b.spent, len(set))
	}
	b.exceeded = true
	s := m.Next(0)
	expect(t, s, "11/1 1@2:3 -[0]")
	if wait := s.Request.(*kmsg.FetchRequest).MaxWaitMillis; wait != 200 {
		t.Errorf("the fetch waits %d ms", wait)
	}
	m.Fetched(0, answers(11, topicID), nil)
	expect(t, m.Next(100*time.Millisecond), "11/2")
	m.Fetched(0, answers(11, topicID), nil)
	expect(t, m.Next(200*time.Millisecond), "11/3") // still too much
	m.Fetched(0, answers(11, topicID), nil)
	b.exceeded = false
	expect(t, m.Next(400*time.Millisecond), "11/4 0@2:3")
	m.Fetched(0, answers(11, topicID, records(t, 0, 2)), nil) // it has all that is committed
	b.exceeded = true
	expect(t, m.Next(400*time.Millisecond), "11/5")
	m.Remove(log.TopicPartition{Topic: "t", Partition: 1})
	m.Fetched(0, answers(11, topicID), nil)
	expect(t, m.Next(400*time.Millisecond), "11/6 -[1]")
}

// TestAllThrottled: with nothing else to fetch the machine waits.
func TestAllThrottled(t *testing.T) {
	m := newMachine()
	m.settings.Throttle = &budget{exceeded: true}
	m.Add(assign(0, newReplica(3, 0)))
	if s := m.Next(0); s.Request != nil || s.Wait != throttlePause {
		t.Errorf("the next step is %+v", s)
	}
}
