package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/log/record"
)

// BenchmarkProduce is what the replica manager, the record check and the log spend on one small batch, acks=all, with
// nobody waiting and with one consumer who is woken by each.
func BenchmarkProduce(b *testing.B) {
	for _, waiting := range []bool{false, true} {
		name := map[bool]string{false: "nobody waits", true: "a consumer waits"}[waiting]
		b.Run(name, func(b *testing.B) {
			f := newFixture(b)
			f.lead("t", idOf(1), 1)
			value := batch(b, record.None, strings.Repeat("v", 100), 1)
			entries := make([]ProduceEntry, 1)
			woken := make(chan struct{}, 1)
			offset := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				if waiting {
					p := look()
					p.MaxWait = time.Minute
					f.Fetch(p, []FetchEntry{from("t", 0, offset)}, func(rs []FetchResult) {
						release(rs)
						woken <- struct{}{}
					})
				}
				value.SetBaseOffset(0)
				entries[0] = ProduceEntry{Topic: "t", Records: value}
				f.Produce(ProduceParams{Version: 11, Acks: AcksAll}, entries, func(rs []ProduceResult) {
					if rs[0].Err != nil {
						b.Fatal(rs[0].Err)
					}
				})
				if waiting {
					<-woken
					offset++
				}
			}
		})
	}
}

// BenchmarkFetch is a consumer's fetch of one partition that has data.
func BenchmarkFetch(b *testing.B) {
	f := newFixture(b)
	f.lead("t", idOf(1), 1)
	for range 1000 {
		f.mustPut("t", 0, batch(b, record.None, strings.Repeat("v", 1000), 1))
	}
	offset := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		f.Fetch(look(), []FetchEntry{from("t", 0, offset)}, func(rs []FetchResult) {
			if rs[0].Records.Size() == 0 {
				b.Fatal("nothing read")
			}
			release(rs)
		})
		offset = (offset + 17) % 900
	}
}
