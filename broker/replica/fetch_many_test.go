package replica

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestFetchOfMany: of more partitions than are all read again, those answer at which something happened.
func TestFetchOfMany(t *testing.T) {
	const n = 3 * fewEntries
	for name, c := range map[string]struct {
		minBytes int
		then     func(*fixture)
		check    func(i int, r *FetchResult) bool
	}{
		"a record": {1, func(f *fixture) { f.mustPut("t", n-1, one(f.t, "v")) }, func(i int, r *FetchResult) bool {
			return r.Err == nil && (r.Records.Size() > 0) == (i == n-1) && r.HighWatermark == int64((i+1)/n)
		}},
		"enough bytes in several": {150, func(f *fixture) {
			for i := range int32(3) {
				f.mustPut("t", i, one(f.t, "v"))
			}
		}, func(i int, r *FetchResult) bool { return r.Err == nil && (r.Records.Size() > 0) == (i < 3) }},
		"too few bytes": {1000, func(f *fixture) { f.mustPut("t", 7, one(f.t, "v")) }, func(i int, r *FetchResult) bool {
			return r.Err == nil && (r.Records.Size() > 0) == (i == 7)
		}},
		"a deleted one": {1, func(f *fixture) { f.remove("t", 1) }, func(i int, r *FetchResult) bool {
			return errors.Is(r.Err, kerr.UnknownTopicOrPartition) == (i == 0)
		}},
		"nothing": {1, func(*fixture) {}, func(_ int, r *FetchResult) bool { return r.Err == nil && r.HighWatermark == 0 && r.LogStartOffset == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.lead("t", idOf(1), n)
				p := look()
				p.MaxWait, p.MinBytes = time.Second, c.minBytes
				var entries []FetchEntry
				for i := range int32(n) {
					entries = append(entries, from("t", i, 0))
				}
				answer := f.start(p, entries...)
				waits(t, answer)
				c.then(f)
				for i, r := range <-answer {
					if !c.check(i, &r) {
						t.Errorf("partition %d: %+v", i, r)
					}
				}
			})
		})
	}
}

// BenchmarkFollowerFetch is what a leader spends on a record in one of the partitions that a follower waits for.
func BenchmarkFollowerFetch(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("of %d partitions", n), func(b *testing.B) {
			f := newFixture(b)
			f.mustObey(f.order("t", idOf(1), n, 1, self, 2))
			woken := make(chan struct{}, 1)
			offset := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				entries := make([]FetchEntry, n)
				for i := range entries {
					entries[i] = from("t", int32(i), 0)
					entries[i].CurrentLeaderEpoch = 1
				}
				entries[n/2].Offset = offset
				p := FetchParams{ReplicaID: 2, MaxWait: time.Minute, MinBytes: 1, MaxBytes: 10 << 20}
				f.Fetch(p, entries, func(rs []FetchResult) {
					release(rs)
					woken <- struct{}{}
				})
				f.mustPut("t", int32(n/2), one(b, "v"))
				<-woken
				offset++
			}
		})
	}
}
