package adopt

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/broker"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/embedded"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

const (
	idA = "B_D9IvovQTi7XTjbLu7UNQ"
	idB = "enYD2GjCTGWdhY-WUbYsuQ"
)

// dataDir makes a data directory; files are "path: content".
func dataDir(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path, content, _ := strings.Cut(f, ": ")
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const meta = "meta.properties: #\nversion=0\nbroker.id=7\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"

func partition(name, id string) string {
	return name + "/partition.metadata: version: 0\ntopic_id: " + id
}

func TestImport(t *testing.T) {
	dir := dataDir(t, meta, partition("orders-0", idA), partition("orders-1", idA),
		"orders-1/leader-epoch-checkpoint: 0\n2\n0 0\n5 17\n", "old-0/00000000000000000000.log: ", "__consumer_offsets-0/x: ")
	var out bytes.Buffer
	o := options{retention: "forever", configs: []string{"orders:cleanup.policy=compact"}}
	for range 2 { // it can be repeated
		out.Reset()
		if err := o.run(context.Background(), &out, []string{dir}); err != nil {
			t.Fatal(err)
		}
	}
	want := `TOPIC               PARTITIONS  SETTINGS, IF NEW
__consumer_offsets  1           cleanup.policy=compact compression.type=producer segment.bytes=104857600
old                 1           retention.bytes=-1 retention.ms=-1
orders              2           cleanup.policy=compact retention.bytes=-1 retention.ms=-1
3 topics imported for broker 7 of cluster MkU3OEVBNTcwNTJENDM2Qg
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	s, err := embedded.Open(filepath.Join(dir, broker.StoreFile), embedded.Options{Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	nodes, err := s.Read(context.Background(), store.Req{Path: znode.TopicPath("orders")}, store.Req{Path: znode.StatePath("orders", 1)})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := znode.DecodeTopic(nodes[0].Data)
	if err != nil || znode.FormatID(topic.ID) != idA || len(topic.Replicas) != 2 {
		t.Errorf("%+v %v", topic, err)
	}
	state, err := znode.DecodeState(nodes[1].Data)
	if err != nil || state.Leader != 7 || state.LeaderEpoch != 6 {
		t.Errorf("%+v %v", state, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		files [][]string
		o     options
		want  string
	}{
		{"KRaft", [][]string{{"meta.properties: version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"}}, options{}, "KRaft"},
		{"a partition is missing", [][]string{{meta, partition("t-0", idA), partition("t-2", idA)}}, options{}, "partition 1 of topic t is missing"},
		{"two ids", [][]string{{meta, partition("t-0", idA), partition("t-1", idB)}}, options{}, "different topic ids"},
		{"a partition in two directories", [][]string{{meta, partition("t-0", idA)}, {meta, partition("t-0", idA)}}, options{}, "t-0 lies in"},
		{"two brokers", [][]string{{meta}, {strings.ReplaceAll(meta, "=7", "=8")}}, options{}, "of broker 7"},
		{"a setting of another topic", [][]string{{meta, partition("t-0", idA)}}, options{configs: []string{"x:a=b"}}, "topics that are not there: x"},
		{"a bad setting", [][]string{{meta, partition("t-0", idA)}}, options{configs: []string{"t:retention.ms=x"}}, "Invalid value x for configuration retention.ms"},
		{"no directory of Kafka", [][]string{{"holiday.jpg: "}}, options{}, "no data directory of Kafka"},
		{"no setting", [][]string{{meta}}, options{configs: []string{"t"}}, "want TOPIC:key=value"},
		{"no retention", [][]string{{meta}}, options{retention: "maybe"}, "want forever or broker"},
	} {
		var dirs []string
		for _, files := range c.files {
			dirs = append(dirs, dataDir(t, files...))
		}
		if c.o.retention == "" {
			c.o.retention = "broker"
		}
		err := c.o.run(context.Background(), &bytes.Buffer{}, dirs)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(filepath.Join(dirs[0], broker.StoreFile)); err == nil {
			t.Errorf("%s: a store was made", c.name)
		}
	}
}

func TestRunningBrokerIsRefused(t *testing.T) {
	first, second := dataDir(t, meta, partition("t-0", idA)), dataDir(t, meta)
	held, err := vfs.OS.Lock(filepath.Join(second, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{first, second}
	err = options{retention: "forever"}.run(context.Background(), &bytes.Buffer{}, dirs)
	if err == nil || err.Error() != "a broker runs on "+second+"; stop it first" {
		t.Error(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (options{retention: "forever"}).run(context.Background(), &bytes.Buffer{}, dirs); err != nil {
		t.Error(err)
	}
}

func TestSkipIncomplete(t *testing.T) {
	dir := dataDir(t, meta, partition("whole-0", idA), partition("part-1", idB))
	var out bytes.Buffer
	if err := (options{retention: "broker", skip: true}).run(context.Background(), &out, []string{dir}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "left out, since partitions are missing: part\n1 topic imported") {
		t.Error(out.String())
	}
}

func TestConfigsOf(t *testing.T) {
	o := options{retention: "broker"}
	if got := o.configsOf("t", nil); len(got) != 0 {
		t.Error(got)
	}
	if got := o.configsOf(controller.TransactionsTopicName, nil); got["cleanup.policy"] != "compact" {
		t.Error(got)
	}
}
