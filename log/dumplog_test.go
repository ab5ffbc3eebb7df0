package log

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
)

// TestKafkaDumpLog lets Kafka's own tool look at every file that we write. KAFKA_DUMP_LOG is the command, with its
// first arguments.
func TestKafkaDumpLog(t *testing.T) {
	command := strings.Fields(os.Getenv("KAFKA_DUMP_LOG"))
	if len(command) == 0 {
		t.Skip("KAFKA_DUMP_LOG does not name a kafka-dump-log")
	}
	e := newEnv(t)
	dir := t.TempDir()
	e.o.FS, e.o.Dirs = vfs.OS, []string{dir}
	e.open()
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 60_000, 500
	l := e.create("t", c)
	stamp := epoch0.UnixMilli()
	for i := range int32(600) {
		stamp += int64(i*7919%50) - 20
		o := record.BatchOptions{ProducerID: int64(i % 3), BaseSequence: i / 3, Transactional: true, Codec: record.Codec(i % 5)}
		if _, err := l.Append(batchOf(o, stamp, strings.Repeat("value ", int(i%60))), i/100); err != nil {
			t.Fatal(err)
		}
		if i%40 == 39 {
			for id := range int64(3) {
				if _, err := l.WriteMarker(Marker{ProducerID: id, Commit: i%80 == 39, LeaderEpoch: i / 100}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := e.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	byKind := map[string][]string{}
	entries, err := os.ReadDir(dir + "/t-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		kind := filepath.Ext(f.Name())
		byKind[kind] = append(byKind[kind], filepath.Join(dir, "t-0", f.Name()))
	}
	for _, kind := range []string{".log", ".index", ".timeindex", ".txnindex", ".snapshot"} {
		if len(byKind[kind]) < 2 {
			t.Errorf("%s: only %v", kind, byKind[kind])
		}
		flags := [][]string{{}}
		switch kind {
		case ".log":
			flags = [][]string{{"--deep-iteration", "--print-data-log"}}
		case ".index":
			flags = [][]string{{"--index-sanity-check"}, {"--verify-index-only"}}
		case ".timeindex":
			flags = [][]string{{"--index-sanity-check"}, {"--verify-index-only"}, {}}
		}
		for _, flag := range flags {
			args := append(append(append([]string{}, command[1:]...), flag...), "--files", strings.Join(byKind[kind], ","))
			out, err := exec.Command(command[0], args...).CombinedOutput()
			if err != nil {
				t.Errorf("%s %v: %v\n%.2000s", kind, flag, err, out)
			}
			t.Logf("%s %v: %d bytes of output", kind, flag, len(out))
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(strings.TrimSpace(line), "-1 is followed by") {
					continue // 4.4 says so of every segment that does not begin at 0
				}
				for _, word := range []string{"mismatch", "exception", "corrupt", "found:", "isvalid: false", "out of order", "is followed by"} {
					if strings.Contains(strings.ToLower(line), word) {
						t.Errorf("%s %v: %s", kind, flag, line)
					}
				}
			}
		}
	}
}
