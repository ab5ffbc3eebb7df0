package fetcher

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
)

// exchange is a line of testdata/fetch-3.9.2.jsonl.
type exchange struct {
	ReceivedBy int32  `json:"received_by"`
	Step       string `json:"step"`
	ClientID   string `json:"client_id"`
	Request    struct {
		ReplicaState struct {
			ReplicaID    int32
			ReplicaEpoch int64
		}
		MaxWaitMs, MinBytes, MaxBytes int32
		IsolationLevel                int8
		SessionID, SessionEpoch       int32
		Topics                        []struct {
			TopicID    string
			Partitions []struct {
				Partition, CurrentLeaderEpoch, LastFetchedEpoch, PartitionMaxBytes int32
				FetchOffset, LogStartOffset                                        int64
			}
		}
		RackID string
	}
	Response struct {
		SessionID int32
		Responses []struct {
			TopicID    string
			Partitions []struct {
				PartitionIndex                int32
				ErrorCode                     int16
				HighWatermark, LogStartOffset int64
				DivergingEpoch                *struct {
					Epoch     int32
					EndOffset int64
				}
			}
		}
	}
}

func exchanges(t *testing.T) []exchange {
	t.Helper()
	f, err := os.Open("testdata/fetch-3.9.2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var xs []exchange
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var x exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	return xs
}

func parseID(t *testing.T, s string) log.TopicID {
	t.Helper()
	id, err := log.ParseTopicID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// request is what the follower of Apache Kafka sent.
func (x *exchange) request(t *testing.T) *kmsg.FetchRequest {
	t.Helper()
	q := &x.Request
	r := kmsg.NewPtrFetchRequest()
	r.Version = 17
	r.ReplicaState.ID, r.ReplicaState.Epoch = q.ReplicaState.ReplicaID, q.ReplicaState.ReplicaEpoch
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes = q.MaxWaitMs, q.MinBytes, q.MaxBytes
	r.SessionID, r.SessionEpoch, r.Rack = q.SessionID, q.SessionEpoch, q.RackID
	for _, qt := range q.Topics {
		topic := kmsg.NewFetchRequestTopic()
		topic.TopicID = parseID(t, qt.TopicID)
		for _, qp := range qt.Partitions {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LastFetchedEpoch = qp.Partition, qp.CurrentLeaderEpoch, qp.LastFetchedEpoch
			p.FetchOffset, p.LogStartOffset, p.PartitionMaxBytes = qp.FetchOffset, qp.LogStartOffset, qp.PartitionMaxBytes
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

// at is a replica that ends where the follower of Apache Kafka said.
func at(start, end int64, lastEpoch, leaderEpoch int32) *replica {
	r := newReplica(leaderEpoch, start)
	for r.end() < end {
		r.records = append(r.records, 1)
	}
	if end > start {
		r.history, _ = r.history.Assign(1, start)
	}
	if lastEpoch > 1 {
		r.history, _ = r.history.Assign(lastEpoch, end)
	}
	return r
}

// TestGoldenRequests: the same bytes as a follower of Apache Kafka 3.9.2 in the same position.
func TestGoldenRequests(t *testing.T) {
	xs := exchanges(t)
	for i, x := range xs {
		q := &x.Request
		m := NewMachine(Settings{
			BrokerID: q.ReplicaState.ReplicaID, BrokerEpoch: func() int64 { return q.ReplicaState.ReplicaEpoch },
			MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20, PartitionBytes: 1 << 20, Backoff: time.Second, FetchVersion: 17,
		})
		m.session = session{id: q.SessionID, epoch: q.SessionEpoch}
		for n, qt := range q.Topics {
			for _, qp := range qt.Partitions {
				m.Add(Assignment{
					log.TopicPartition{Topic: fmt.Sprint("t", n), Partition: qp.Partition}, parseID(t, qt.TopicID), qp.CurrentLeaderEpoch,
					at(qp.LogStartOffset, qp.FetchOffset, qp.LastFetchedEpoch, qp.CurrentLeaderEpoch),
				})
			}
		}
		got, ok := m.Next(0).Request.(*kmsg.FetchRequest)
		if want := x.request(t).AppendTo(nil); !ok || !bytes.Equal(got.AppendTo(nil), want) {
			t.Errorf("%s at %d: %+v", x.Step, x.ReceivedBy, got)
			continue
		}
		m.Fetched(0, x.response(t), nil)
		next := m.Next(0)
		x.check(t, m, next)
		if x.diverges() { // the file goes on with what it asked next
			if want := xs[i+1].request(t).AppendTo(nil); !bytes.Equal(next.Request.AppendTo(nil), want) {
				t.Errorf("after the histories parted: %+v", next.Request)
			}
		}
	}
}

func (x *exchange) diverges() bool {
	for _, at := range x.Response.Responses {
		for _, ap := range at.Partitions {
			if ap.DivergingEpoch != nil {
				return true
			}
		}
	}
	return false
}

func (x *exchange) response(t *testing.T) *kmsg.FetchResponse {
	t.Helper()
	r := kmsg.NewPtrFetchResponse()
	r.SessionID = x.Response.SessionID
	for _, at := range x.Response.Responses {
		topic := kmsg.NewFetchResponseTopic()
		topic.TopicID = parseID(t, at.TopicID)
		for _, ap := range at.Partitions {
			p := answer(ap.PartitionIndex)
			p.ErrorCode, p.HighWatermark, p.LogStartOffset = ap.ErrorCode, ap.HighWatermark, ap.LogStartOffset
			if d := ap.DivergingEpoch; d != nil {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = d.Epoch, d.EndOffset
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

// check looks at what follows the answer: those that were refused wait, one whose history differs asks with the epoch
// before, and the session goes on.
func (x *exchange) check(t *testing.T, m *Machine, next Step) {
	t.Helper()
	refused, diverged, all := 0, 0, 0
	for _, at := range x.Response.Responses {
		for _, ap := range at.Partitions {
			all++
			if ap.ErrorCode != 0 {
				refused++
			}
			if ap.DivergingEpoch != nil {
				diverged++
			}
		}
	}
	if len(m.delayed) != refused {
		t.Errorf("%s at %d: %d wait, want %d", x.Step, x.ReceivedBy, len(m.delayed), refused)
	}
	if all > 0 && refused == all {
		if next.Request != nil || next.Wait != time.Second/32 {
			t.Errorf("%s at %d: next is %+v", x.Step, x.ReceivedBy, next)
		}
		return
	}
	r := next.Request.(*kmsg.FetchRequest)
	if r.SessionID != x.Response.SessionID || r.SessionEpoch != x.Request.SessionEpoch+1 || len(r.Topics) != diverged || len(r.ForgottenTopics) != min(1, refused) {
		t.Errorf("%s at %d: next is %+v", x.Step, x.ReceivedBy, r)
	}
}
