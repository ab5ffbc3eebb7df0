package tools

import (
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// Counted are the counters of records that the test looks at, by the name of the MBean in Kafka. What the exporter makes of it is
// what gregor shows: kafka_server_brokertopicmetrics_…_total.
var counted = map[string]string{
	"InvalidMagicNumberRecordsPerSec":      "invalidmagicnumberrecords",
	"InvalidMessageCrcRecordsPerSec":       "invalidmessagecrcrecords",
	"InvalidOffsetOrSequenceRecordsPerSec": "invalidoffsetorsequencerecords",
	"NoKeyCompactedTopicRecordsPerSec":     "nokeycompactedtopicrecords",
	"ProduceMessageConversionsPerSec":      "producemessageconversions",
	"FetchMessageConversionsPerSec":        "fetchmessageconversions",
}

// TestRecordsAreCounted: what is wrong with records, and what has to be converted, is counted as Kafka counts it. Kafka's counters are read
// over JMX, with its own tool.
func TestRecordsAreCounted(t *testing.T) {
	harness.Need(t, "java")
	b, look := counting(t)
	harness.CreateTopic(t, b, "plain", 1)
	harness.CreateTopic(t, b, "compacted", 1, "cleanup.policy", "compact")
	harness.CreateTopic(t, b, "gzip", 1, "compression.type", "gzip")
	now := time.Now().UnixMilli()
	three := func() []byte { return raw.NewBatch(now, "a", "b", "c").Encode() }
	changed := func(at int, seal bool) []byte {
		batch := three()
		batch[at] ^= 1
		if seal {
			raw.Seal(batch)
		}
		return batch
	}
	const lastDelta, count, crc = 26, 60, 17 // where the last byte of the first two and the first of the third are in a batch
	message := func(magic int8, offset int64) []byte { return raw.Message(magic, 0, offset, now, nil, []byte("v")) }
	for _, step := range []struct {
		name    string
		topic   string
		version int16
		records []byte
		old     bool // only 3.9 knows such requests
		code    *kerr.Error
		counter string
		more    int64
	}{
		{"records without keys", "compacted", 9, three(), false, kerr.InvalidRecord, "NoKeyCompactedTopicRecordsPerSec", 3},
		{"a wrong CRC", "plain", 9, changed(crc, false), false, kerr.CorruptMessage, "InvalidMessageCrcRecordsPerSec", 1},
		{"a count that does not fit", "plain", 9, changed(count, true), false, kerr.InvalidRecord, "InvalidOffsetOrSequenceRecordsPerSec", 1},
		{"a last offset that does not fit", "plain", 9, changed(lastDelta, true), false, kerr.InvalidRecord, "InvalidOffsetOrSequenceRecordsPerSec", 1},
		{"nothing wrong", "plain", 9, three(), false, nil, "", 0},
		{"compression that the topic wants", "gzip", 9, three(), false, nil, "ProduceMessageConversionsPerSec", 3},
		{"compressed as the topic wants", "gzip", 9, raw.NewBatch(now, "a", "b").With(raw.Gzip).Encode(), false, nil, "", 0},
		{"old messages", "plain", 2, append(message(1, 0), message(1, 1)...), true, nil, "ProduceMessageConversionsPerSec", 2},
		{"old messages without keys", "compacted", 2, message(1, 0), true, kerr.InvalidRecord, "NoKeyCompactedTopicRecordsPerSec", 1},
		{"messages of two formats", "plain", 2, append(message(0, 0), message(1, 1)...), true, kerr.InvalidRecord, "InvalidMagicNumberRecordsPerSec", 1},
	} {
		if step.old && b.Kind == harness.Kafka44 {
			continue
		}
		want := look()
		want[step.counter] += step.more
		delete(want, "")
		if code := produceRaw(t, b, step.topic, step.version, step.records); step.code == nil && code != 0 || step.code != nil && code != step.code.Code {
			t.Errorf("%s: code %d, want %v", step.name, code, step.code)
		}
		if got := look(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step.name, got, want)
		}
	}
	if b.Kind == harness.Kafka44 {
		return
	}
	want := look()
	want["FetchMessageConversionsPerSec"] += 2
	c := raw.Dial(t, b.Addr)
	r := raw.With(kmsg.NewPtrFetchRequest(), 2)
	r.ReplicaID = -1
	r.Topics = []kmsg.FetchRequestTopic{{Topic: "plain", Partitions: []kmsg.FetchRequestTopicPartition{{FetchOffset: 3, PartitionMaxBytes: 1 << 20}}}}
	if p := raw.Do[*kmsg.FetchResponse](c, r).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("an old client gets code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	if got := look(); !maps.Equal(got, want) {
		t.Errorf("records for an old client: %v, want %v", got, want)
	}
}

// produceRaw returns the code for records.
func produceRaw(t *testing.T, b *harness.Broker, topic string, version int16, records []byte) int16 {
	t.Helper()
	c := raw.Dial(t, b.Addr)
	defer c.Close()
	r := raw.With(kmsg.NewPtrProduceRequest(), version)
	r.Acks, r.TimeoutMillis = 1, 30_000
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return raw.Do[*kmsg.ProduceResponse](c, r).Topics[0].Partitions[0].ErrorCode
}

// counting starts a broker, ours in ZooKeeper mode, and returns what reads its counters.
func counting(t *testing.T) (*harness.Broker, func() map[string]int64) {
	t.Helper()
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if harness.Peer() == harness.Gregor {
		b := harness.Start(t, harness.Options{Props: map[string]string{
			"gregor.http.listener": address, "zookeeper.connect": harness.StartZooKeeper(t).Addr, "broker.id": "1",
		}})
		return b, func() map[string]int64 { return scrapeCounted(t, "http://"+address+"/metrics") }
	}
	b := harness.Start(t, harness.Options{Env: harness.JMXEnv(port)})
	return b, func() map[string]int64 { return askJMX(t, b, port) }
}

// scrapeCounted reads gregor's counters, of all topics.
func scrapeCounted(t *testing.T, url string) map[string]int64 {
	t.Helper()
	text := page(t, url)
	values := map[string]int64{}
	for bean, name := range counted {
		m := regexp.MustCompile(`(?m)^kafka_server_brokertopicmetrics_` + name + `_total (\S+)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%s is not shown", name)
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		values[bean] = int64(n)
	}
	return values
}

// askJMX reads Kafka's.
func askJMX(t *testing.T, b *harness.Broker, port int) map[string]int64 {
	t.Helper()
	const prefix = "kafka.server:type=BrokerTopicMetrics,name="
	var beans []string
	for bean := range counted {
		beans = append(beans, prefix+bean)
	}
	values := map[string]int64{}
	for bean, value := range b.JMX(t, port, "Count", beans...) {
		values[strings.TrimPrefix(bean, prefix)] = int64(value)
	}
	if len(values) != len(counted) {
		t.Fatalf("JMX has %v", values)
	}
	return values
}
