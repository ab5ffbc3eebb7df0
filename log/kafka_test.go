package log

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/producer"
	"github.com/gregor-broker/gregor/log/vfs"
)

// The directories in testdata were written by Apache Kafka 3.9.2 (killed; its indexes left out) and 4.4.0 (stopped in
// order; its meta.properties, which we refuse, is replaced here).
type kafkaLog struct {
	topic     string
	partition int32
	end       int64
	id        string
	aborted   []AbortedTxn
	epoch     int32
}

var kafkaDirs = []struct {
	version string
	logs    []kafkaLog
}{
	{"3.9.2", []kafkaLog{
		{topic: "t1", end: 13, id: "B_D9IvovQTi7XTjbLu7UNQ", epoch: 1},
		{topic: "t2", end: 7, id: "81NUxHlhTY21jOWd8TwbtA", epoch: 2, aborted: []AbortedTxn{{1, 5, 6}}},
		{topic: "__consumer_offsets", partition: 2, end: 8, id: "enYD2GjCTGWdhY-WUbYsuQ", epoch: 2},
		{topic: "__transaction_state", end: 15, id: "ln2xkqp5S46eqTgx3NvAUQ", epoch: 0},
	}},
	{"4.4.0", []kafkaLog{
		{topic: "t1", end: 7, id: "UdqUDeT5TTqBBzHzeA0MQA", epoch: 0},
		{topic: "t2", end: 5, id: "4lYqKuQlRca_uCHQZF8q3A", epoch: 0, aborted: []AbortedTxn{{1, 3, 4}}},
		{topic: "__consumer_offsets", partition: 2, end: 9, id: "PeuNtdvAQcu1elViAvyE8A", epoch: 0},
		{topic: "__transaction_state", end: 8, id: "XHiyNGoNTbaST5v0jVydCg", epoch: 0},
	}},
}

// kafkaEnv is a file system with a copy of a directory that Kafka wrote.
func kafkaEnv(t *testing.T, version string) *env {
	e := newEnv(t)
	e.o.ClusterID, e.o.BrokerID = "", 2
	copyIn(t, e.fs, "testdata/kafka-"+version, "/data")
	if version == "4.4.0" {
		meta := checkpoint.Meta{ID: 2, ClusterID: "vddWK14PRI2hO83V7_zqFg"}
		if err := checkpoint.WriteMeta(e.fs, "/data", meta, epoch0); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestKafkaDirectoriesReadTheSame(t *testing.T) {
	for _, dir := range kafkaDirs {
		t.Run(dir.version, func(t *testing.T) {
			e := kafkaEnv(t, dir.version).open()
			for _, want := range dir.logs {
				checkKafkaLog(t, e, dir.version, want)
			}
			e.reopen() // what we wrote at the end reads the same, too
			for _, want := range dir.logs {
				checkKafkaLog(t, e, dir.version, want)
			}
			e.on(e.fs.Kill())
			for _, want := range dir.logs {
				checkKafkaLog(t, e, dir.version, want)
			}
		})
	}
}

func checkKafkaLog(t *testing.T, e *env, version string, want kafkaLog) {
	t.Helper()
	tp := TopicPartition{Topic: want.topic, Partition: want.partition}
	l := e.m.Get(tp)
	if l == nil {
		t.Fatalf("%s was not found", tp)
	}
	if got := l.Bounds(); got != (Bounds{0, want.end, want.end, want.end}) && want.topic != "t2" && want.topic != "__consumer_offsets" {
		t.Errorf("%s: bounds %+v, want end %d", tp, got, want.end)
	}
	if got := l.Bounds().End; got != want.end {
		t.Errorf("%s: end %d, want %d", tp, got, want.end)
	}
	if got := l.TopicID().String(); got != want.id {
		t.Errorf("%s: topic id %s, want %s", tp, got, want.id)
	}
	if got, _ := l.LatestEpoch(); got != want.epoch {
		t.Errorf("%s: epoch %d, want %d", tp, got, want.epoch)
	}
	if got := abortedTxns(t, l, 0, want.end); !reflect.DeepEqual(got, want.aborted) {
		t.Errorf("%s: aborted %v, want %v", tp, got, want.aborted)
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "kafka-"+version, tp.String(), "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, l, 0, LogEnd); !bytes.Equal(got, raw) {
		t.Errorf("%s: %d bytes read, not the %d that Kafka wrote", tp, len(got), len(raw))
	}
}

// What recovery builds from the log is what Kafka wrote beside it.
func TestRecoveryBuildsKafkasFiles(t *testing.T) {
	e := kafkaEnv(t, "4.4.0")
	if err := e.fs.Remove("/data/" + checkpoint.CleanShutdownName); err != nil {
		t.Fatal(err)
	}
	for _, tp := range []string{"t1-0", "t2-0", "__consumer_offsets-2", "__transaction_state-0"} {
		for _, kind := range []string{".index", ".timeindex", ".txnindex"} {
			_ = e.fs.Remove("/data/" + tp + "/00000000000000000000" + kind)
		}
	}
	e.open().reopen()
	compared := 0
	for _, tp := range []string{"t1-0", "t2-0", "__consumer_offsets-2", "__transaction_state-0"} {
		entries, err := e.fs.ReadDir("/data/" + tp)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range entries {
			want, err := os.ReadFile(filepath.Join("testdata/kafka-4.4.0", tp, f.Name()))
			if err != nil {
				t.Error(err)
				continue
			}
			got, err := e.fs.ReadFile("/data/"+tp+"/"+f.Name(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			compared++
			if strings.HasSuffix(f.Name(), ".snapshot") { // several producers are in the order of Kafka's hash map
				want, got = inOrder(t, want), inOrder(t, got)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s/%s\n got %x\nwant %x", tp, f.Name(), got, want)
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d files compared", compared)
	}
}

func inOrder(t *testing.T, snapshot []byte) []byte {
	t.Helper()
	var s producer.State
	if err := s.Load(snapshot, 0, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	return s.Snapshot()
}

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		version string
		kraft   bool
		broker  int32
	}{{"3.9.2", false, 2}, {"4.4.0", true, 1}} {
		got, err := Inspect("testdata/kafka-" + c.version)
		if err != nil {
			t.Fatal(err)
		}
		if got.KRaft != c.kraft || got.BrokerID != c.broker || len(got.Partitions) != 4 {
			t.Errorf("%s: %+v", c.version, got)
		}
		last := got.Partitions[3]
		if last.Topic != "t2" || last.Partition != 0 || last.TopicID == (TopicID{}) {
			t.Errorf("%s: last partition %+v", c.version, last)
		}
	}
	if _, err := InspectFS(vfs.NewMem(0, nil), "/nothing"); err == nil {
		t.Error("a directory that does not exist was inspected")
	}
}

func TestKRaftDirectoryIsRefusedUnchanged(t *testing.T) {
	e := newEnv(t)
	copyIn(t, e.fs, "testdata/kafka-4.4.0", "/data")
	_, err := OpenManager(context.Background(), e.o)
	if err == nil || !strings.Contains(err.Error(), "KRaft") || !strings.Contains(err.Error(), "/data/meta.properties") {
		t.Errorf("error %v", err)
	}
	if _, err := e.fs.Stat("/data/" + checkpoint.CleanShutdownName); err != nil {
		t.Error("the refused directory was changed")
	}
}
