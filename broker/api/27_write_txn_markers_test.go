package api

import (
	"fmt"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceIn writes a batch of one record in a transaction, which nobody verifies here.
func (c *wireClient) produceIn(topic string, id int64, epoch int16, seq int32) {
	c.t.Helper()
	name := "tx"
	r := produceOf(9, -1, to{topic, 0, records(c.t, record.BatchOptions{
		ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq, Transactional: true,
	}, "v", clock.System.Now().UnixMilli())})
	r.TransactionID = &name
	if code := ask[*kmsg.ProduceResponse](c, r).Topics[0].Partitions[0].ErrorCode; code != 0 {
		c.t.Fatalf("produce: error %d", code)
	}
}

func markersOf(version int16, topic string, markers ...kmsg.WriteTxnMarkersRequestMarker) *kmsg.WriteTxnMarkersRequest {
	r := kmsg.NewPtrWriteTxnMarkersRequest()
	r.Version = version
	for _, m := range markers {
		m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{0, 7}}}
		r.Markers = append(r.Markers, m)
	}
	return r
}

// TestWriteTxnMarkers: every version ends the transactions of several producers at once; a partition that is not here is told
// for itself.
func TestWriteTxnMarkers(t *testing.T) {
	for version := range int16(3) {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			p := newPlane(t)
			p.topic("t", 1)
			c := p.client()
			c.produceIn("t", 1, 0, 0)
			c.produceIn("t", 2, 0, 0)
			c.produceIn("t", 3, 0, 0)
			ends := []kmsg.WriteTxnMarkersRequestMarker{
				{ProducerID: 1, Committed: true}, {ProducerID: 2, ProducerEpoch: 1, TransactionVersion: 2}, {ProducerID: 3, TransactionVersion: 2},
			}
			a := ask[*kmsg.WriteTxnMarkersResponse](c, markersOf(version, "t", ends...))
			for i, want := range []int16{0, 0, kerr.InvalidProducerEpoch.Code} {
				if version < 2 {
					want = 0 // they do not tell the transaction version
				}
				got := a.Markers[i].Topics[0].Partitions
				if got[0].ErrorCode != want || got[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
					t.Errorf("producer %d: errors %d and %d, want %d", a.Markers[i].ProducerID, got[0].ErrorCode, got[1].ErrorCode, want)
				}
			}
		})
	}
}

// TestFetchTransactions: control batches go to every client of v4 and later, under read_committed with the list of what was
// aborted; older clients see the records alone.
func TestFetchTransactions(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	c := p.client()
	c.produceIn("t", 1, 0, 0) // 0
	c.produceIn("t", 2, 0, 0) // 1
	aborted, committed := kmsg.WriteTxnMarkersRequestMarker{ProducerID: 1}, kmsg.WriteTxnMarkersRequestMarker{ProducerID: 2, Committed: true}
	ask[*kmsg.WriteTxnMarkersResponse](c, markersOf(1, "t", aborted, committed)) // 2, 3
	c.produceIn("t", 1, 0, 1)                                                    // 4, open
	for _, version := range []int16{0, 1, 2, 3, 4, 5, 7, 11, 12} {
		for level := range int8(2) {
			r := fetchOf(version, at{"t", 0, 0, 1 << 20})
			r.IsolationLevel = level
			a := c.fetch(r)[0]
			batches, controls := 0, 0
			for rest := a.RecordBatches; len(rest) > 0; {
				e, tail, err := record.NextEntry(rest)
				if err != nil {
					t.Fatalf("v%d: %v", version, err)
				}
				batches++
				if e.IsControl() {
					controls++
				}
				rest = tail
			}
			wantBatches, wantControls := 5, 2
			switch {
			case version < fetchUnconverted:
				wantBatches, wantControls = 3, 0
			case level == readCommitted:
				wantBatches = 4
			}
			if batches != wantBatches || controls != wantControls {
				t.Errorf("v%d, isolation level %d: %d batches, %d of control", version, level, batches, controls)
			}
			if version < fetchUnconverted {
				continue
			}
			if a.LastStableOffset != 4 || a.HighWatermark != 5 {
				t.Errorf("v%d: last stable offset %d, high watermark %d", version, a.LastStableOffset, a.HighWatermark)
			}
			switch list := a.AbortedTransactions; {
			case level == 0 && list != nil:
				t.Errorf("v%d: aborted %v for read_uncommitted", version, list)
			case level == readCommitted && (len(list) != 1 || list[0].ProducerID != 1 || list[0].FirstOffset != 0):
				t.Errorf("v%d: aborted %v", version, list)
			}
		}
	}
}
