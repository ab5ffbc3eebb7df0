package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestLogDump: of what a broker wrote, "gregor log dump" shows just what kafka-dump-log does, while the broker runs.
func TestLogDump(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Start(t, harness.Options{})
	gregor(t, b, "", "topic", "create", "dumped", "--partitions", "1", "--config", "segment.bytes=1048576", "--config", "index.interval.bytes=4096")
	gregor(t, b, "", "bench", "produce", "--topic", "dumped", "--records", "3000", "--size", "1000", "--batch-bytes", "20000")
	for _, codec := range []string{"gzip", "snappy", "lz4", "zstd"} {
		gregor(t, b, "k1:v1\nk2:v2\nk3:\n", "produce", "dumped", "--key-separator", ":", "--null", "", "--header", "a=1", "--compression", codec)
	}
	gregor(t, b, "", "consume", "dumped", "--group", "dumpers", "--num", "100")

	var offsets []string
	for _, log := range glob(t, b.DataDirs[0], "__consumer_offsets-*", "*.log") {
		if info, err := os.Stat(log); err == nil && info.Size() > 0 {
			offsets = append(offsets, log)
		}
	}
	dir := b.PartitionDir(t, "dumped", 0)
	closed := func(paths []string) []string { return paths[:len(paths)-1] } // Kafka reads the active indexes with what they are preallocated
	for _, c := range []struct {
		files []string
		flags []string
	}{
		{glob(t, dir, "*.log"), []string{"--deep-iteration", "--print-data-log"}},
		{glob(t, dir, "*.log"), nil},
		{closed(glob(t, dir, "*.index")), nil},
		{closed(glob(t, dir, "*.timeindex")), nil},
		{closed(glob(t, dir, "*.index")), []string{"--index-sanity-check"}},
		{glob(t, dir, "*.snapshot"), nil},
		{offsets, []string{"--offsets-decoder"}},
	} {
		if len(c.files) == 0 {
			t.Errorf("%v: there is no such file", c.flags)
		}
		for _, file := range c.files {
			want := harness.JavaTools(t, harness.V44).Run(t, "kafka-dump-log", append(c.flags, "--files", file)...).Stdout
			ours := harness.Command(t, time.Minute, "", nil, harness.Binary(), append([]string{"log", "dump", file}, c.flags...)...)
			if ours.Code != 0 || ours.Stderr != "" {
				t.Errorf("%s %v: it ended with %d:\n%.1000s", file, c.flags, ours.Code, ours.Stderr)
			}
			if ours.Stdout != want {
				t.Errorf("%s %v: %s", file, c.flags, difference(ours.Stdout, want))
			}
		}
	}
}

func glob(t testing.TB, elements ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// difference shows the first line that differs.
func difference(got, want string) string {
	ours, theirs := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(ours), len(theirs)) {
		if ours[i] != theirs[i] {
			return "it shows\n" + ours[i] + "\nand kafka-dump-log\n" + theirs[i]
		}
	}
	return "one shows more lines than the other"
}
