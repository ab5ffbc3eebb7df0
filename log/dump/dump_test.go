package dump

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
)

// testdata/files are files of Apache Kafka 3.9.2, before and after compaction, a segment of magic 0, 1 and 2, and at 221
// one that is damaged with indexes that do not fit. testdata/*.txt is what kafka-dump-log 3.9.2 writes to standard output
// for all of them, run in that directory:
//
//	deep     --deep-iteration --print-data-log
//	shallow  (nothing else)
//	sanity   --index-sanity-check, the indexes only
//	verify   --verify-index-only, the indexes only
//	skip     --deep-iteration --print-data-log --skip-record-metadata, 00000000000000000118.log only
func TestAsKafka(t *testing.T) {
	for name, c := range map[string]struct {
		o     Options
		files string
	}{
		"deep":    {Options{PrintData: true}, "*"},
		"shallow": {Options{}, "*"},
		"sanity":  {Options{IndexSanityOnly: true}, "*index"},
		"verify":  {Options{VerifyIndexOnly: true}, "*index"},
		"skip":    {Options{PrintData: true, SkipRecordMetadata: true}, "00000000000000000118.log"},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile("testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir("testdata/files")
			files, err := filepath.Glob(c.files)
			if c.files == "*index" {
				files = indexes(files)
			}
			if err != nil {
				t.Fatal(err)
			}
			var out, problems bytes.Buffer
			c.o.Problems = &problems
			if err := Run(&out, files, c.o); err != nil {
				t.Fatal(err)
			}
			compare(t, out.String(), string(want))
		})
	}
}

// indexes are the offset and time indexes among files.
func indexes(files []string) (list []string) {
	for _, f := range files {
		if ext := filepath.Ext(f); ext == ".index" || ext == ".timeindex" {
			list = append(list, f)
		}
	}
	return list
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) {
			t.Fatalf("%d lines, Kafka has %d", len(g), len(w))
		}
		if g[i] != w[i] {
			t.Fatalf("line %d\n%s\nKafka's\n%s", i+1, g[i], w[i])
		}
	}
}

// TestProblems finds what kafka-dump-log finds, and says so behind the rest.
func TestProblems(t *testing.T) {
	var out bytes.Buffer
	if err := Run(&out, []string{"testdata/files"}, Options{Deep: true}); err != nil {
		t.Fatal(err)
	}
	const dir = "testdata/files/00000000000000000"
	for _, want := range []string{
		"Non-consecutive offsets in " + dir + "083.log\n  83 is followed by 86\n  86 is followed by 88\n",
		"Non-consecutive offsets in " + dir + "200.log\n  211 is followed by 215\n",
		"Mismatches in :" + dir + "221.index\n  Index offset: 222, log offset: 223\n",
		"Found timestamp mismatch in :" + dir + "221.timeindex\n  Index timestamp: 1700000000007, log timestamp: 1700000000002\n",
		"Found out of order timestamp in :" + dir + "221.timeindex\n  Index timestamp: 1700000000002, Previously indexed timestamp: 1700000000007\n",
		"The following indexed offsets are not found in the log.\n  Indexed offset: 222, found log offset: 223\n",
		"Found 8 invalid bytes at the end of 00000000000000000221.log\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not said", want)
		}
	}
	if strings.Contains(out.String(), "key: ") {
		t.Error("keys were shown without being asked for")
	}
}

func TestDecode(t *testing.T) {
	var out bytes.Buffer
	err := Run(&out, []string{"testdata/files/00000000000000000118.log"}, Options{
		PrintData: true, SkipRecordMetadata: true,
		Decode: func(key, value []byte) (string, string) { return "<" + string(key) + ">", "" },
	})
	if err != nil || !strings.Contains(out.String(), "\n| key: <p1>\n| key: <q4>\n") {
		t.Error(err, out.String())
	}
}

// A folder without files to show is said to be one: people name the data directory and mean a partition's.
func TestNothingToShow(t *testing.T) {
	if err := Run(io.Discard, []string{t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "name a partition's folder") {
		t.Error(err)
	}
}

// TestDamaged shows what it can of files with any damage, and never fails but for files that cannot be read.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, raw []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b, err := record.Build(record.BatchOptions{Codec: record.Gzip}.NoProducer(), []record.Record{{Key: []byte("k")}})
	if err != nil {
		t.Fatal(err)
	}
	undecodable := append(record.Batch{}, b...)
	undecodable[record.HeaderSize] ^= 0xff
	for name, raw := range map[string][]byte{
		"0.log": nil, "1.log": undecodable, "2.log": b[:30], "3.log": bytes.Repeat([]byte{0xff}, 100), "4.snapshot": {1},
		"5.snapshot": append([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 9}, b...), "6.txnindex": b, "7.unknown": b,
		"1.index": {0, 0, 0, 9, 0, 0, 9, 9, 1}, "1.timeindex": append(make([]byte, 12), 1),
	} {
		for _, o := range []Options{{PrintData: true}, {IndexSanityOnly: true}, {MaxBytes: 10}} {
			var out bytes.Buffer
			path := write(name, raw)
			if strings.HasSuffix(name, "index") && !strings.HasPrefix(name, "6") {
				write("1.log", undecodable)
			}
			if err := Run(&out, []string{path}, o); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := Run(&bytes.Buffer{}, []string{dir + "/none.log"}, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := Run(&bytes.Buffer{}, []string{write("name.log", nil)}, Options{}); err == nil {
		t.Error("a log without an offset in its name")
	}
}

func FuzzLog(f *testing.F) {
	files, _ := filepath.Glob("testdata/files/*")
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, uint8(len(name)))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte, kind uint8) {
		for _, suffix := range []string{".log", known[int(kind)%len(known)]} {
			if err := os.WriteFile(dir+"/0"+suffix, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := Run(&bytes.Buffer{}, []string{dir + "/0" + known[int(kind)%len(known)]}, Options{PrintData: true}); err != nil {
			t.Fatal(err)
		}
	})
}
