package txn

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/states.txt anew; review what has changed")

// reach brings an id into a state, from which its producer is 1000 in epoch 0 or, where the second protocol has ended a
// transaction, in a later one.
var reach = []struct {
	name  string
	setUp func(w *world)
}{
	{"nothing", func(w *world) {}},
	{"Empty", func(w *world) { w.must("init", w.init("x"), "ok 1000/0") }},
	{"Ongoing", func(w *world) { ongoing(w, false) }},
	{"PrepareCommit", func(w *world) { ended(w, 4, true, true) }},
	{"PrepareAbort", func(w *world) { ended(w, 4, false, true) }},
	{"CompleteCommit", func(w *world) { ended(w, 4, true, false) }},
	{"CompleteAbort", func(w *world) { ended(w, 4, false, false) }},
	{"Ongoing of the second protocol", func(w *world) { ongoing(w, true) }},
	{"PrepareCommit of the second protocol", func(w *world) { ended(w, 5, true, true) }},
	{"PrepareAbort of the second protocol", func(w *world) { ended(w, 5, false, true) }},
	{"CompleteCommit of the second protocol", func(w *world) { ended(w, 5, true, false) }},
	{"CompleteAbort of the second protocol", func(w *world) { ended(w, 5, false, false) }},
}

func ongoing(w *world, second bool) {
	w.must("init", w.init("x"), "ok 1000/0")
	w.must("add", w.joins("x", 1000, 0, second, 0, 1), "ok")
}

func ended(w *world, version int16, commit, held bool) {
	ongoing(w, version >= 5)
	if held {
		w.leaders.hold()
	}
	w.end(version, "x", 1000, 0, commit).now()
}

// events are what can happen in each state.
var events = []struct {
	name string
	do   func(w *world) *reply
}{
	{"init", func(w *world) *reply { return w.init("x") }},
	{"init as 1000/0", func(w *world) *reply { return w.initAs("x", 1000, 0) }},
	{"init as 1000/1", func(w *world) *reply { return w.initAs("x", 1000, 1) }},
	{"init as 1000/7", func(w *world) *reply { return w.initAs("x", 1000, 7) }},
	{"init as 7/0", func(w *world) *reply { return w.initAs("x", 7, 0) }},
	{"add 0 as 1000/0", func(w *world) *reply { return w.joins("x", 1000, 0, false, 0) }},
	{"add 0,2 as 1000/1", func(w *world) *reply { return w.joins("x", 1000, 1, false, 0, 2) }},
	{"add 0,2 as 7/0", func(w *world) *reply { return w.joins("x", 7, 0, false, 0, 2) }},
	{"add 2 as 1000/0, second", func(w *world) *reply { return w.joins("x", 1000, 0, true, 2) }},
	{"add 2 as 1000/1, second", func(w *world) *reply { return w.joins("x", 1000, 1, true, 2) }},
	{"verify 0 as 1000/0", func(w *world) *reply { return verify(w, 0, 0) }},
	{"verify 0,2 as 1000/0", func(w *world) *reply { return verify(w, 0, 0, 2) }},
	{"verify 0 as 1000/1", func(w *world) *reply { return verify(w, 1, 0) }},
	{"commit v4 as 1000/0", func(w *world) *reply { return w.end(4, "x", 1000, 0, true) }},
	{"abort v4 as 1000/0", func(w *world) *reply { return w.end(4, "x", 1000, 0, false) }},
	{"commit v4 as 1000/1", func(w *world) *reply { return w.end(4, "x", 1000, 1, true) }},
	{"abort v1 as 1000/1", func(w *world) *reply { return w.end(1, "x", 1000, 1, false) }},
	{"abort v4 as 7/0", func(w *world) *reply { return w.end(4, "x", 7, 0, false) }},
	{"commit v5 as 1000/0", func(w *world) *reply { return w.end(5, "x", 1000, 0, true) }},
	{"abort v5 as 1000/0", func(w *world) *reply { return w.end(5, "x", 1000, 0, false) }},
	{"commit v5 as 1000/1", func(w *world) *reply { return w.end(5, "x", 1000, 1, true) }},
	{"abort v5 as 1000/1", func(w *world) *reply { return w.end(5, "x", 1000, 1, false) }},
	{"abort v5 as 1000/7", func(w *world) *reply { return w.end(5, "x", 1000, 7, false) }},
	{"abort v5 as 7/0", func(w *world) *reply { return w.end(5, "x", 7, 0, false) }},
	{"the markers are written", func(w *world) *reply { w.leaders.release(); return nothing() }},
	{"the transaction's time is over", func(w *world) *reply { pass(75 * time.Second); return nothing() }},
	{"the id's time is over", func(w *world) *reply { pass(8 * 24 * time.Hour); return nothing() }},
	{"the coordinator moves", func(w *world) *reply { w.move(); return nothing() }},
	{"the coordinator moves and the markers are written", func(w *world) *reply { w.move(); w.leaders.release(); return nothing() }},
}

func nothing() *reply { return &reply{text: "-"} }

func verify(w *world, epoch int16, partitions ...int32) *reply {
	return w.add(Addition{ID: "x", ProducerID: 1000, Epoch: epoch, VerifyOnly: true, Topics: []schema.TxnTopic{{Topic: "t", Partitions: partitions}}})
}

// TestEveryStateAndEvent: testdata/states.txt has a line for every event in every state: the answer, the state before and after
// (with producer id and epoch) as the log has it, and the markers that were written. Where the answers are Kafka's to give they are
// those of compat/cases/testdata/transactions*.txt, which real brokers gave.
func TestEveryStateAndEvent(t *testing.T) {
	var out bytes.Buffer
	for _, level := range []int16{2, 0} {
		fmt.Fprintf(&out, "transaction.version %d\n", level)
		for _, state := range reach {
			if level < 2 && len(state.name) > len("CompleteCommit") {
				continue // the second protocol
			}
			fmt.Fprintf(&out, "\n%s\n", state.name)
			for _, event := range events {
				inWorld(t, level, func(w *world) {
					state.setUp(w)
					before := w.status("x")
					w.leaders.markers()
					asked := event.do(w)
					answer := asked.now()
					if answer == "waits" {
						pass(time.Second)
						answer = "waits, then " + asked.now()
					}
					fmt.Fprintf(&out, "  %s → %s · %s → %s%s\n", event.name, answer, before, w.status("x"), markersOf(w))
					w.leaders.release()
				})
			}
		}
		fmt.Fprintln(&out)
	}
	const file = "testdata/states.txt"
	if *rewrite {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, expected := bytes.Split(out.Bytes(), []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(got), len(expected)) {
		if !bytes.Equal(got[i], expected[i]) {
			t.Errorf("line %d:\n%s\nwant\n%s", i+1, got[i], expected[i])
		}
	}
	if len(got) != len(expected) {
		t.Errorf("%d lines, want %d", len(got), len(expected))
	}
}

func markersOf(w *world) string {
	list := w.leaders.markers()
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf(" · %q", list)
}

// TestAddedAgainWritesNothing: partitions that are in the transaction are added again without a write; a further one takes one. Case T5.
func TestAddedAgainWritesNothing(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		ongoing(w, false)
		before := len(w.values("x"))
		w.must("add again", w.joins("x", 1000, 0, false, 0, 1), "ok")
		w.must("add one again", w.joins("x", 1000, 0, false, 1), "ok")
		if n := len(w.values("x")); n != before {
			t.Errorf("what was there already took %d writes", n-before)
		}
		w.must("add another", w.joins("x", 1000, 0, false, 1, 2), "ok")
		if n := len(w.values("x")); n != before+1 {
			t.Errorf("a further partition took %d writes, want 1", n-before)
		}
	})
}
