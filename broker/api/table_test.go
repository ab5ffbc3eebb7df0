package api

import (
	"bufio"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTableIsInOrderAndDecodable: a version that is advertised must be one that the codec knows.
func TestTableIsInOrderAndDecodable(t *testing.T) {
	if !slices.IsSortedFunc(entries, func(a, b *Entry) int { return int(a.Key) - int(b.Key) }) {
		t.Error("the table is not in the order of the keys")
	}
	seen := map[kmsg.Key]bool{}
	for _, e := range entries {
		if seen[e.Key] {
			t.Errorf("%s is in the table twice", e.Key.Name())
		}
		seen[e.Key] = true
		if e.Serve == nil || e.Cost < 1 {
			t.Errorf("%s is not served, or costs nothing", e.Key.Name())
		}
		for _, r := range []Versions{e.ZooKeeper, e.Kafka4} {
			if !r.Empty() && r.Max > e.Key.Request().MaxVersion() {
				t.Errorf("%s: version %d is newer than the codec's %d", e.Key.Name(), r.Max, e.Key.Request().MaxVersion())
			}
		}
	}
}

var advertisedLine = regexp.MustCompile(`^\s+\w+\((\d+)\): (\d+)(?: to (\d+))? \[`)

// readAdvertised reads what kafka-broker-api-versions printed of a real broker.
func readAdvertised(t *testing.T, name string) map[kmsg.Key]Versions {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[kmsg.Key]Versions{}
	number := func(s string) int16 {
		n, err := strconv.ParseInt(s, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		return int16(n)
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := advertisedLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		r := Versions{number(m[2]), number(m[2])}
		if m[3] != "" {
			r.Max = number(m[3])
		}
		found[kmsg.Key(number(m[1]))] = r
	}
	return found
}

// withReceiver are what a real broker serves where a Java class receives clients' metrics, which those on record lack.
var withReceiver = []kmsg.Key{kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry}

// TestVersionsAreKafkas holds the table to what real brokers of 3.9.2 and 4.4.0 advertised.
func TestVersionsAreKafkas(t *testing.T) {
	zooKeeper := readAdvertised(t, "testdata/apiversions-3.9.2-zookeeper.txt")
	kafka4 := readAdvertised(t, "testdata/apiversions-4.4.0.txt")
	for _, e := range entries {
		want, ok := zooKeeper[e.Key]
		if !ok {
			want = none
		}
		if e.ZooKeeper != want {
			t.Errorf("%s on 3.9: %s, a real broker serves %s", e.Key.Name(), e.ZooKeeper, want)
		}
		want, ok = kafka4[e.Key]
		if slices.Contains(withReceiver, e.Key) {
			want = v(0, 0)
		} else if !ok {
			want = none
		}
		if e.Kafka4 != want {
			t.Errorf("%s on 4.4: %s, a real broker serves %s", e.Key.Name(), e.Kafka4, want)
		}
	}
}

// TestEveryAPIIsInATable: what real brokers advertise is served, or it is told why not.
func TestEveryAPIIsInATable(t *testing.T) {
	zooKeeper := readAdvertised(t, "testdata/apiversions-3.9.2-zookeeper.txt")
	kafka4 := readAdvertised(t, "testdata/apiversions-4.4.0.txt")
	of := func(advertised map[kmsg.Key]Versions, key kmsg.Key) Versions {
		if r, ok := advertised[key]; ok {
			return r
		}
		return none
	}
	told := map[kmsg.Key]bool{}
	for _, e := range entries {
		told[e.Key] = true
	}
	for i, m := range missing {
		if told[m.key] || i > 0 && m.key <= missing[i-1].key {
			t.Errorf("%s is served, or not in its place", Name(m.key.Int16()))
		}
		told[m.key] = true
		if old, now := of(zooKeeper, m.key), of(kafka4, m.key); m.zooKeeper != old || m.kafka4 != now {
			t.Errorf("%s: %s and %s, real brokers serve %s and %s", Name(m.key.Int16()), m.zooKeeper, m.kafka4, old, now)
		}
	}
	for _, advertised := range []map[kmsg.Key]Versions{zooKeeper, kafka4} {
		for key := range advertised {
			if !told[key] {
				t.Errorf("%d %s is neither served nor told of", key, Name(key.Int16()))
			}
		}
	}
}

// TestNamesAreKafkas: APIs are called what kafka-broker-api-versions calls them.
func TestNamesAreKafkas(t *testing.T) {
	for _, file := range []string{"testdata/apiversions-3.9.2-zookeeper.txt", "testdata/apiversions-4.4.0.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s+(\w+)\((\d+)\):`).FindAllStringSubmatch(string(text), -1) {
			key, err := strconv.ParseInt(m[2], 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			if got := Name(int16(key)); got != m[1] && m[1] != "ListClientMetricsResources" { // the same key's older name
				t.Errorf("%d is called %s, by Kafka %s", key, got, m[1])
			}
		}
	}
}

func TestServedVersions(t *testing.T) {
	embedded, cluster := NewTable(Embedded), NewTable(ZooKeeper)
	if got := embedded.Versions(kmsg.Produce.Int16()); got != (Versions{0, 13}) {
		t.Errorf("embedded Produce is %s, want the union 0-13", got)
	}
	if got := cluster.Versions(kmsg.Produce.Int16()); got != (Versions{0, 11}) {
		t.Errorf("Produce on ZooKeeper is %s, want exactly 3.9's 0-11", got)
	}
	if !cluster.Versions(kmsg.DescribeTopicPartitions.Int16()).Empty() {
		t.Error("DescribeTopicPartitions is served on ZooKeeper, where 3.9 does not know it")
	}
	for _, key := range []int16{-1, 4, 200} {
		if !embedded.Versions(key).Empty() {
			t.Errorf("key %d is served", key)
		}
	}
}

// With gregor.extensions a cluster on ZooKeeper serves what 4.4 does besides, but for what is about the embedded store, and goes on to
// serve what brokers send each other.
func TestExtendedVersions(t *testing.T) {
	extended, cluster := NewTable(Extended), NewTable(ZooKeeper)
	for _, c := range []struct {
		key  kmsg.Key
		want Versions
	}{
		{kmsg.Produce, v(0, 13)}, {kmsg.EndTxn, v(0, 5)}, {kmsg.TxnOffsetCommit, v(0, 6)}, {kmsg.ConsumerGroupHeartbeat, v(0, 1)},
		{kmsg.ListConfigResources, v(0, 1)}, {kmsg.LeaderAndISR, v(0, 7)}, {kmsg.AlterPartition, v(0, 3)}, {kmsg.DescribeQuorum, none},
		{kmsg.UpdateFeatures, v(0, 1)},
	} {
		if got := extended.Versions(c.key.Int16()); got != c.want {
			t.Errorf("%s: %s, want %s", c.key.Name(), got, c.want)
		}
	}
	for _, e := range cluster.Entries() {
		if was, is := cluster.Versions(e.Key.Int16()), extended.Versions(e.Key.Int16()); is.Union(was) != is {
			t.Errorf("%s: %s is no longer served when the setting is switched on, only %s", e.Key.Name(), was, is)
		}
	}
}
