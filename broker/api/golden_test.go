package api

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// To record the golden frames again: start Apache Kafka 4.4.0, freshly, as node 1 with
// advertised.listeners=PLAINTEXT://127.0.0.1:39999, offsets.topic.num.partitions=1, transaction.state.log.num.partitions=1
// and group.initial.rebalance.delay.ms=0, and run
//
//	go test ./broker/api -run TestGolden -record 127.0.0.1:PORT -through 127.0.0.1:39999
//
// which waits for the frames of Java clients, until a consumer leaves its group. Give it those by running Kafka's tools:
//
//	echo k:v | kafka-console-producer --bootstrap-server 127.0.0.1:39999 --topic java --reader-property parse.key=true
//	kafka-console-consumer --bootstrap-server 127.0.0.1:39999 --topic java --from-beginning --max-messages 1
var (
	recordFrom    = flag.String("record", "", "address of an Apache Kafka 4.4.0 to record the golden frames from")
	recordThrough = flag.String("through", "", "address to offer to Java clients while recording")
)

const (
	goldenFile  = "testdata/golden-4.4.0.txt"
	goldenTopic = "golden"
	goldenTime  = 1_700_000_000_000 // ms; of the first record
	goldenPID   = 4242
)

// golden is one recorded frame, without its length. A line of the file holds these fields in this order.
type golden struct {
	key, version int16
	direction    string // request, response, or java (a Java client's request)
	name         string // what the request is about, without spaces
	frame        []byte
}

// TestGolden runs all on frames of Apache Kafka: they must survive our codec, and what Kafka answered must be what
// we answer.
func TestGolden(t *testing.T) {
	if *recordFrom != "" {
		recordGolden(t)
	}
	id, lines := readGolden(t)
	t.Run("codec", func(t *testing.T) { recodeGolden(t, lines) })
	t.Run("answers", func(t *testing.T) { playGolden(t, id, lines) })
}

func readGolden(t *testing.T) (topicID []byte, lines []golden) {
	t.Helper()
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var g golden
		var digits string
		if _, err := fmt.Sscanf(line, "# topic id %x", &topicID); err == nil || line[0] == '#' {
			continue
		}
		if _, err := fmt.Sscan(line, &g.key, &g.version, &g.direction, &g.name, &digits); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if g.frame, err = hex.DecodeString(digits); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, g)
	}
	if len(topicID) != 16 {
		t.Fatalf("%s does not tell the topic's id", goldenFile)
	}
	return topicID, lines
}

// recodeGolden decodes every frame as a broker and as a client does, and encodes it again to the same bytes.
func recodeGolden(t *testing.T, lines []golden) {
	for _, g := range lines {
		var again []byte
		var err error
		if g.direction == "response" {
			again, err = recodeResponse(g)
		} else {
			again, err = recodeRequest(g)
		}
		if err != nil {
			t.Errorf("%s %s v%d %s: %v", g.direction, kmsg.Key(g.key).Name(), g.version, g.name, err)
		} else if !bytes.Equal(again, g.frame) {
			t.Errorf("%s %s v%d %s:\n got %x\nwant %x", g.direction, kmsg.Key(g.key).Name(), g.version, g.name, again, g.frame)
		}
	}
}

func recodeRequest(g golden) ([]byte, error) {
	h, body, err := frame.ParseHeader(g.frame)
	if err != nil {
		return nil, err
	}
	if h.Key != g.key || h.Version != g.version || h.ClientID == nil {
		return nil, fmt.Errorf("its header says %+v", h)
	}
	r := kmsg.RequestForKey(h.Key)
	r.SetVersion(h.Version)
	if err := r.ReadFrom(body); err != nil {
		return nil, err
	}
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(*h.ClientID)).AppendRequest(nil, r, h.CorrelationID)[4:], nil
}

func recodeResponse(g golden) ([]byte, error) {
	r, corr, err := decodeResponse(g.key, g.version, g.frame)
	if err != nil {
		return nil, err
	}
	return r.AppendTo(frame.AppendResponseHeader(nil, g.key, r.GetVersion(), corr)), nil
}

func decodeResponse(key, version int16, b []byte) (kmsg.Response, int32, error) {
	r := kmsg.ResponseForKey(key)
	r.SetVersion(version)
	body := kbin.Reader{Src: b}
	corr := body.Int32()
	if r.IsFlexible() && key != kmsg.ApiVersions.Int16() {
		kmsg.SkipTags(&body)
	}
	if err := body.Complete(); err != nil && len(body.Src) == 0 {
		return nil, 0, err
	}
	return r, corr, r.ReadFrom(body.Src)
}

// playedGolden are the APIs that the plane can serve without a controller and a group coordinator.
var playedGolden = []kmsg.Key{
	kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.Metadata, kmsg.DeleteRecords,
	kmsg.DescribeTopicPartitions, kmsg.DescribeProducers, kmsg.InitProducerID, kmsg.DescribeCluster,
}

// playGolden sends the recorded requests, in their order, to our handlers, and compares the answers.
func playGolden(t *testing.T, id []byte, lines []golden) {
	p := newPlane(t)
	p.configure(goldenTopic, func(c *log.Config) { c.RetentionMs = -1 })
	p.topics = 0xa7 // an id whose bytes are nothing else in a frame
	ours := p.topic(goldenTopic, 2)
	c := p.client()
	var request golden
	for _, g := range lines {
		if g.direction == "request" {
			request = g
		}
		if g.direction != "response" || !slices.Contains(playedGolden, kmsg.Key(g.key)) {
			continue
		}
		out := bytes.ReplaceAll(request.frame, id, ours[:])
		if _, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(out))), out...)); err != nil {
			t.Fatal(err)
		}
		got, err := readFrame(c.conn)
		if err != nil {
			t.Fatalf("%s v%d %s: %v", kmsg.Key(g.key).Name(), g.version, g.name, err)
		}
		compareGolden(t, g, bytes.ReplaceAll(got, ours[:], id))
	}
}

func compareGolden(t *testing.T, want golden, got []byte) {
	t.Helper()
	var texts [2]string
	for i, b := range [][]byte{got, want.frame} {
		r, _, err := decodeResponse(want.key, want.version, b)
		if err != nil {
			t.Errorf("%s v%d %s: %v", kmsg.Key(want.key).Name(), want.version, want.name, err)
			return
		}
		if p, ok := r.(*kmsg.InitProducerIDResponse); ok {
			p.ProducerID = min(p.ProducerID, 0)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = volatile.ReplaceAllString(string(text), `"$1":_`)
	}
	if texts[0] != texts[1] || !bytes.Equal(got[:4], want.frame[:4]) {
		t.Errorf("%s v%d %s:\n got %s\nwant %s", kmsg.Key(want.key).Name(), want.version, want.name, texts[0], texts[1])
	}
}

// volatile is what differs from broker to broker and from run to run, and is not compared: the cluster's id, the
// controller's id, the brokers' addresses, the time of a producer's last write, and the words of errors, which ours have
// where Kafka's are null. Of InitProducerId the id is not compared either. The topic's id is replaced in the frames.
var volatile = regexp.MustCompile(`"(ClusterID|ControllerID|Host|Port|LastTimestamp|ErrorMessage)":("(\\.|[^"\\])*"|[^,}]*)`)

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

// recorder asks a real broker, and keeps what goes each way.
type recorder struct {
	t     *testing.T
	conn  net.Conn
	corr  int32
	lines []golden
}

func recordGolden(t *testing.T) {
	java := javaFrames(t)
	conn, err := net.Dial("tcp", *recordFrom)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := &recorder{t: t, conn: conn}
	id := r.do("main", 7, createRequest(goldenTopic, 2)).(*kmsg.CreateTopicsResponse).Topics[0].TopicID
	r.awaitLeader()
	r.data(id)
	r.topics(id)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Frames of Apache Kafka 4.4.0, recorded by golden_test.go: key version direction name hex\n# topic id %x\n", id)
	for _, g := range append(r.lines, java...) {
		fmt.Fprintf(&b, "%d %d %s %s %x\n", g.key, g.version, g.direction, g.name, g.frame)
	}
	if err := os.WriteFile(goldenFile, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// do sends a request and keeps both frames.
func (r *recorder) do(name string, version int16, request kmsg.Request) kmsg.Response {
	r.t.Helper()
	request.SetVersion(version)
	r.corr++
	out := kmsg.NewRequestFormatter(kmsg.FormatterClientID("golden")).AppendRequest(nil, request, r.corr)
	if _, err := r.conn.Write(out); err != nil {
		r.t.Fatal(err)
	}
	in, err := readFrame(r.conn)
	if err != nil {
		r.t.Fatalf("%s v%d %s: %v", kmsg.Key(request.Key()).Name(), version, name, err)
	}
	r.lines = append(r.lines, golden{request.Key(), version, "request", name, out[4:]}, golden{request.Key(), version, "response", name, in})
	response, _, err := decodeResponse(request.Key(), version, in)
	if err != nil {
		r.t.Errorf("%s v%d %s: %v", kmsg.Key(request.Key()).Name(), version, name, err)
	}
	return response
}

// awaitLeader asks, off the record, until the topic's partitions are led.
func (r *recorder) awaitLeader() {
	kept := r.lines
	for _, i := range []int32{0, 1} {
		for led := false; !led; {
			l := offsetsRequest(goldenTopic, i, replica.Latest)
			led = r.do("", 5, l).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode == 0
		}
	}
	r.lines = kept
}

func offsetsRequest(topic string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	l := kmsg.NewPtrListOffsetsRequest()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	l.ReplicaID, l.Topics = -1, []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return l
}

// each sends a request in every version from the given one on that Kafka serves.
func (r *recorder) each(name string, key kmsg.Key, from int16, request func(v int16) kmsg.Request) {
	e := NewTable(Embedded).entry(key.Int16())
	for v := max(from, e.Kafka4.Min); v <= e.Kafka4.Max; v++ {
		r.do(name, v, request(v))
	}
}

// data asks about records.
func (r *recorder) data(id log.TopicID) {
	set := func(o record.BatchOptions) []byte { return records(r.t, o, "value", goldenTime, goldenTime+1) }
	produce := func(to ...to) func(int16) kmsg.Request {
		return func(v int16) kmsg.Request { return withIDs(produceOf(v, -1, to...), id) }
	}
	sequence := func(first int32) []byte {
		return set(record.BatchOptions{ProducerID: goldenPID, BaseSequence: first})
	}
	corrupt := set(record.BatchOptions{})
	corrupt[len(corrupt)-1] ^= 1
	r.each("records", kmsg.Produce, 3, produce(to{goldenTopic, 0, set(record.BatchOptions{})}))
	r.each("compressed", kmsg.Produce, 13, produce(to{goldenTopic, 0, set(record.BatchOptions{Codec: record.Gzip})}))
	r.each("no-such-partition", kmsg.Produce, 3, produce(to{goldenTopic, 9, set(record.BatchOptions{})}))
	r.each("no-such-topic", kmsg.Produce, 3, produce(to{"nowhere", 0, set(record.BatchOptions{})}))
	r.each("corrupt", kmsg.Produce, 3, produce(to{goldenTopic, 0, corrupt}))
	r.each("sequence-0", kmsg.Produce, 12, produce(to{goldenTopic, 1, sequence(0)})) // the second time a duplicate
	r.each("sequence-gap", kmsg.Produce, 3, produce(to{goldenTopic, 1, sequence(7)}))

	fetch := func(change func(*kmsg.FetchRequest), wants ...at) func(int16) kmsg.Request {
		return func(v int16) kmsg.Request {
			f := fetchOf(v, wants...)
			change(f)
			return withIDs(f, id)
		}
	}
	plain := func(*kmsg.FetchRequest) {}
	r.each("both", kmsg.Fetch, 0, fetch(plain, at{goldenTopic, 0, 18, 1 << 20}, at{goldenTopic, 1, 0, 1 << 20}))
	r.each("one-batch", kmsg.Fetch, 0, fetch(plain, at{goldenTopic, 0, 3, 1}))
	r.each("cut", kmsg.Fetch, 0, fetch(plain, at{goldenTopic, 0, 0, 200}))
	r.each("at-end", kmsg.Fetch, 0, fetch(func(f *kmsg.FetchRequest) { f.MinBytes = 0 }, at{goldenTopic, 0, 24, 1 << 20}))
	r.each("out-of-range", kmsg.Fetch, 0, fetch(plain, at{goldenTopic, 0, 1000, 1 << 20}))
	r.each("no-such-partition", kmsg.Fetch, 0, fetch(plain, at{goldenTopic, 9, 0, 1 << 20}))
	r.each("no-such-topic", kmsg.Fetch, 0, fetch(plain, at{"nowhere", 0, 0, 1 << 20}))
	r.each("read-committed", kmsg.Fetch, 0, fetch(func(f *kmsg.FetchRequest) { f.IsolationLevel = 1 }, at{goldenTopic, 1, 0, 1 << 20}))
	r.each("unknown-epoch", kmsg.Fetch, 9, fetch(func(f *kmsg.FetchRequest) { f.Topics[0].Partitions[0].CurrentLeaderEpoch = 5 }, at{goldenTopic, 0, 0, 1 << 20}))
	r.each("diverging-epoch", kmsg.Fetch, 12, fetch(func(f *kmsg.FetchRequest) { f.Topics[0].Partitions[0].LastFetchedEpoch = 3 }, at{goldenTopic, 0, 2, 1 << 20}))
	r.each("no-such-session", kmsg.Fetch, 7, fetch(func(f *kmsg.FetchRequest) { f.SessionID, f.SessionEpoch = 12345, 1 }, at{goldenTopic, 0, 0, 1 << 20}))

	offsets := func(name string, from int16, topic string, partition int32, timestamp int64) {
		r.each(name, kmsg.ListOffsets, from, func(int16) kmsg.Request { return offsetsRequest(topic, partition, timestamp) })
	}
	offsets("latest", 0, goldenTopic, 0, replica.Latest)
	offsets("earliest", 0, goldenTopic, 0, replica.Earliest)
	offsets("at-time", 0, goldenTopic, 0, goldenTime+1)
	offsets("after-all", 0, goldenTopic, 0, goldenTime+2)
	offsets("max-timestamp", 0, goldenTopic, 0, replica.MaxTimestamp)
	offsets("earliest-local", 0, goldenTopic, 0, replica.EarliestLocal)
	offsets("latest-tiered", 0, goldenTopic, 0, replica.LatestTiered)
	offsets("earliest-pending-upload", 0, goldenTopic, 0, replica.EarliestPendingUpload)
	offsets("meaningless-time", 0, goldenTopic, 0, -9)
	offsets("no-such-partition", 0, goldenTopic, 9, replica.Latest)
	offsets("no-such-topic", 0, "nowhere", 0, replica.Latest)

	epochs := func(name string, partition, current, epoch int32) {
		r.each(name, kmsg.OffsetForLeaderEpoch, 0, func(int16) kmsg.Request {
			o := kmsg.NewPtrOffsetForLeaderEpochRequest()
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, current, epoch
			o.ReplicaID, o.Topics = -1, []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: goldenTopic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
			return o
		})
	}
	epochs("epoch", 0, 0, 0)
	epochs("later-epoch", 0, -1, 5)
	epochs("unknown-epoch", 0, 5, 0)
	epochs("no-such-partition", 9, -1, 0)

	remove := func(name string, partition int32, offset int64) {
		r.each(name, kmsg.DeleteRecords, 0, func(v int16) kmsg.Request {
			d := kmsg.NewPtrDeleteRecordsRequest()
			d.TimeoutMillis = 5000
			d.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: goldenTopic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
			return d
		})
	}
	remove("some", 0, 3)
	remove("too-many", 0, 1000)
	remove("no-such-partition", 9, 0)
	offsets("earliest-after-removal", 0, goldenTopic, 0, replica.Earliest)
	r.each("removed", kmsg.Fetch, 0, fetch(plain, at{goldenTopic, 0, 0, 1}))

	r.each("some", kmsg.DescribeProducers, 0, func(int16) kmsg.Request {
		d := kmsg.NewPtrDescribeProducersRequest()
		d.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: goldenTopic, Partitions: []int32{1, 9}}}
		return d
	})
	r.each("without-transactions", kmsg.InitProducerID, 0, func(int16) kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() })
	r.each("without-timeout", kmsg.InitProducerID, 0, func(int16) kmsg.Request {
		i := kmsg.NewPtrInitProducerIDRequest()
		i.TransactionalID = kmsg.StringPtr("")
		return i
	})
}

// withIDs names the topics of a request by their ids too; a topic that is not there has one of its own.
func withIDs(r kmsg.Request, id log.TopicID) kmsg.Request {
	of := func(topic string) log.TopicID {
		if topic == goldenTopic {
			return id
		}
		return log.TopicID{0: 0xab, 15: 0xcd}
	}
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		for i := range r.Topics {
			r.Topics[i].TopicID = of(r.Topics[i].Topic)
		}
	case *kmsg.FetchRequest:
		for i := range r.Topics {
			r.Topics[i].TopicID = of(r.Topics[i].Topic)
		}
	}
	return r
}

func createRequest(name string, partitions int32) *kmsg.CreateTopicsRequest {
	c := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: kmsg.StringPtr("-1")}}
	c.Topics, c.TimeoutMillis = append(c.Topics, t), 5000
	return c
}

// topics asks about topics, configurations and the cluster.
func (r *recorder) topics(id log.TopicID) {
	created := func(v int16) string { return fmt.Sprintf("created-%d", v) }
	software := func(int16) kmsg.Request {
		a := kmsg.NewPtrApiVersionsRequest()
		a.ClientSoftwareName, a.ClientSoftwareVersion = "golden", "1"
		return a
	}
	r.each("all", kmsg.ApiVersions, 0, software)
	for v := range int16(8) {
		r.do("create", max(v, 2), createRequest(created(v), 1))
	}
	r.each("exists", kmsg.CreateTopics, 0, func(int16) kmsg.Request { return createRequest(goldenTopic, 1) })
	r.each("bad-name", kmsg.CreateTopics, 0, func(int16) kmsg.Request { return createRequest("bad name", 1) })
	metadata := func(name string, from int16, topic string) {
		r.each(name, kmsg.Metadata, from, func(int16) kmsg.Request {
			m := kmsg.NewPtrMetadataRequest()
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &topic
			m.Topics = append(m.Topics, t)
			return m
		})
	}
	metadata("topic", 0, goldenTopic)
	metadata("no-such-topic", 4, "nowhere") // older versions would create it
	r.each("by-id", kmsg.Metadata, 12, func(int16) kmsg.Request {
		m := kmsg.NewPtrMetadataRequest()
		m.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}, {TopicID: log.TopicID{0: 0xab}}}
		return m
	})
	for _, topic := range []string{goldenTopic, "nowhere"} {
		r.each(topic, kmsg.DescribeTopicPartitions, 0, func(int16) kmsg.Request {
			d := kmsg.NewPtrDescribeTopicPartitionsRequest()
			d.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic}}
			return d
		})
	}
	r.each("cluster", kmsg.DescribeCluster, 0, func(int16) kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() })
	for _, count := range []int32{3, 2} {
		r.each(fmt.Sprint("to-", count), kmsg.CreatePartitions, 0, func(v int16) kmsg.Request {
			c := kmsg.NewPtrCreatePartitionsRequest()
			c.TimeoutMillis = 5000
			c.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: created(v), Count: count}}
			return c
		})
	}
	r.configs(created)
	for _, name := range []string{"deleted", "no-such-topic"} {
		r.each(name, kmsg.DeleteTopics, 0, func(v int16) kmsg.Request {
			d := kmsg.NewPtrDeleteTopicsRequest()
			topic := created(v)
			d.TimeoutMillis, d.TopicNames, d.Topics = 5000, []string{topic}, []kmsg.DeleteTopicsRequestTopic{{Topic: &topic}}
			return d
		})
	}
	for i, name := range []string{"group", "transaction", "share", "bad-type"} {
		r.each(name, kmsg.FindCoordinator, 0, func(int16) kmsg.Request {
			f := kmsg.NewPtrFindCoordinatorRequest()
			f.CoordinatorKey, f.CoordinatorKeys, f.CoordinatorType = "g", []string{"g"}, int8(i)
			return f
		})
	}
}

func (r *recorder) configs(created func(int16) string) {
	describe := func(name string, kind kmsg.ConfigResourceType, of string, configs ...string) {
		r.each(name, kmsg.DescribeConfigs, 0, func(int16) kmsg.Request {
			d := kmsg.NewPtrDescribeConfigsRequest()
			d.IncludeSynonyms, d.IncludeDocumentation = true, true
			d.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: of, ConfigNames: configs}}
			return d
		})
	}
	describe("topic", kmsg.ConfigResourceTypeTopic, goldenTopic, "retention.ms", "cleanup.policy", "segment.bytes", "nonsense")
	describe("broker", kmsg.ConfigResourceTypeBroker, "1", "log.retention.ms", "num.io.threads")
	describe("no-such-topic", kmsg.ConfigResourceTypeTopic, "nowhere")
	for _, config := range []string{"retention.ms", "nonsense"} {
		r.each(config, kmsg.IncrementalAlterConfigs, 0, func(v int16) kmsg.Request {
			i := kmsg.NewPtrIncrementalAlterConfigsRequest()
			c := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: config, Value: kmsg.StringPtr("1000")}
			i.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: created(v), Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{c}}}
			return i
		})
	}
}

// javaFrames passes Java clients on to the broker until one leaves its group, and returns their requests: the first of
// each API and version of each client.
func javaFrames(t *testing.T) []golden {
	if *recordThrough == "" {
		return nil
	}
	l, err := net.Listen("tcp", *recordThrough)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var found []golden
	seen := map[string]bool{}
	take := func(b []byte) {
		h, _, err := frame.ParseHeader(b)
		if err != nil || h.ClientID == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		g := golden{h.Key, h.Version, "java", *h.ClientID, b}
		if id := fmt.Sprint(g.key, g.version, g.name); !seen[id] {
			seen[id] = true
			found = append(found, g)
		}
		if h.Key == kmsg.LeaveGroup.Int16() {
			l.Close()
		}
	}
	var wg sync.WaitGroup
	for {
		in, err := l.Accept()
		if err != nil {
			break
		}
		out, err := net.Dial("tcp", *recordFrom)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { io.Copy(in, out); in.Close() })
		wg.Go(func() {
			defer out.Close()
			for r := bufio.NewReader(in); ; {
				b, err := readFrame(r)
				if err != nil {
					return
				}
				take(b)
				out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
			}
		})
	}
	wg.Wait()
	return found
}
