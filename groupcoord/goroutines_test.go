package groupcoord

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// A group costs no goroutine, nor does a member, whatever it waits for: there is one for each partition of the internal topic.
func TestNoGoroutinePerGroup(t *testing.T) {
	inBubble(t, func(s *Settings) { s.Group.InitialRebalanceDelay = time.Hour }, func(w *world) {
		count := func() int {
			synctest.Wait()
			return runtime.NumGoroutine()
		}
		before := count()
		s := &script{topics: w.ids()}
		for i := range 500 {
			w.codeIs("a simple group", w.do(8, commitReq(fmt.Sprint("simple-", i), -1, "", "t", 1, 0)), 0)
			w.background(w.send(3, joinReq(fmt.Sprint("classic-", i), "", "range")))
			w.background(w.send(3, joinReq("large", "", "range")))
			w.codeIs("a member of the consumer protocol", w.do(1, s.beat(fmt.Sprint("modern-", i), "m", 0, nil, to("t"))), 0)
			w.codeIs("one more of a large group", w.do(1, s.beat("modern", fmt.Sprint("m", i), 0, nil, to("t"))), 0)
		}
		if after := count(); after > before {
			t.Errorf("%d goroutines, %d before there were 1,502 groups with 2,000 members", after, before)
		}
	})
}

// ids are those of the topics.
func (w *world) ids() map[string][16]byte {
	id, _ := w.topics.TopicID("t")
	return map[string][16]byte{"t": id}
}
