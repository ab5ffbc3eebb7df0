package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// parse reads a script, a history of one partition; each line is one operation:
//
//	sent 1/0 @0      acknowledged at offset 0 (the sender is idempotent; "sent! " one that is not)
//	lost 1/1         the produce failed: the record may be there or not
//	read a 1/0 @0    reader a was given it
//	latest @1        a reader was told that the log ends there
//	commit 5, commit? 5    acknowledged, failed
//	committed 5      was told
//	log 1/0 1/1      the final log; "-" is a gap
//	at the end 5     the committed offset in the end
//	broken           from the line before to the line after
//
// Line i begins at i seconds and ends half a second later.
func parse(t *testing.T, script string) []Event {
	t.Helper()
	var events []Event
	for i, line := range strings.Split(strings.TrimSpace(script), "\n") {
		line = strings.TrimSpace(line)
		e := Event{Client: "g", Idempotent: true, Begin: time.Duration(i) * time.Second}
		e.End = e.Begin + time.Second/2
		var err error
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "sent", "sent!":
			e.Kind, e.Idempotent = Sent, word == "sent"
			_, err = fmt.Sscanf(rest, "%d/%d @%d", &e.ID.Sender, &e.ID.Seq, &e.Offset)
		case "lost":
			e.Kind, e.Err = Sent, "timeout"
			_, err = fmt.Sscanf(rest, "%d/%d", &e.ID.Sender, &e.ID.Seq)
		case "read":
			e.Kind = Read
			_, err = fmt.Sscanf(rest, "%s %d/%d @%d", &e.Client, &e.ID.Sender, &e.ID.Seq, &e.Offset)
		case "latest":
			e.Kind = Latest
			_, err = fmt.Sscanf(rest, "@%d", &e.Offset)
		case "commit", "commit?":
			e.Kind = Commit
			if word == "commit?" {
				e.Err = "timeout"
			}
			_, err = fmt.Sscanf(rest, "%d", &e.Offset)
		case "committed":
			e.Kind = Committed
			_, err = fmt.Sscanf(rest, "%d", &e.Offset)
		case "at":
			e.Kind = FinalCommitted
			_, err = fmt.Sscanf(rest, "the end %d", &e.Offset)
		case "broken":
			e.Kind = Broken
			e.Begin, e.End = e.Begin-time.Second, e.End+time.Second
		case "log":
			for _, word := range strings.Fields(rest) {
				record := Event{Kind: Final, Offset: e.Offset}
				e.Offset++
				if word == "-" {
					continue
				}
				if _, err = fmt.Sscanf(word, "%d/%d", &record.ID.Sender, &record.ID.Seq); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				events = append(events, record)
			}
			e.Kind = Finish
		default:
			t.Fatalf("no such line: %q", line)
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"good", `sent 1/0 @0
			sent 1/1 @1
			read a 1/0 @0
			latest @2
			read a 1/1 @1
			log 1/0 1/1`, ""},
		{"a failed one that is there", `sent 1/0 @0
			lost 1/1
			log 1/0 1/1`, ""},
		{"a failed one that is not there", `lost 1/0
			sent 1/1 @0
			log 1/1`, ""},
		{"lost at the end", `sent 1/0 @0
			sent 1/1 @1
			log 1/0`, "acknowledged: partition 0: {1 1} was acknowledged at offset 1"},
		{"replaced", `sent 1/0 @0
			sent 1/1 @1
			sent 2/0 @1
			log 1/0 2/0`, "acknowledged: partition 0: {1 1} was acknowledged at offset 1 (at 1.5s), where there is {2 0}"},
		{"moved", `sent 1/0 @0
			sent 2/0 @0
			log 1/0 2/0`, "acknowledged"},
		{"twice", `sent 1/0 @0
			log 1/0 1/0`, "once: partition 0: {1 0} is at offset 0 and at 1"},
		{"a failed one twice", `sent 1/1 @1
			lost 1/0
			log 1/0 1/1 1/0`, "once"},
		{"twice without idempotence", `sent! 1/0 @0
			sent! 1/1 @1
			log 1/0 1/1 1/0 1/1`, ""},
		{"out of order", `sent 1/0 @1
			sent 1/1 @0
			log 1/1 1/0`, "order: partition 0: {1 0} comes at offset 1, after number 1"},
		{"out of order without idempotence", `sent! 1/0 @1
			sent! 1/1 @0
			log 1/1 1/0`, "order"},
		{"a failed one out of order", `lost 1/0
			sent 1/1 @0
			log 1/1 1/0`, "order"},
		{"senders in any order", `sent 1/0 @1
			sent 2/0 @0
			sent 2/1 @2
			log 2/0 1/0 2/1`, ""},
		{"nobody's", `sent 1/0 @0
			log 1/0 3/7`, "known: partition 0: offset 1 holds {3 7}"},
		{"a gap", `sent 1/0 @0
			sent 1/1 @2
			log 1/0 - 1/1`, "whole: partition 0: nothing at offset 1"},
		{"the end not read", `sent 1/0 @0`, "acknowledged"},
		{"seen and gone", `lost 1/0
			read a 1/0 @0
			log`, "seen: partition 0: a was given {1 0} at offset 0"},
		{"seen and replaced", `lost 1/0
			read a 1/0 @0
			sent 2/0 @0
			log 2/0`, "seen"},
		{"a reader jumps", `sent 1/0 @0
			sent 1/1 @1
			sent 1/2 @2
			read a 1/0 @0
			read a 1/2 @2
			log 1/0 1/1 1/2`, "seen: partition 0: a was given offset 2 (at 4.5s) and not 1"},
		{"a reader goes back", `sent 1/0 @0
			sent 1/1 @1
			read a 1/1 @1
			read a 1/0 @0
			log 1/0 1/1`, "seen"},
		{"a reader begins later", `sent 1/0 @0
			sent 1/1 @1
			read a 1/1 @1
			read b 1/0 @0
			log 1/0 1/1`, ""},
		{"an end that was taken back", `sent 1/0 @0
			latest @2
			log 1/0`, "latest: partition 0: g was told that the log ends at 2"},
		{"commits", `commit 1
			committed 1
			commit? 2
			committed 1
			committed 2
			commit 3
			at the end 3`, ""},
		{"none committed yet", `committed -1
			commit 1
			at the end 1`, ""},
		{"a commit forgotten", `commit 1
			committed -1
			at the end 1`, "commits: group g, partition 0: -1 was told as committed (asked at 1s, answered at 1.5s), 1 was before"},
		{"a commit goes back", `commit 1
			commit 2
			committed 1
			at the end 2`, "commits"},
		{"an answer goes back", `commit 1
			commit? 2
			committed 2
			committed 1
			at the end 2`, "commits"},
		{"an old answer of a broken broker", `commit 1
			commit 2
			broken
			committed 1
			at the end 2`, ""},
		{"an old answer long after", `commit 1
			commit 2
			broken
			committed 2
			committed 1
			at the end 2`, "commits"},
		{"nobody's commit", `commit 1
			committed 7
			at the end 1`, "commits: group g, partition 0: 7 was told as committed, which nobody committed"},
		{"the last commit lost", `commit 1
			commit 2
			at the end 1`, "last commit"},
		{"a failed commit in the end", `commit 1
			commit? 2
			at the end 2`, ""},
		{"the last commit not read", `commit 1`, "history: group g, partition 0: the committed offset was not read"},
		{"the campaign goes back itself", `commit 2
			commit 1
			at the end 2`, "history"},
		{"the campaign sends twice", `sent 1/0 @0
			sent 1/0 @1
			log 1/0`, "history"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, violations := Check(parse(t, c.script))
			switch {
			case c.want == "" && violations != nil:
				t.Errorf("%q", violations)
			case c.want != "" && !slices.ContainsFunc(violations, func(v string) bool { return strings.HasPrefix(v, c.want) }):
				t.Errorf("got %q, want %q", violations, c.want)
			}
		})
	}
}

func TestManyViolations(t *testing.T) {
	var events []Event
	for i := range int64(100) {
		events = append(events, Event{Kind: Sent, ID: ID{1, i}, Offset: i})
	}
	events = append(events, Event{Kind: Finish})
	if _, violations := Check(events); len(violations) != maxShown+1 {
		t.Errorf("%d lines: %q", len(violations), violations)
	}
}

// valid makes a history in which all is well, with failures, two kinds of senders and two partitions.
func valid(random *rand.Rand) []Event {
	r := NewRecorder()
	for partition := range int32(2) {
		next := map[int]int64{}
		offset := int64(0)
		for range 20 + random.IntN(50) {
			sender := 1 + random.IntN(3)
			e := Event{Kind: Sent, Partition: partition, ID: ID{sender, next[sender]}, Idempotent: sender != 3, Offset: offset}
			next[sender]++
			stored := true
			if random.IntN(10) == 0 {
				e.Err, e.Offset, stored = "timeout", 0, random.IntN(2) == 0
			}
			r.Add(e)
			if !stored {
				continue
			}
			r.Add(Event{Kind: Final, Partition: partition, ID: e.ID, Offset: offset})
			r.Add(Event{Kind: Read, Client: "reader", Partition: partition, ID: e.ID, Offset: offset})
			offset++
			now := r.Now()
			r.Add(Event{Kind: Latest, Partition: partition, Offset: offset, Begin: now})
			r.Add(Event{Kind: Commit, Client: "group", Partition: partition, Offset: offset, Begin: now})
			r.Add(Event{Kind: Committed, Client: "group", Partition: partition, Offset: offset, Begin: r.Now()})
		}
		r.Add(Event{Kind: Finish, Partition: partition, Offset: offset})
		r.Add(Event{Kind: FinalCommitted, Client: "group", Partition: partition, Offset: offset, Begin: r.Now()})
	}
	return r.Events()
}

// damages each make a good history a bad one, at an event of the kind.
var damages = []struct {
	name   string
	kind   Kind
	damage func(events []Event, i int) []Event
}{
	{"an acknowledged record or a record read is another", Read, func(events []Event, i int) []Event {
		events[i].ID.Seq++
		return events
	}},
	{"a read at another offset", Read, func(events []Event, i int) []Event {
		events[i].Offset++
		return events
	}},
	{"a record of the log is gone", Final, func(events []Event, i int) []Event { return slices.Delete(events, i, i+1) }},
	{"a record of the log is another", Final, func(events []Event, i int) []Event {
		events[i].ID.Sender++
		return events
	}},
	{"the log is cut", Finish, func(events []Event, i int) []Event {
		events[i].Offset--
		return events
	}},
	{"a record of the log was never sent", Finish, func(events []Event, i int) []Event {
		extra := Event{Kind: Final, Partition: events[i].Partition, Offset: events[i].Offset, ID: ID{9, 9}}
		events[i].Offset++
		return append(events, extra)
	}},
	{"an end behind the log's", Latest, func(events []Event, i int) []Event {
		events[i].Offset += 1000
		return events
	}},
	{"a commit is not told", Committed, func(events []Event, i int) []Event {
		events[i].Offset--
		return events
	}},
	{"the last commit is not told", FinalCommitted, func(events []Event, i int) []Event {
		events[i].Offset--
		return events
	}},
}

// TestDamage: whatever is changed in a good history, the checker finds it.
func TestDamage(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 4))
		events := valid(random)
		if _, violations := Check(events); violations != nil {
			t.Fatalf("seed %d: a good history: %q", seed, violations)
		}
		for _, d := range damages {
			var at []int
			for i, e := range events {
				if e.Kind == d.kind {
					at = append(at, i)
				}
			}
			damaged := d.damage(slices.Clone(events), at[random.IntN(len(at))])
			if _, violations := Check(damaged); violations == nil {
				t.Errorf("seed %d: %s: not found", seed, d.name)
			}
		}
	}
}

func TestFile(t *testing.T) {
	events := valid(rand.New(rand.NewPCG(1, 1)))
	var file bytes.Buffer
	if err := Write(&file, events); err != nil {
		t.Fatal(err)
	}
	again, err := ReadAll(&file)
	if err != nil || !slices.Equal(again, events) {
		t.Errorf("read back, %v: %d events of %d, or other ones", err, len(again), len(events))
	}
	if again, err := ReadAll(strings.NewReader(`{"k":"sent"}` + "\n" + `{"k":`)); err == nil || len(again) != 1 {
		t.Errorf("a torn file: %v, %v", again, err)
	}
}

func TestValue(t *testing.T) {
	id := ID{7, 123456789}
	value := id.Value(100)
	if got, err := ParseValue(value); err != nil || got != id || len(value) != 100 {
		t.Errorf("%q is %v, %v", value, got, err)
	}
	if _, err := ParseValue([]byte("something else")); err == nil {
		t.Error("a value that names no record")
	}
}

// TestJudge judges the history in the file that GREGOR_HISTORY names, which a failed campaign left.
func TestJudge(t *testing.T) {
	path := os.Getenv("GREGOR_HISTORY")
	if path == "" {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	events, err := ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	summary, violations := Check(events)
	t.Logf("%+v", summary)
	for _, v := range violations {
		t.Error(v)
	}
}
