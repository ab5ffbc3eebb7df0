package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
)

func memFiles(max int) (*Files, *vfs.Mem) {
	m := vfs.NewMem(0, func() time.Time { return time.UnixMilli(5_000_000) })
	if err := m.MkdirAll("/p"); err != nil {
		panic(err)
	}
	return NewFiles(m, max), m
}

func entryAt(offset, stamp int64, n, size int) record.Batch {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Timestamp: stamp, Value: make([]byte, size)}
	}
	b, err := record.Build(record.BatchOptions{BaseOffset: offset}.NoProducer(), recs)
	if err != nil {
		panic(err)
	}
	return b
}

// fill appends n batches of one to three records with timestamps that mostly rise, and returns each one's position,
// last offset and timestamp.
type placed struct{ pos, last, stamp int64 }

func fill(t testing.TB, s *Segment, n, interval int, r *rand.Rand) []placed {
	t.Helper()
	var all []placed
	next, stamp := s.Base(), int64(1000)
	for range n {
		b := entryAt(next, stamp, 1+r.IntN(3), r.IntN(40))
		all = append(all, placed{s.Size(), b.LastOffset(), stamp})
		if err := s.Append(b, b.LastOffset(), b.MaxTimestamp(), interval); err != nil {
			t.Fatal(err)
		}
		next = b.NextOffset()
		stamp += r.Int64N(20) - 4
	}
	return all
}

// check compares finding by offset and timestamp with a plain search.
func check(t *testing.T, s *Segment, all []placed) {
	t.Helper()
	for i, p := range all {
		first := s.Base()
		if i > 0 {
			first = all[i-1].last + 1
		}
		for _, offset := range []int64{first, p.last} {
			at, found, err := s.Find(offset, s.Size())
			if err != nil || !found || at.Pos != p.pos || at.LastOffset != p.last {
				t.Fatalf("offset %d: %+v %v %v, want position %d", offset, at, found, err, p.pos)
			}
		}
		pos, err := s.TimePos(p.stamp, s.Base(), s.Size())
		if err != nil {
			t.Fatal(err)
		}
		for _, earlier := range all[:i+1] {
			if earlier.stamp >= p.stamp {
				if pos > earlier.pos {
					t.Fatalf("timestamp %d: search begins at %d, after the first entry with it at %d", p.stamp, pos, earlier.pos)
				}
				break
			}
		}
	}
	if _, found, err := s.Find(all[len(all)-1].last+1, s.Size()); found || err != nil {
		t.Fatalf("an offset after the end was found, %v", err)
	}
	best := all[0]
	for _, p := range all {
		if p.stamp > best.stamp {
			best = p
		}
	}
	if stamp, offset, err := s.MaxTimestamp(); stamp != best.stamp || offset != best.last || err != nil {
		t.Fatalf("greatest timestamp %d at %d %v, want %+v", stamp, offset, err, best)
	}
	if stamp, err := s.RetentionTimestamp(); stamp != best.stamp || err != nil {
		t.Fatalf("timestamp for retention %d %v, want %d", stamp, err, best.stamp)
	}
	if end, err := s.EndOffset(); end != all[len(all)-1].last+1 || err != nil {
		t.Fatalf("end offset %d %v", end, err)
	}
	if stamp, err := s.FirstTimestamp(); stamp != all[0].stamp || err != nil {
		t.Fatalf("first timestamp %d %v", stamp, err)
	}
}

func TestFindThroughTheLifeOfASegment(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, n := range []int{1, 30, 1100} {
		for _, interval := range []int{0, 4096} {
			t.Run(fmt.Sprintf("%d entries, one index entry in %d bytes", n, interval), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				files, mem := memFiles(100)
				s, err := Create(files, "/p", 500, "")
				if err != nil {
					t.Fatal(err)
				}
				all := fill(t, s, n, interval, r)
				check(t, s, all)
				if err := s.Finish(); err != nil {
					t.Fatal(err)
				}
				checkIndexFiles(t, mem, 500, all)
				check(t, s, all)
				s.Unload()
				check(t, s, all)
				s = Open(files, "/p", 500, s.Size())
				check(t, s, all)
				recoverSame(t, Open(files, "/p", 500, s.Size()), all)
				for _, kind := range []string{IndexSuffix, TimeIndexSuffix} {
					if err := mem.Remove("/p/" + Name(500, kind)); err != nil {
						t.Fatal(err)
					}
				}
				s = Open(files, "/p", 500, s.Size())
				check(t, s, all)
				cut := all[len(all)/2]
				if err := s.Truncate(cut.last); err != nil {
					t.Fatal(err)
				}
				if rest := all[:len(all)/2]; len(rest) > 0 {
					check(t, s, rest)
				}
			})
		}
	}
}

func recoverSame(t *testing.T, s *Segment, all []placed) {
	t.Helper()
	seen := 0
	cut, why, err := s.Recover(func(sc *Scanner) error {
		if sc.Pos() != all[seen].pos {
			t.Errorf("entry %d is at %d", seen, sc.Pos())
		}
		seen++
		return nil
	})
	if cut != 0 || why != nil || err != nil || seen != len(all) {
		t.Fatalf("recovery saw %d entries, cut %d, %v %v", seen, cut, why, err)
	}
	check(t, s, all)
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
}

// checkIndexFiles is what kafka-dump-log checks: offset entries point at the batch that ends with their offset; time
// entries name the last offset of a batch whose greatest timestamp they have, and rise.
func checkIndexFiles(t *testing.T, mem *vfs.Mem, base int64, all []placed) {
	t.Helper()
	byLast, byPos := map[int64]placed{}, map[int64]placed{}
	for _, p := range all {
		byLast[p.last], byPos[p.pos] = p, p
	}
	raw, err := mem.ReadFile("/p/"+Name(base, IndexSuffix), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(raw) > 0; raw = raw[8:] {
		last, pos := base+int64(binary.BigEndian.Uint32(raw)), int64(binary.BigEndian.Uint32(raw[4:]))
		if byPos[pos].last != last {
			t.Fatalf("index entry: offset %d at %d, there is %+v", last, pos, byPos[pos])
		}
	}
	raw, err = mem.ReadFile("/p/"+Name(base, TimeIndexSuffix), 1<<20)
	if err != nil || len(raw) == 0 {
		t.Fatalf("the time index of a closed segment has %d bytes, %v", len(raw), err)
	}
	before := int64(-1)
	for ; len(raw) > 0; raw = raw[12:] {
		stamp, last := int64(binary.BigEndian.Uint64(raw)), base+int64(binary.BigEndian.Uint32(raw[8:]))
		if byLast[last].stamp != stamp || stamp <= before {
			t.Fatalf("time index entry: timestamp %d at %d after %d, there is %+v", stamp, last, before, byLast[last])
		}
		before = stamp
	}
}

func TestRecoverCutsAtTheFirstBadEntry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, damage := range map[string]func(vfs.File, placed, int64){
		"a flipped bit":     func(f vfs.File, p placed, _ int64) { f.WriteAt([]byte{0xff}, p.pos+40) },
		"a torn entry":      func(f vfs.File, p placed, _ int64) { f.Truncate(p.pos + 30) },
		"half a header":     func(f vfs.File, p placed, _ int64) { f.Truncate(p.pos + 5) },
		"zeros to the end":  func(f vfs.File, p placed, size int64) { f.WriteAt(make([]byte, size-p.pos), p.pos) },
		"a huge size":       func(f vfs.File, p placed, _ int64) { f.WriteAt([]byte{0x7f, 0xff, 0xff, 0xff}, p.pos+8) },
		"a negative size":   func(f vfs.File, p placed, _ int64) { f.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, p.pos+8) },
		"an unknown magic":  func(f vfs.File, p placed, _ int64) { f.WriteAt([]byte{3}, p.pos+16) },
		"an offset too low": func(f vfs.File, p placed, _ int64) { f.WriteAt(make([]byte, 8), p.pos) },
	} {
		t.Run(name, func(t *testing.T) {
			files, _ := memFiles(10)
			s, err := Create(files, "/p", 500, "")
			if err != nil {
				t.Fatal(err)
			}
			all := fill(t, s, 200, 100, r)
			f, err := s.Acquire()
			if err != nil {
				t.Fatal(err)
			}
			damage(f.File, all[150], s.Size())
			f.Release()
			cut, why, err := s.Recover(func(*Scanner) error { return nil })
			if err != nil || cut <= 0 || why == nil {
				t.Errorf("cut %d, %v %v", cut, why, err)
			}
			check(t, s, all[:150])
			b := entryAt(all[149].last+1, 1, 1, 1)
			if err := s.Append(b, b.LastOffset(), 1, 100); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKafkasIndexes(t *testing.T) {
	files := NewFiles(vfs.OS, 10)
	for dir, stamp := range map[string]bool{"t1-0": true, "t2-0": true, "__consumer_offsets-2": true} {
		path := "../testdata/kafka-4.4.0/" + dir
		info, err := os.Stat(path + "/" + Name(0, LogSuffix))
		if err != nil {
			t.Fatal(err)
		}
		s := Open(files, path, 0, info.Size())
		want := int64(-1)
		if err := s.Scan(0, s.Size(), func(sc *Scanner) (bool, error) {
			want = max(want, sc.Head().MaxTimestamp())
			return true, sc.CheckCRC()
		}); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.MaxTimestamp(); got != want || err != nil || !stamp {
			t.Errorf("%s: greatest timestamp %d %v, want %d", dir, got, err, want)
		}
		s.Close()
	}
}

func TestAbortedTransactions(t *testing.T) {
	files, mem := memFiles(10)
	s, err := Create(files, "/p", 100, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Stat("/p/" + Name(100, TxnIndexSuffix)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("there is a transaction index without aborted transactions")
	}
	want := []AbortedTxn{{1, 90, 110, 95}, {2, 95, 120, 121}}
	for _, a := range want {
		if err := s.AddAborted(a); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddAborted(want[0]); err == nil {
		t.Error("one out of order was taken")
	}
	for range 2 {
		if got, done, err := s.Aborted(nil, 105, 121); !reflect.DeepEqual(got, want) || !done || err != nil {
			t.Errorf("got %v %v %v", got, done, err)
		}
		if got, done, _ := s.Aborted(nil, 111, 200); !reflect.DeepEqual(got, want[1:]) || done {
			t.Errorf("got %v %v", got, done)
		}
		s = Open(files, "/p", 100, 0)
	}
	golden, err := os.ReadFile("../testdata/kafka-4.4.0/t2-0/" + Name(0, TxnIndexSuffix))
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseAborted(golden, 0)
	if err != nil || len(list) != 1 || !bytes.Equal(list[0].append(nil), golden) {
		t.Errorf("Kafka's: %v %v", list, err)
	}
}

func TestDescriptorsStayWithinTheBudget(t *testing.T) {
	files, mem := memFiles(8)
	var segs []*Segment
	for i := range int64(50) {
		s, err := Create(files, "/p", i*10, "")
		if err != nil {
			t.Fatal(err)
		}
		b := entryAt(i*10, 1, 1, 10)
		if err := s.Append(b, i*10, 1, 0); err != nil {
			t.Fatal(err)
		}
		segs = append(segs, s)
	}
	held, err := segs[0].Acquire()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for i, s := range segs {
			f, err := s.Acquire()
			if err != nil {
				t.Fatal(err)
			}
			var b [8]byte
			if _, err := f.ReadAt(b[:], 0); err != nil || binary.BigEndian.Uint64(b[:]) != uint64(i*10) {
				t.Errorf("segment %d: %x %v", i, b, err)
			}
			f.Release()
		}
		if n := files.Open(); n > 8 {
			t.Errorf("%d files are open", n)
		}
	}
	if err := segs[0].Rename(DeletedSuffix); err != nil {
		t.Fatal(err)
	}
	if err := segs[0].Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := held.ReadAt(make([]byte, 8), 0); err != nil {
		t.Errorf("a file that is held cannot be read after its removal: %v", err)
	}
	held.Release()
	if _, err := segs[0].Acquire(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed segment was opened: %v", err)
	}
	entries, _ := mem.ReadDir("/p")
	if len(entries) != 49*3 {
		t.Errorf("%d files are left", len(entries))
	}
	for _, s := range segs {
		s.Close()
	}
	if n := files.Open(); n != 0 {
		t.Errorf("%d files are open after all was closed", n)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		offset int64
		suffix string
		want   string
	}{{0, ".log", "00000000000000000000.log"}, {1<<63 - 1, ".index.swap", "09223372036854775807.index.swap"}} {
		if got := Name(c.offset, c.suffix); got != c.want {
			t.Errorf("%s", got)
		}
		if offset, suffix, ok := ParseName(c.want); offset != c.offset || suffix != c.suffix || !ok {
			t.Errorf("%s: %d %s", c.want, offset, suffix)
		}
	}
	for _, name := range []string{"leader-epoch-checkpoint", "0000000000000000000.log", "0000000000000000000x.log", "00000000000000000000", ""} {
		if _, _, ok := ParseName(name); ok {
			t.Errorf("%q is a segment's file", name)
		}
	}
}

// fuzzIndex loads any file as an index and looks things up in it; the answer is right if the file is sorted.
func fuzzIndex(f *testing.F, keyBytes int) {
	x := index{keyBytes: keyBytes}
	var seed []byte
	for i := range 600 {
		seed = x.encode(seed, entry{int64(i * 3), uint32(i)})
	}
	f.Add(seed, int64(40))
	f.Add(seed[:x.entryBytes()*512], int64(1535))
	f.Add([]byte{}, int64(0))
	f.Add(make([]byte, 24), int64(0))
	f.Fuzz(func(t *testing.T, raw []byte, key int64) {
		_, mem := memFiles(1)
		file, err := mem.Create("/p/x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(raw, 0); err != nil {
			t.Fatal(err)
		}
		x := index{keyBytes: keyBytes}
		if x.load(file) != nil {
			return
		}
		want, sorted := entry{}, true
		found := false
		for i := range x.len() {
			e := x.decode(raw[i*x.entryBytes():])
			if e.key <= key {
				want, found = e, true
			}
			sorted = sorted && (i == 0 || e.key > x.decode(raw[(i-1)*x.entryBytes():]).key)
		}
		got, ok, block := x.floorInMemory(key)
		if !ok && block >= 0 {
			if got, err = floorInBlock(keyBytes, file, block, key); err == nil {
				ok = true
			}
		}
		if sorted && (ok != found || got != want) {
			t.Errorf("key %d: %v %v, want %v %v", key, got, ok, want, found)
		}
	})
}

func FuzzOffsetIndex(f *testing.F) { fuzzIndex(f, 4) }
func FuzzTimeIndex(f *testing.F)   { fuzzIndex(f, 8) }

func FuzzTxnIndex(f *testing.F) {
	f.Add(AbortedTxn{1, 2, 3, 4}.append(AbortedTxn{1, 0, 1, 2}.append(nil)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := parseAborted(raw, 0)
		if err != nil {
			return
		}
		var again []byte
		for _, a := range list {
			again = a.append(again)
		}
		if !bytes.Equal(again, raw) {
			t.Errorf("%x is written again as %x", raw, again)
		}
	})
}

// FuzzRecover: any bytes as a log file become a log whose entries are whole and can be found.
func FuzzRecover(f *testing.F) {
	good := append(append([]byte{}, entryAt(0, 1, 2, 10)...), entryAt(2, 5, 1, 3)...)
	f.Add(good)
	f.Add(append(good, make([]byte, 100)...))
	for _, dir := range []string{"t1-0", "t2-0"} {
		raw, err := os.ReadFile("../testdata/kafka-3.9.2/" + dir + "/" + Name(0, LogSuffix))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		files, mem := memFiles(10)
		s, err := Create(files, "/p", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		file, err := mem.Open("/p/" + Name(0, LogSuffix))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(raw, 0); err != nil {
			t.Fatal(err)
		}
		s = Open(files, "/p", 0, int64(len(raw)))
		whole := int64(0)
		cut, _, err := s.Recover(func(sc *Scanner) error {
			whole += int64(sc.Size())
			_, err := sc.Whole()
			return err
		})
		if err != nil || whole+cut != int64(len(raw)) || s.Size() != whole {
			t.Errorf("%d bytes whole, %d cut of %d, size %d: %v", whole, cut, len(raw), s.Size(), err)
		}
		if err := s.Finish(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	files, _ := memFiles(10)
	s, err := Create(files, "/p", 0, "")
	if err != nil {
		b.Fatal(err)
	}
	all := fill(b, s, 50_000, 4096, rand.New(rand.NewPCG(1, 1)))
	f, err := s.Acquire()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Release()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, found, err := s.FindIn(f, all[i*7919%len(all)].last, s.Size()); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkScanCRC(b *testing.B) {
	files, _ := memFiles(10)
	s, err := Create(files, "/p", 0, "")
	if err != nil {
		b.Fatal(err)
	}
	for i := range int64(100) {
		e := entryAt(i, 1, 1, 100_000)
		if err := s.Append(e, i, 1, 4096); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(s.Size())
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Scan(0, s.Size(), func(sc *Scanner) (bool, error) { return true, sc.CheckCRC() }); err != nil {
			b.Fatal(err)
		}
	}
}
