package quota

import (
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

var elevenSeconds = Windows{Num: 11, Size: time.Second}

func TestReplication(t *testing.T) {
	c := clock.NewFake(time.UnixMilli(0))
	r := NewReplication(c, elevenSeconds)
	r.Record(1 << 40)
	if r.Exceeded() {
		t.Error("exceeded without a limit")
	}
	r = NewReplication(c, elevenSeconds)
	r.SetLimit(100)
	r.Record(100)
	if r.Exceeded() {
		t.Error("100 bytes in a second are not above 100 B/s")
	}
	r.Record(1)
	if !r.Exceeded() {
		t.Error("101 bytes in a second are above 100 B/s")
	}
	c.Advance(2 * time.Second)
	if r.Exceeded() {
		t.Error("101 bytes in two seconds are not above 100 B/s")
	}
	r.Record(899) // 1000 in 2 s
	for i := range 8 {
		if !r.Exceeded() {
			t.Errorf("1000 bytes in %d s are above 100 B/s", 2+i)
		}
		c.Advance(time.Second)
	}
	if r.Exceeded() {
		t.Error("1000 bytes in 10 s are not above 100 B/s")
	}
	r.Record(1)
	if !r.Exceeded() {
		t.Error("1001 bytes in 10 s are above 100 B/s")
	}
	c.Advance(11 * time.Second)
	if r.Exceeded() {
		t.Error("what happened eleven seconds ago still counts")
	}
	r.Record(150)
	r.SetLimit(150)
	if r.Exceeded() {
		t.Error("a limit that was raised holds")
	}
}

func TestThrottledReplicas(t *testing.T) {
	r := NewReplication(clock.System, elevenSeconds)
	r.Throttle("a", Replicas{Partitions: []int32{1, 3}})
	r.Throttle("b", Replicas{All: true})
	r.Throttle("c", Replicas{})
	for _, c := range []struct {
		topic     string
		partition int32
		want      bool
	}{{"a", 1, true}, {"a", 2, false}, {"a", 3, true}, {"b", 77, true}, {"c", 0, false}, {"d", 0, false}} {
		if got := r.Throttled(c.topic, c.partition); got != c.want {
			t.Errorf("%s-%d: %v", c.topic, c.partition, got)
		}
	}
	r.Throttle("a", Replicas{})
	r.Throttle("b", Replicas{})
	if r.Any() || r.Throttled("b", 0) {
		t.Error("throttles are left")
	}
}

// A client's rate is measured as if it had run ten seconds before.
func TestRate(t *testing.T) {
	w := window{Windows: elevenSeconds}
	w.add(0, 1000)
	if r, over := w.rate(0); r != 100 || over != 10*time.Second {
		t.Errorf("%v over %v", r, over)
	}
	if r, over := w.rate(500 * time.Millisecond); over != 10*time.Second+500*time.Millisecond || r < 95 || r > 96 {
		t.Errorf("%v over %v", r, over)
	}
	for s := time.Second; s <= 10*time.Second; s += time.Second {
		w.add(s, 1000)
	}
	if r, over := w.rate(10 * time.Second); r != 1100 || over != 10*time.Second {
		t.Errorf("%v over %v", r, over)
	}
	if r, over := w.rate(12 * time.Second); r < 900 || r > 1000 || over > 12*time.Second {
		t.Errorf("%v over %v", r, over)
	}
	if r, _ := w.rate(time.Minute); r != 0 {
		t.Errorf("%v after a minute", r)
	}
}
