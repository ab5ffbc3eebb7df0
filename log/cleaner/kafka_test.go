package cleaner

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/record"
)

// testdata/kafka-3.9.2 is a partition before and after Apache Kafka 3.9.2 cleaned it, three times in a row, each time
// after more was written. It was made with a broker in ZooKeeper mode, for N from 1 to 3:
//
//	start it with log.cleaner.enable=false; go test ./log/cleaner -run TestWriteToKafka -peer 127.0.0.1:9092 -phase N
//	stop it; copy its files to beforeN
//	start it with log.cleaner.backoff.ms=500; wait until cleaner-offset-checkpoint has changed
//	stop it; copy its files to afterN, without those that end in .deleted
var (
	peerFlag  = flag.String("peer", "", "address of an Apache Kafka broker to write to")
	phaseFlag = flag.Int("phase", 1, "which time it is")
)

// TestCleanAsKafka cleans what Kafka cleaned and compares the files.
func TestCleanAsKafka(t *testing.T) {
	for phase := 1; phase <= 3; phase++ {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			before, after := fmt.Sprint("testdata/kafka-3.9.2/before", phase), fmt.Sprint("testdata/kafka-3.9.2/after", phase)
			c := testConfig()
			c.SegmentBytes, c.IndexIntervalBytes, c.DeleteRetentionMs = 1500, 400, 1
			e := newEnv(t, c)
			e.close()
			e.load(before)
			e.clock.Jump(time.UnixMilli(cleanedAt(t, before, after)))
			e.open()
			e.log.AdvanceHighWatermark(e.log.Bounds().End)
			if n := e.clean(); n != 1 {
				t.Errorf("%d rounds", n)
			}
			e.compare(after)
		})
	}
}

// load puts the files of a directory into the log directory.
func (e *env) load(dir string) {
	e.t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := e.fs.Create("/d" + strings.TrimPrefix(name, dir))
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(raw, 0); err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

// cleanedAt is the time at which Kafka cleaned: that of the new delete horizons, less delete.retention.ms.
func cleanedAt(t *testing.T, before, after string) int64 {
	last := int64(0)
	for _, dir := range []string{before, after} {
		files, _ := filepath.Glob(dir + "/c-0/*.log")
		for _, f := range files {
			raw, err := os.ReadFile(f)
			for err == nil && len(raw) > 0 {
				var e record.Entry
				e, raw, err = record.NextEntry(raw)
				if b, _ := e.Batch(); err == nil && b.HasDeleteHorizon() {
					last = max(last, b.BaseTimestamp())
				}
			}
			if err != nil {
				t.Fatal(f, err)
			}
		}
	}
	return last - 1
}

// compare demands the files of dir, save what a compressor decides.
func (e *env) compare(dir string) {
	e.t.Helper()
	entries, err := e.fs.ReadDir("/d/c-0")
	if err != nil {
		e.t.Fatal(err)
	}
	var got, want []string
	for _, f := range entries {
		if ext := filepath.Ext(f.Name()); ext == ".log" || ext == ".txnindex" {
			got = append(got, f.Name())
		}
	}
	files, _ := filepath.Glob(dir + "/c-0/*")
	for _, f := range files {
		want = append(want, filepath.Base(f))
	}
	if !slices.Equal(got, want) {
		e.t.Fatalf("files %v, Kafka's %v", got, want)
	}
	for _, f := range want {
		ours, err := e.fs.ReadFile("/d/c-0/"+f, 1<<20)
		kafkas, err2 := os.ReadFile(dir + "/c-0/" + f)
		if err != nil || err2 != nil {
			e.t.Fatal(err, err2)
		}
		if filepath.Ext(f) == ".log" {
			ours, kafkas = expand(e.t, ours), expand(e.t, kafkas)
		}
		if !bytes.Equal(ours, kafkas) {
			e.t.Errorf("%s is\n%x\nKafka's\n%x", f, ours, kafkas)
		}
	}
	ours, err := checkpoint.ReadOffsets(e.fs, "/d", checkpoint.CleanerOffsets)
	raw, err2 := os.ReadFile(dir + "/cleaner-offset-checkpoint")
	if err != nil || err2 != nil || !bytes.Equal(ours.Format(), raw) {
		e.t.Errorf("checkpoint %q, Kafka's %q, %v, %v", ours.Format(), raw, err, err2)
	}
}

// expand replaces the records of compressed batches by what they decompress to, and size and checksum by nothing.
func expand(t *testing.T, raw []byte) (out []byte) {
	t.Helper()
	for len(raw) > 0 {
		e, rest, err := record.NextEntry(raw)
		if err != nil || e.CheckCRC() != nil {
			t.Fatal(err, e.CheckCRC())
		}
		raw = rest
		if e.Codec() == record.None {
			out = append(out, e...)
			continue
		}
		out = append(out, e[:8]...)
		out = append(out, e[12:17]...)
		out = append(out, e[21:record.HeaderSize]...)
		if out, err = record.Decompress(out, e.Codec(), e[record.HeaderSize:], 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestWriteToKafka writes records of every kind: keys that come again, tombstones, committed and aborted transactions, a
// compressed batch, idempotent producers that stop and that go on.
func TestWriteToKafka(t *testing.T) {
	if *peerFlag == "" {
		return // the files that it makes are what the other tests read
	}
	w := &kafkaWriter{t, fmt.Sprint(*phaseFlag)}
	admin := w.client()
	defer admin.Close()
	if *phaseFlag == 1 {
		value := func(s string) *string { return &s }
		_, err := kadm.NewClient(admin).CreateTopic(context.Background(), 1, 1, map[string]*string{
			"cleanup.policy": value("compact"), "segment.bytes": value("1500"), "min.cleanable.dirty.ratio": value("0.01"),
			"delete.retention.ms": value("1"), "index.interval.bytes": value("400"),
		}, "c")
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b, plain := w.client(), w.client(), w.client(kgo.DisableIdempotentWrite())
	lz4 := w.client(kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	w.write(a, "k=a", "k=b", "k=c")
	w.write(b, "k=B", "x=x", "dead=")
	for i := range 8 {
		w.write(plain, fmt.Sprintf("p%d=-%d", i%3, i), fmt.Sprintf("q%d=", i))
	}
	w.write(lz4, "p0=lz4", "z1=", "z2=", "z1=again")
	w.write(plain, "dead", "x2")
	w.transact("t1", kgo.TryCommit, []string{"t=committed", "k=tx"}, []string{"t=second"})
	w.transact("t2", kgo.TryAbort, []string{"t=aborted", "u=aborted"})
	w.transact("t1", kgo.TryCommit, []string{"v="})
	w.write(plain, "u=", "dead")
	w.write(b, "b=")
	for i := range 12 {
		w.write(plain, fmt.Sprintf("fill%d=", i%2))
	}
	for _, c := range []*kgo.Client{a, b, plain, lz4} {
		c.Close()
	}
}

type kafkaWriter struct {
	t     *testing.T
	phase string
}

func (w *kafkaWriter) client(o ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(*peerFlag), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(50 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, o...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// write sends one batch of "key=value" with the phase and repetition in the value; a key alone is a tombstone.
func (w *kafkaWriter) write(c *kgo.Client, pairs ...string) {
	var recs []*kgo.Record
	for _, p := range pairs {
		k, v, has := strings.Cut(p, "=")
		r := &kgo.Record{Topic: "c", Key: []byte(k), Timestamp: start.Add(time.Duration(len(p)) * time.Second)}
		if has {
			r.Value = []byte(strings.Repeat(w.phase+v+" ", 10))
			r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte(v)}}
		}
		recs = append(recs, r)
	}
	if err := c.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *kafkaWriter) transact(id string, how kgo.TransactionEndTry, batches ...[]string) {
	c := w.client(kgo.TransactionalID(id))
	defer c.Close()
	if err := c.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	for _, b := range batches {
		w.write(c, b...)
	}
	if err := c.EndTransaction(context.Background(), how); err != nil {
		w.t.Fatal(err)
	}
}

var _ Logs = (*log.Manager)(nil)
