package fetcher

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzFetched: whatever a leader answers, the machine goes on, and what was written is a log.
func FuzzFetched(f *testing.F) {
	good := answers(11, topicID, records(nil, 0, 5, batch(f, 0, 3, 2)), answer(1))
	diverging := answer(1)
	diverging.DivergingEpoch.Epoch, diverging.DivergingEpoch.EndOffset = 1, 3
	for _, r := range []*kmsg.FetchResponse{good, answers(0, topicID, diverging), answers(-1, topicID)} {
		r.Version = 17
		f.Add(r.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := kmsg.NewPtrFetchResponse()
		r.Version = 17
		if r.ReadFrom(body) != nil {
			return
		}
		m := newMachine()
		a, b := newReplica(3, 0), newReplica(3, 2, 1, 1, 2)
		m.Add(assign(0, a))
		m.Add(assign(1, b))
		m.Next(0)
		m.Fetched(0, r, nil)
		for range 3 {
			s := m.Next(0)
			if q, ok := s.Request.(*kmsg.ListOffsetsRequest); ok {
				m.Listed(0, q, listed(q, r.Topics[0].Partitions[0].HighWatermark), nil)
			} else if s.Request != nil {
				m.Fetched(0, r, nil)
			}
		}
		for _, x := range []*replica{a, b} {
			if x.start < 0 || x.hw > x.end() || x.hw < x.start {
				t.Errorf("%+v", x)
			}
		}
		if s := m.Next(0); s.Request == nil && s.Wait != Forever && s.Wait <= 0 {
			t.Errorf("neither something to do nor to wait for: %+v", s)
		}
	})
}
