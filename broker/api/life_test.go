package api

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lifeErrors are what clients of a topic that goes and comes may see: all make them look the topic up again.
var lifeErrors = []int16{0, kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code, kerr.InconsistentTopicID.Code, kerr.KafkaStorageError.Code}

// life is a topic that is deleted and created again while clients use it.
type life struct {
	*plane
	stop     atomic.Bool
	progress chan struct{} // a token when a consumer has read something
	value    []byte
}

// TestTopicLifeUnderLoad: producers and consumers see only errors that make them look the topic up again; a consumer
// reads each life of the topic from offset 0 on without a gap; nobody waits for what will not come.
func TestTopicLifeUnderLoad(t *testing.T) {
	const lives, partitions = 6, 2
	l := &life{plane: newPlane(t), progress: make(chan struct{}, 1)}
	l.value = records(t, record.BatchOptions{}, "v", clock.System.Now().UnixMilli())
	l.topic("t", partitions)
	var clients sync.WaitGroup
	for _, version := range []int16{9, 13} {
		c := l.client()
		clients.Go(func() { l.produce(c, version) })
	}
	for range 2 {
		c := l.client()
		clients.Go(func() {
			for !l.stop.Load() {
				l.consume(c, partitions)
			}
		})
	}
	late, timer := clock.System.NewTimer(time.Minute)
	for range lives {
		for range 20 {
			select {
			case <-l.progress:
			case <-late:
				t.Fatal("the consumers read nothing")
			}
		}
		l.delete("t", partitions)
		l.topic("t", partitions)
	}
	timer.Stop()
	l.stop.Store(true)
	clients.Wait()
}

// produce writes to whatever topic has the name at the moment.
func (l *life) produce(c *wireClient, version int16) {
	for partition := int32(0); !l.stop.Load(); partition ^= 1 {
		r := produceOf(version, -1, to{"t", partition, l.value})
		if topic := l.services.Metadata.Image().Topic("t"); topic != nil {
			r.Topics[0].TopicID = topic.ID
		}
		if code := ask[*kmsg.ProduceResponse](c, r).Topics[0].Partitions[0].ErrorCode; !slices.Contains(lifeErrors, code) {
			l.t.Errorf("produce v%d: error %d", version, code)
		}
	}
}

// consume reads one life of the topic, by its id in a session, until that ends.
func (l *life) consume(c *wireClient, partitions int32) {
	topic := l.services.Metadata.Image().Topic("t")
	if topic == nil {
		return
	}
	next := make([]int64, partitions)
	r := fetchOf(13)
	r.SessionEpoch, r.MaxWaitMillis = 0, 100
	for i := range partitions {
		want(r, topic.ID, i, 0)
	}
	for !l.stop.Load() {
		answer := ask[*kmsg.FetchResponse](c, r)
		if answer.ErrorCode != 0 {
			l.t.Errorf("fetch: error %d", answer.ErrorCode)
			return
		}
		r.SessionID, r.SessionEpoch, r.Topics = answer.SessionID, r.SessionEpoch+1, nil
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					if !slices.Contains(lifeErrors, p.ErrorCode) {
						l.t.Errorf("fetch: error %d", p.ErrorCode)
					}
					return
				}
				if l.follow(&next[p.Partition], p.RecordBatches) {
					want(r, topic.ID, p.Partition, next[p.Partition])
				}
			}
		}
	}
}

// want adds a partition to a fetch.
func want(r *kmsg.FetchRequest, id [16]byte, partition int32, offset int64) {
	t := kmsg.NewFetchRequestTopic()
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t.TopicID, t.Partitions = id, append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
}

// follow checks that records go on at next, moves that behind them, and reports whether there were any.
func (l *life) follow(next *int64, batches []byte) bool {
	from := *next
	for len(batches) > 0 {
		e, rest, err := record.NextEntry(batches)
		if err != nil {
			break // cut by a limit
		}
		if e.BaseOffset() != *next {
			l.t.Errorf("offset %d after %d", e.BaseOffset(), *next-1)
		}
		*next, batches = e.LastOffset()+1, rest
	}
	if *next == from {
		return false
	}
	select {
	case l.progress <- struct{}{}:
	default:
	}
	return true
}
