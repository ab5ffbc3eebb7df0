package log

import (
	"errors"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
	"github.com/gregor-broker/gregor/log/vfs"
)

// abortedLog is a log of n aborted transactions of one record each, with the records at the even offsets.
func abortedLog(t *testing.T, e *env, c *Config, n int32) *Log {
	t.Helper()
	l := e.create("t", c)
	for seq := range n {
		mustAppend(t, l, transactional(1, 0, seq, 1))
		if _, err := l.WriteMarker(Marker{ProducerID: 1}); err != nil {
			t.Fatal(err)
		}
	}
	l.AdvanceHighWatermark(l.Bounds().End)
	return l
}

// readCommitted reads from offset on and returns the first and last offset of what came, and what it says was aborted.
func readCommitted(t *testing.T, l *Log, offset int64, maxBytes int) (first, last int64, aborted []AbortedTxn) {
	t.Helper()
	r, err := l.Read(offset, maxBytes, Committed, true)
	if err != nil {
		t.Error(err)
		return -1, -1, nil
	}
	if r.Part.File == nil {
		return -1, -1, nil
	}
	defer r.Part.File.Release()
	raw := make([]byte, r.Part.Len)
	if _, err := r.Part.File.ReadAt(raw, r.Part.Pos); err != nil {
		t.Error(err)
	}
	first, last = -1, -1
	for {
		e, rest, err := record.NextEntry(raw)
		if err != nil {
			return first, last, r.Aborted // the last one may be cut
		}
		if first < 0 {
			first = e.BaseOffset()
		}
		last, raw = e.LastOffset(), rest
	}
}

// TestReadTellsWhatItNeedsOfAborted: a reader hears of each aborted transaction that it gets records of, and not of all that there
// are up to the end of the log: it may be far behind. Kafka lets it hear of what begins before the next entry of the index.
func TestReadTellsWhatItNeedsOfAborted(t *testing.T) {
	const count = 3000
	wide := DefaultConfig()
	wide.IndexIntervalBytes = 200
	for name, c := range map[string]*Config{"a segment": wide, "many segments": small()} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t).open()
			l := abortedLog(t, e, c, count)
			for _, reopened := range []bool{false, true} {
				if reopened {
					l = e.reopen().get("t")
				}
				for _, offset := range []int64{0, 1, 100, 2*count - 2000, 2*count - 2, 2*count - 1} {
					for _, maxBytes := range []int{1, 300, 5000, 1 << 20} {
						first, last, aborted := readCommitted(t, l, offset, maxBytes)
						if first > offset || last < offset {
							t.Fatalf("reading from %d brings %d to %d", offset, first, last)
						}
						told := map[int64]bool{}
						for _, a := range aborted {
							told[a.FirstOffset] = true
							if a.LastOffset < offset || a.FirstOffset > last+10 {
								t.Errorf("reading %d bytes from %d brings %d to %d: %+v is told", maxBytes, offset, first, last, a)
							}
						}
						for at := offset; at <= last; at++ {
							if at%2 == 0 && !told[at] {
								t.Errorf("reading %d bytes from %d: the transaction at %d is not told", maxBytes, offset, at)
							}
						}
					}
				}
			}
		})
	}
}

// renaming calls during when a segment's transaction index is the only file that is still to get its other name.
type renaming struct {
	vfs.FS
	during     func()
	opened     chan struct{} // a token when a log file has been opened
	unreadable bool          // transaction indexes are
}

func (r *renaming) Open(name string) (vfs.File, error) {
	f, err := r.FS.Open(name)
	if strings.Contains(name, segment.LogSuffix) {
		select {
		case r.opened <- struct{}{}:
		default:
		}
	}
	return f, err
}

func (r *renaming) ReadFile(name string, max int) ([]byte, error) {
	if r.unreadable && strings.HasSuffix(name, segment.TxnIndexSuffix) {
		return nil, errors.New("read error")
	}
	return r.FS.ReadFile(name, max)
}

func (r *renaming) Rename(old, name string) error {
	if strings.HasSuffix(old, segment.TxnIndexSuffix) && r.during != nil {
		during := r.during
		r.during = nil
		during()
	}
	return r.FS.Rename(old, name)
}

// TestReadDuringCompaction: whoever reads a segment that is being replaced hears what was aborted in it, also if its indexes are
// loaded between two names of its files, and if compaction has dropped the aborted records.
func TestReadDuringCompaction(t *testing.T) {
	e := newEnv(t).open()
	abortedLog(t, e, small(), 10)
	fsys := &renaming{FS: e.fs}
	e.o.FS = fsys
	l := e.reopen().get("t") // no index is in memory
	segs := l.Segments()
	cleaned, err := l.NewCleaned(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := cleaned.Finish(); err != nil { // nothing is left
		t.Fatal(err)
	}
	read := make(chan []AbortedTxn, 1)
	fsys.during = func() {
		fsys.opened = make(chan struct{}, 1)
		go func() {
			_, _, aborted := readCommitted(t, l, 0, 1)
			read <- aborted
		}()
		<-fsys.opened // it has the old segment, and loads its indexes next
		for range 1000 {
			yield() // it would get them now if it did not wait until the names are there
		}
	}
	before, err := l.Read(0, 1, Committed, true)
	if err != nil {
		t.Fatal(err)
	}
	before.Part.File.Release()
	segs[0].Unload()
	segs[0].Close()
	if err := l.Replace(segs[:1], []*segment.Segment{cleaned}); err != nil {
		t.Fatal(err)
	}
	list := <-read
	if len(before.Aborted) == 0 || before.Aborted[0].FirstOffset != 0 || len(list) == 0 || list[0].FirstOffset != 0 {
		t.Errorf("aborted are %v, and while the segment is replaced %v", before.Aborted, list)
	}
}

// TestUnreadableTransactionIndex: records of which nobody can tell whether they were aborted are not shown as committed.
func TestUnreadableTransactionIndex(t *testing.T) {
	e := newEnv(t).open()
	abortedLog(t, e, small(), 10)
	fsys := &renaming{FS: e.fs}
	e.o.FS = fsys
	l := e.reopen().get("t")
	fsys.unreadable = true
	if r, err := l.Read(0, 1, Committed, true); !errors.Is(err, ErrStorage) || r.Part.File != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := l.Read(0, 1, HighWatermark, true); err != nil {
		t.Error(err)
	} else {
		r.Part.File.Release()
	}
}

// TestTransactionIndexThatCannotGrow: a marker that is in the log and not in the index stops the log: the next batch would get the
// marker's offset, and a reader never hear of what was aborted.
func TestTransactionIndexThatCannotGrow(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", DefaultConfig())
	committed(t, l, transactional(1, 0, 0, 1))
	active := l.active()
	if err := active.AddAborted(segment.AbortedTxn{ProducerID: 9, LastOffset: 1000}); err != nil { // which nothing can follow
		t.Fatal(err)
	}
	if _, err := l.WriteMarker(Marker{ProducerID: 1}); !errors.Is(err, ErrStorage) {
		t.Fatalf("the marker: %v", err)
	}
	if a, err := l.Append(transactional(1, 0, 1, 1), 0); !errors.Is(err, ErrStorage) {
		t.Errorf("after it: %+v, %v", a, err)
	}
}
