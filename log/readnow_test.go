package log

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log/segment"
	"github.com/gregor-broker/gregor/log/vfs"
)

// TestCanReadNow: what may be read where nothing may wait touches no file but the log file of the last segment, and that
// only where this process wrote it.
func TestCanReadNow(t *testing.T) {
	e := newEnv(t)
	faulty := vfs.NewFaulty(e.fs)
	e.o.FS = faulty
	e.open()
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 20_000, 100
	l := e.create("t", c)
	for range 250 {
		committed(t, l, batch(1, strings.Repeat("v", 200)))
	}
	if err := l.dir.syncer.flush(l); err != nil { // from here on nothing is written behind the test's back
		t.Fatal(err)
	}
	check := func(when string, wantNow bool) {
		t.Helper()
		segs := l.Segments()
		active := segs[len(segs)-1].Base()
		if len(segs) < 3 {
			t.Fatalf("%d segments", len(segs))
		}
		now := 0
		for offset := int64(-1); offset <= 251; offset++ {
			if !l.CanReadNow(offset, LogEnd) {
				continue
			}
			if offset >= 0 && offset < 250 {
				now++
			}
			faulty.Before(func(c vfs.Call) (int, error) {
				if c.Name != fmt.Sprintf("/data/t-0/%s", segment.Name(active, segment.LogSuffix)) || c.Op != vfs.OpRead {
					t.Errorf("%s: reading at %d: %s of %s", when, offset, c.Op, c.Name)
				}
				return 0, nil
			})
			r, err := l.Read(offset, 1<<20, LogEnd, true)
			faulty.Before(nil)
			if err == nil && r.Part.File != nil {
				if r.Part.Cold {
					t.Errorf("%s: what is read at %d may not be in memory", when, offset)
				}
				r.Part.File.Release()
			}
		}
		if (now > 0) != wantNow || now > int(250-active) {
			t.Errorf("%s: %d offsets can be read now; the last segment begins at %d", when, now, active)
		}
		if l.CanReadNow(0, LogEnd) || !l.CanReadNow(250, LogEnd) {
			t.Errorf("%s: the ends: %v %v", when, l.CanReadNow(0, LogEnd), l.CanReadNow(250, LogEnd))
		}
	}
	check("after writing", true)
	e.reopen()
	l = e.get("t")
	l.AdvanceHighWatermark(250)
	check("after a restart", false)
}
