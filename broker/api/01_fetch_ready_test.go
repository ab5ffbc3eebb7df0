package api

import (
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFetchReady: only what is at the end of a log is read where connections wait for each other; older data, that of a
// session's other partitions too, on a handler.
func TestFetchReady(t *testing.T) {
	p := newPlane(t)
	small := func(c *log.Config) { c.SegmentBytes = 3000 }
	p.configure("t", small)
	p.configure("u", small)
	ids := map[string]log.TopicID{"t": p.topic("t", 1), "u": p.topic("u", 1)}
	c := p.client()
	for range 10 {
		for topic := range ids {
			c.mustProduce(topic, 0, records(t, record.BatchOptions{}, strings.Repeat("v", 1000), 1))
		}
	}
	of := func(version int16, wants ...at) *kmsg.FetchRequest {
		f := fetchOf(version, wants...)
		for i := range f.Topics {
			f.Topics[i].TopicID = ids[f.Topics[i].Topic]
		}
		return f
	}
	for _, version := range []int16{4, 12, 13, 17} {
		for _, w := range []struct {
			what  string
			wants []at
			ready bool
		}{
			{"the end", []at{{"t", 0, 10, 1000}}, true},
			{"the last batch", []at{{"t", 0, 9, 1000}}, true},
			{"the first", []at{{"t", 0, 0, 1000}}, false},
			{"the end and the first", []at{{"t", 0, 10, 1000}, {"u", 0, 0, 1000}}, false},
			{"out of range", []at{{"t", 0, 100, 1000}}, true},
			{"no such partition", []at{{"t", 5, 0, 1000}}, true},
			{"no such topic", []at{{"w", 0, 0, 1000}}, true},
		} {
			if got := fetchReady(p.services, of(version, w.wants...)); got != w.ready {
				t.Errorf("v%d, %s: %v", version, w.what, got)
			}
		}
	}
	if fetchReady(p.services, fetchOf(3, at{"t", 0, 10, 1000})) {
		t.Error("what must be converted is ready")
	}
	for _, w := range []struct {
		offset int64
		ready  bool
	}{{10, true}, {0, false}} {
		full := of(13, at{"t", 0, 10, 1000}, at{"u", 0, w.offset, 1000})
		full.SessionEpoch, full.MinBytes = 0, 0
		session := ask[*kmsg.FetchResponse](c, full).SessionID
		next := of(13, at{"t", 0, 10, 1000})
		next.SessionID, next.SessionEpoch = session, 1
		if got := fetchReady(p.services, next); session == 0 || got != w.ready {
			t.Errorf("in session %d with another partition at %d: %v", session, w.offset, got)
		}
	}
}
