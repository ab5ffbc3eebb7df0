package checkpoint

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/log/vfs"
)

var now = time.Date(2026, 11, 29, 17, 8, 7, 0, time.UTC)

func memFS() *vfs.Mem {
	m := vfs.NewMem(0, func() time.Time { return now })
	if err := m.MkdirAll("/d"); err != nil {
		panic(err)
	}
	return m
}

func TestTopicPartition(t *testing.T) {
	for name, want := range map[string]TopicPartition{"a-0": {"a", 0}, "a-b.c_-17": {"a-b.c_", 17}, "--1": {"-", 1}} {
		if got, err := ParseTopicPartition(name); err != nil || got != want || got.String() != name {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	for _, name := range []string{"", "a", "-1", "a-", "a-x", "a-2147483648", "a-+1"} {
		if got, err := ParseTopicPartition(name); err == nil {
			t.Errorf("%q is %v", name, got)
		}
	}
}

func TestKafkasOffsetFiles(t *testing.T) {
	for _, c := range []struct {
		dir, name string
		want      Offsets
	}{
		{"kafka-3.9.2", RecoveryPoints, Offsets{{"__transaction_state", 2}: 0, {"t1", 1}: 10, {"__consumer_offsets", 1}: 0, {"__transaction_state", 0}: 15, {"t1", 0}: 13}},
		{"kafka-3.9.2", LogStartOffsets, Offsets{}},
		{"kafka-4.4.0", CleanerOffsets, Offsets{}},
		{"kafka-4.4.0", "no such file", Offsets{}},
	} {
		got, err := ReadOffsets(vfs.OS, "../testdata/"+c.dir, c.name)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s %s: %v %v", c.dir, c.name, got, err)
		}
	}
	raw, err := os.ReadFile("../testdata/kafka-3.9.2/" + LogStartOffsets)
	if err != nil || string(Offsets{}.Format()) != string(raw) {
		t.Errorf("without entries we write %q, Kafka %q", Offsets{}.Format(), raw)
	}
}

func TestOffsetsAreRefused(t *testing.T) {
	for _, raw := range []string{"1\n0\n", "0", "0\nx\n", "0\n1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n1\na -1 5\n", "0\n2\na 0 5\n", "0\n0\na 0 5\n", "0\n2\na 0 5\na 0 6\n", "0\n1\na 0 -1\n"} {
		if o, err := ParseOffsets([]byte(raw)); err == nil {
			t.Errorf("%q is %v", raw, o)
		}
	}
}

func TestWriteSurvivesEveryCrash(t *testing.T) {
	for step := int64(0); ; step++ {
		mem := memFS()
		if err := Write(mem, "/d/f", []byte("old")); err != nil {
			t.Fatal(err)
		}
		faulty := vfs.NewFaulty(mem)
		var crashed *vfs.Mem
		faulty.Before(func(c vfs.Call) (int, error) {
			if c.N == step {
				crashed = mem.Crash()
			}
			return 0, nil
		})
		if err := Write(faulty, "/d/f", []byte("new")); err != nil {
			t.Fatal(err)
		}
		if crashed == nil {
			if got, err := mem.Crash().ReadFile("/d/f", 10); string(got) != "new" {
				t.Errorf("after Write returned a crash leaves %q, %v", got, err)
			}
			return
		}
		if got, err := crashed.ReadFile("/d/f", 10); string(got) != "old" && string(got) != "new" {
			t.Errorf("a crash before call %d leaves %q, %v", step, got, err)
		}
	}
}

func TestMeta(t *testing.T) {
	for dir, want := range map[string]Meta{
		"kafka-3.9.2": {0, 2, "vddWK14PRI2hO83V7_zqFg", ""},
		"kafka-4.4.0": {1, 1, "MkU3OEVBNTcwNTJENDM2Qk", "0MUc2wduaXw8wb9PDx0f1w"},
	} {
		if got, found, err := ReadMeta(vfs.OS, "../testdata/"+dir); err != nil || !found || got != want {
			t.Errorf("%s: %+v %v", dir, got, err)
		}
	}
	raw, err := os.ReadFile("../testdata/kafka-3.9.2/" + MetaName)
	if err != nil {
		t.Fatal(err)
	}
	if got := (Meta{ID: 2, ClusterID: "vddWK14PRI2hO83V7_zqFg"}).Format(now); string(got) != string(raw) {
		t.Errorf("we write %q, Kafka %q", got, raw)
	}
	if _, found, err := ReadMeta(memFS(), "/d"); found || err != nil {
		t.Errorf("found %v in an empty directory, %v", found, err)
	}
}

func TestPropertiesAsJavaReadsThem(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"a=b":                             {"a": "b"},
		"  a : b \r\nc d\n\n# e=f\n! g=h": {"a": "b ", "c": "d"},
		"a\\=b\\:c=d\\u0041\\t":           {"a=b:c": "dA\t"},
		"a=b\\\n   c":                     {"a": "bc"},
		"a=b\\\\\nc=d":                    {"a": `b\`, "c": "d"},
		"a":                               {"a": ""},
		"a=\\uZZ":                         {"a": "ZZ"},
	} {
		if got := properties(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestCleanShutdownIsTakenOnce(t *testing.T) {
	mem := memFS()
	if err := WriteCleanShutdown(mem, "/d"); err != nil {
		t.Fatal(err)
	}
	if got, err := mem.Crash().ReadFile("/d/"+CleanShutdownName, 100); string(got) != `{"version":0,"brokerEpoch":-1}` {
		t.Errorf("the marker is %q, %v", got, err)
	}
	for i, want := range []bool{true, false} {
		if got, err := TakeCleanShutdown(mem, "/d"); got != want || err != nil {
			t.Errorf("time %d: %v %v", i, got, err)
		}
	}
	if _, err := mem.Crash().Stat("/d/" + CleanShutdownName); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a crash brings the marker back")
	}
}

func TestPartitionMetadata(t *testing.T) {
	id, err := ReadPartitionMetadata(vfs.OS, "../testdata/kafka-3.9.2/t1-0")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../testdata/kafka-3.9.2/t1-0/" + PartitionMetadataName)
	if err != nil || string(FormatPartitionMetadata(id)) != string(raw) {
		t.Errorf("we write %q, Kafka %q", FormatPartitionMetadata(id), raw)
	}
	for _, raw := range []string{"x", "version: 1\ntopic_id: B_D9IvovQTi7XTjbLu7UNQ", "version: 0\n", "version: 0\ntopic_id: short"} {
		if _, err := ParsePartitionMetadata([]byte(raw)); err == nil {
			t.Errorf("%q was accepted", raw)
		}
	}
}

func FuzzOffsets(f *testing.F) {
	f.Add([]byte("0\n2\n__transaction_state 2 0\nt1 1 10\n"))
	f.Add([]byte("0\n0\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := ParseOffsets(raw)
		if err != nil {
			return
		}
		if again, err := ParseOffsets(o.Format()); err != nil || !maps.Equal(o, again) {
			t.Errorf("%q: %v is read again as %v: %v", raw, o, again, err)
		}
	})
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte("#\n#Sun Nov 29 17:08:07 UTC 2026\nbroker.id=2\nversion=0\ncluster.id=vddWK14PRI2hO83V7_zqFg\n"))
	f.Add([]byte("version=0\ncluster.id=a\\=b\\u00e4\\\n c"))
	f.Add([]byte("version=0\ncluster.id=\\ a"))
	f.Add([]byte("version=0\ncluster.id=\\f"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ParseMeta(raw)
		if err != nil || m.Version != 0 {
			return
		}
		again, err := ParseMeta(m.Format(now))
		if m.DirectoryID = ""; err != nil || again != m {
			t.Errorf("%q: %+v is read again as %+v: %v", raw, m, again, err)
		}
	})
}

func FuzzPartitionMetadata(f *testing.F) {
	f.Add([]byte("version: 0\ntopic_id: B_D9IvovQTi7XTjbLu7UNQ"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if id, err := ParsePartitionMetadata(raw); err == nil {
			if again, err := ParsePartitionMetadata(FormatPartitionMetadata(id)); err != nil || again != id {
				t.Errorf("%q: %v", raw, err)
			}
		}
	})
}
