package epoch

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestAssign(t *testing.T) {
	for _, c := range []struct {
		name    string
		h       History
		epoch   int32
		start   int64
		want    History
		changed bool
	}{
		{"the first", nil, 0, 0, History{{0, 0}}, true},
		{"a newer one", History{{0, 0}}, 2, 5, History{{0, 0}, {2, 5}}, true},
		{"the same again", History{{0, 0}, {2, 5}}, 2, 9, History{{0, 0}, {2, 5}}, false},
		{"the same, earlier", History{{0, 0}, {2, 5}}, 2, 3, History{{0, 0}, {2, 3}}, true},
		{"one without records gives way", History{{0, 0}, {2, 5}}, 3, 5, History{{0, 0}, {3, 5}}, true},
		{"an older one at the end", History{{0, 0}, {4, 5}}, 3, 9, History{{0, 0}, {3, 9}}, true},
		{"no epoch", History{{0, 0}}, -1, 9, History{{0, 0}}, false},
	} {
		before := append(History(nil), c.h...)
		got, changed := c.h.Assign(c.epoch, c.start)
		if !reflect.DeepEqual(got, c.want) || changed != c.changed {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, changed, c.want, c.changed)
		}
		if !reflect.DeepEqual(before, c.h) {
			t.Errorf("%s: the old history changed", c.name)
		}
	}
}

func TestEndOffset(t *testing.T) {
	h := History{{2, 10}, {4, 20}, {7, 30}}
	for _, c := range []struct {
		epoch, found int32
		end          int64
	}{
		{7, 7, 99}, {8, -1, -1}, {-1, -1, -1}, {4, 4, 30}, {5, 4, 30}, {6, 4, 30}, {2, 2, 20}, {3, 2, 20},
		{1, 1, 10}, {-7, -7, 10}, // older than all known
	} {
		if found, end := h.EndOffset(c.epoch, 99); found != c.found || end != c.end {
			t.Errorf("epoch %d: %d ends at %d, want %d at %d", c.epoch, found, end, c.found, c.end)
		}
	}
	if found, end := History(nil).EndOffset(0, 5); found != -1 || end != -1 {
		t.Errorf("without epochs: %d %d", found, end)
	}
}

func TestTruncate(t *testing.T) {
	h := History{{2, 10}, {4, 20}, {7, 30}}
	for _, c := range []struct {
		end  int64
		want History
	}{{31, h}, {30, h[:2]}, {20, h[:1]}, {5, h[:0]}} {
		if got, changed := h.TruncateEnd(c.end); !reflect.DeepEqual(got, c.want) || changed != (len(c.want) < len(h)) {
			t.Errorf("end %d: %v, want %v", c.end, got, c.want)
		}
	}
	for _, c := range []struct {
		start int64
		want  History
	}{
		{10, h}, {5, h}, {15, History{{2, 15}, {4, 20}, {7, 30}}}, {20, History{{4, 20}, {7, 30}}}, {99, History{{7, 99}}},
	} {
		if got, changed := h.TruncateStart(c.start); !reflect.DeepEqual(got, c.want) || changed != !reflect.DeepEqual(c.want, h) {
			t.Errorf("start %d: %v, want %v", c.start, got, c.want)
		}
	}
}

func TestAt(t *testing.T) {
	h := History{{2, 10}, {4, 20}}
	for offset, want := range map[int64]int32{9: -1, 10: 2, 19: 2, 20: 4, 99: 4} {
		if got, ok := h.At(offset); got != want || ok != (want >= 0) {
			t.Errorf("offset %d has epoch %d, want %d", offset, got, want)
		}
	}
}

func TestKafkasFiles(t *testing.T) {
	names, _ := filepath.Glob("../testdata/*/*/" + FileName)
	if len(names) != 8 {
		t.Fatal(names)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := Parse(raw); err != nil || !bytes.Equal(h.Format(), raw) {
			t.Errorf("%s: %v %v", name, h, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, raw := range []string{"1\n0\n", "0\n", "0\n2\n0 0\n", "0\n1\n0 0\n1 1\n", "0\n1\n0\n", "0\n1\n-1 0\n", "0\n2\n1 0\n0 5\n", "0\n2\n0 5\n1 5\n", "x"} {
		if h, err := Parse([]byte(raw)); err == nil {
			t.Errorf("%q is %v", raw, h)
		}
	}
}

// Whatever happens, epochs and starts rise, so that the file can be read again.
func TestHistoriesRise(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var h History
	for range 20_000 {
		switch r.IntN(4) {
		case 0:
			h, _ = h.TruncateEnd(r.Int64N(100))
		case 1:
			h, _ = h.TruncateStart(r.Int64N(100))
		default:
			h, _ = h.Assign(r.Int32N(20), r.Int64N(100))
		}
		again, err := Parse(h.Format())
		if err != nil || len(again) != len(h) {
			t.Fatalf("%v: %v", h, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n1 6\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := Parse(h.Format())
		if err != nil || !reflect.DeepEqual(append(History{}, h...), append(History{}, again...)) {
			t.Errorf("%q: %v is read again as %v: %v", raw, h, again, err)
		}
	})
}
