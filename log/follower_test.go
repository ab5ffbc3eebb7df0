package log

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
)

// TestRunsLeaveWhatEntriesLeave: what a follower writes with one call is on its disk as if it had been written entry by entry, whatever
// rolls, leader epochs, transactions and timestamps are in it.
func TestRunsLeaveWhatEntriesLeave(t *testing.T) {
	for range 100 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runsLeaveWhatEntriesLeave(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func runsLeaveWhatEntriesLeave(t *testing.T, r *rand.Rand) {
	e := newEnv(t).open()
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = int32(300+r.IntN(2000)), int32(r.IntN(400))
	c.SegmentIndexBytes, c.SegmentMs = int32(40+r.IntN(200)), int64(50+r.IntN(500))
	leader, whole, single := e.create("leader", nil), e.create("whole", c), e.create("single", c)
	epoch, seq, stamp := int32(0), map[int64]int32{}, epoch0.UnixMilli()
	for range 1 + r.IntN(60) {
		if r.IntN(8) == 0 {
			epoch++
		}
		stamp += int64(r.IntN(40))
		id := int64(r.IntN(3))
		if seq[id] > 0 && r.IntN(5) == 0 {
			if _, err := leader.WriteMarker(Marker{ProducerID: id, Commit: r.IntN(2) == 0, LeaderEpoch: epoch}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		n := 1 + r.IntN(4)
		b := batchOf(record.BatchOptions{ProducerID: id, BaseSequence: seq[id], Transactional: true}, stamp, make([]string, n)...)
		seq[id] += int32(n)
		if _, err := leader.Append(b, epoch); err != nil {
			t.Fatal(err)
		}
	}
	raw := readAll(t, leader, 0, LogEnd)
	for rest := raw; len(rest) > 0; {
		entry, tail, err := record.NextEntry(rest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := single.AppendAsFollower(entry); err != nil {
			t.Fatal(err)
		}
		rest = tail
	}
	for rest := raw; len(rest) > 0; {
		piece, size := rest, 0
		for tail := rest; len(tail) > 0 && (size == 0 || r.IntN(10) > 0); {
			entry, after, err := record.NextEntry(tail)
			if err != nil {
				t.Fatal(err)
			}
			size, tail = size+len(entry), after
		}
		if _, err := whole.AppendAsFollower(piece[:size]); err != nil {
			t.Fatal(err)
		}
		rest = rest[size:]
	}
	if whole.Bounds() != single.Bounds() {
		t.Errorf("%+v and %+v", whole.Bounds(), single.Bounds())
	}
	if err := e.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	got, want := filesOf(e, "whole"), filesOf(e, "single")
	if !maps.Equal(got, want) {
		t.Errorf("files %v and %v, or their bytes, differ", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// filesOf returns the bytes of a closed partition's files, by name.
func filesOf(e *env, topic string) map[string]string {
	e.t.Helper()
	dir := "/data/" + topic + "-0"
	entries, err := e.fs.ReadDir(dir)
	if err != nil {
		e.t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		text, err := e.fs.ReadFile(dir+"/"+entry.Name(), 1<<20)
		if err != nil {
			e.t.Fatal(err)
		}
		if !strings.HasPrefix(entry.Name(), "partition.metadata") {
			files[entry.Name()] = string(text)
		}
	}
	return files
}
