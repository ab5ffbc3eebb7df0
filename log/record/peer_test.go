package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The golden files say what Apache Kafka answers to testSets and what it stores. To make one anew, run against a fresh
// broker of that version with auto.create.topics.enable=false:
//
//	go test ./log/record -run TestAskKafka -peer 127.0.0.1:9092 -golden testdata/kafka-3.9.2.json
var (
	peerAddress = flag.String("peer", "", "address of an Apache Kafka broker to make a golden file with")
	peerGolden  = flag.String("golden", "", "the golden file to write")
)

// answer is what a broker made of a set.
type answer struct {
	Name   string
	Topic  string
	Code   int16
	Text   string        `json:",omitempty"`
	Errors []RecordError `json:",omitempty"`
	Time   int64         // log append time
	Stored []byte        `json:",omitempty"`
}

// golden is a golden file. Fetched are the bytes of the topics "down" and "downappend" by topic, Fetch version and
// offset, as "down 2 0"; 3.9 alone converts down.
type golden struct {
	Now     int64
	Answers []answer
	Fetched map[string][]byte
}

func TestAskKafka(t *testing.T) {
	if *peerAddress == "" {
		return // the golden files that it makes are what the other tests read
	}
	c, err := net.Dial("tcp", *peerAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := &peer{t, c}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 4, 30000
	for topic, configs := range testTopics {
		r := kmsg.NewCreateTopicsRequestTopic()
		r.Topic, r.NumPartitions, r.ReplicationFactor = topic, 1, 1
		for k, v := range configs {
			r.Configs = append(r.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: &v})
		}
		create.Topics = append(create.Topics, r)
	}
	for _, r := range p.ask(create).(*kmsg.CreateTopicsResponse).Topics {
		if r.ErrorCode != 0 {
			t.Fatal(r.Topic, r.ErrorCode)
		}
	}
	p.awaitLeaders()
	g := golden{Now: time.Now().UnixMilli(), Fetched: map[string][]byte{}}
	for _, s := range testSets() {
		g.Answers = append(g.Answers, p.produce(s))
	}
	for _, topic := range []string{"down", "downappend"} {
		for _, version := range []int16{0, 1, 2, 3, 4} {
			for _, offset := range []int64{0, 1, 4} {
				g.Fetched[fmt.Sprint(topic, " ", version, offset)] = p.fetch(topic, version, offset)
			}
		}
	}
	out, err := json.MarshalIndent(g, "", " ")
	if err == nil {
		err = os.WriteFile(*peerGolden, out, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type peer struct {
	t *testing.T
	c net.Conn
}

// ask sends r in its version and returns the response, nil if the broker closed the connection.
func (p *peer) ask(r kmsg.Request) kmsg.Response {
	p.t.Helper()
	if _, err := p.c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, r, 7)); err != nil {
		p.t.Fatal(err)
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(p.c, size); err != nil {
		p.c, _ = net.Dial("tcp", *peerAddress)
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(p.c, body); err != nil {
		p.t.Fatal(err)
	}
	b := kbin.Reader{Src: body}
	b.Int32()
	if r.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	response := r.ResponseKind()
	response.SetVersion(r.GetVersion())
	if err := response.ReadFrom(b.Src); err != nil {
		p.t.Fatal(err)
	}
	return response
}

func (p *peer) produce(s testSet) answer {
	a := answer{Name: s.name, Topic: s.topic}
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = s.version, -1, 10000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = s.topic
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = append([]byte{}, s.raw...)
	topic.Partitions = append(topic.Partitions, partition)
	r.Topics = append(r.Topics, topic)
	response, ok := p.ask(r).(*kmsg.ProduceResponse)
	if !ok {
		a.Code = 9999
		return a
	}
	result := response.Topics[0].Partitions[0]
	a.Code, a.Time = result.ErrorCode, result.LogAppendTime
	if result.ErrorMessage != nil {
		a.Text = *result.ErrorMessage
	}
	for _, e := range result.ErrorRecords {
		text := ""
		if e.ErrorMessage != nil {
			text = *e.ErrorMessage
		}
		a.Errors = append(a.Errors, RecordError{e.RelativeOffset, text})
	}
	if result.ErrorCode == 0 && result.BaseOffset >= 0 {
		a.Stored = p.fetch(s.topic, 10, result.BaseOffset)
	}
	return a
}

func (p *peer) fetch(topic string, version int16, offset int64) []byte {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MaxBytes, r.MinBytes = version, 100, 50<<20, 1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = topic
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.FetchOffset, fp.PartitionMaxBytes = offset, 50<<20
	ft.Partitions = append(ft.Partitions, fp)
	r.Topics = append(r.Topics, ft)
	response, ok := p.ask(r).(*kmsg.FetchResponse)
	if !ok {
		return nil
	}
	result := response.Topics[0].Partitions[0]
	if result.ErrorCode != 0 {
		return []byte(fmt.Sprint("error ", result.ErrorCode))
	}
	return result.RecordBatches
}

func readGolden(t testing.TB, name string) (g golden) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err == nil {
		err = json.Unmarshal(raw, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestCheckAsKafka compares Check with what Kafka answered and stored.
func TestCheckAsKafka(t *testing.T) {
	for _, file := range []string{"kafka-3.9.2.json", "kafka-4.4.0.json"} {
		g := readGolden(t, file)
		answers := map[string]answer{}
		for _, a := range g.Answers {
			answers[a.Topic+"/"+a.Name] = a
		}
		for _, s := range testSets() {
			t.Run(file+"/"+s.topic+"/"+s.name, func(t *testing.T) {
				a, ok := answers[s.topic+"/"+s.name]
				if !ok {
					t.Fatal("not in the golden file")
				}
				if s.version < 3 && file == "kafka-4.4.0.json" {
					return // 4.x closes the connection
				}
				compareWithKafka(t, s, a)
			})
		}
	}
}

func compareWithKafka(t *testing.T, s testSet, a answer) {
	now := int64(testTime)
	if a.Stored != nil { // under LogAppendTime, when that was
		now = Batch(a.Stored).MaxTimestamp()
	}
	c, err := Check(bytes.Clone(s.raw), s.version, testRules(s.topic, now))
	code := int16(0)
	var invalid *Invalid
	if errors.As(err, &invalid) {
		code = invalid.Code()
	} else if err != nil {
		t.Fatalf("%v is not an *Invalid", err)
	}
	if want, ok := deviation(s, a.Code); ok {
		if code != want {
			t.Fatalf("code %d (%v), want %d, Kafka %d", code, err, want, a.Code)
		}
		if code == 0 {
			checkNumbered(t, c.Batch)
		}
		return
	}
	if code != a.Code {
		t.Fatalf("code %d (%v), Kafka %d %s", code, err, a.Code, a.Text)
	}
	if err != nil {
		if s.version < 8 {
			return // without record errors
		}
		if len(invalid.RecordErrors) != len(a.Errors) {
			t.Fatalf("record errors %v, Kafka's %v", invalid.RecordErrors, a.Errors)
		}
		for i, e := range a.Errors {
			if invalid.RecordErrors[i].Index != e.Index {
				t.Errorf("record error %v, Kafka's %v", invalid.RecordErrors[i], e)
			}
		}
		return
	}
	if c.Batch == nil {
		if a.Stored != nil {
			t.Fatal("Kafka stored something")
		}
		return
	}
	stored, _, err := NextEntry(a.Stored)
	if err != nil {
		t.Fatal(err)
	}
	kafka, _ := stored.Batch()
	c.Batch.SetBaseOffset(kafka.BaseOffset())
	c.Batch.SetLeaderEpoch(kafka.LeaderEpoch())
	compareBatches(t, c.Batch, kafka)
	if err := c.Batch.Validate(); err != nil {
		t.Error(err)
	}
}

// deviation says what we answer to s in place of kafka's code, where we want another answer: see Check.
func deviation(s testSet, kafka int16) (code int16, ok bool) {
	switch name, _, _ := strings.Cut(s.name, ","); {
	case strings.HasPrefix(s.name, "offsets "):
		return 0, true
	case kafka == -1 && strings.Contains(s.name, "codec"):
		return 76, true
	case kafka == -1, strings.HasSuffix(s.name, "with tail"):
		return 87, true
	case kafka == 0 && strings.HasPrefix(name, "size of record "):
		return 87, true
	}
	return 0, false
}

// checkNumbered demands that the records of b have the offsets 0, 1, 2….
func checkNumbered(t *testing.T, b Batch) {
	n := int64(0)
	for r, err := range b.Records(Limits{}) {
		if err != nil || r.Offset != n {
			t.Fatalf("record %d: offset %d, %v", n, r.Offset, err)
		}
		n++
	}
	if n != int64(b.Count()) {
		t.Fatalf("%d records of %d", n, b.Count())
	}
}

// compareBatches demands the same bytes, save that compressors differ.
func compareBatches(t *testing.T, ours, kafka Batch) {
	t.Helper()
	a, err := Decompress(bytes.Clone(ours[posAttributes:HeaderSize]), ours.Codec(), ours.payload(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Decompress(bytes.Clone(kafka[posAttributes:HeaderSize]), kafka.Codec(), kafka.payload(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) || !bytes.Equal(ours[:posSize], kafka[:posSize]) {
		t.Errorf("stored\n%x %x, Kafka\n%x %x", ours[:posAttributes], a, kafka[:posAttributes], b)
	}
}

// TestDownconvertAsKafka compares Downconvert with what Kafka 3.9 makes of the same log.
func TestDownconvertAsKafka(t *testing.T) {
	g := readGolden(t, "kafka-3.9.2.json")
	for key, want := range g.Fetched {
		var topic string
		var version, offset int64
		fmt.Sscan(key, &topic, &version, &offset)
		log := g.Fetched[fmt.Sprint(topic, " ", 4, offset)]
		if version == 4 {
			continue
		}
		got, _, err := Downconvert([]byte("x"), log, int8(version/2), offset, Limits{})
		if err != nil || got[0] != 'x' {
			t.Fatal(key, err)
		}
		compareDownconverted(t, key, got[1:], want)
	}
}

// compareDownconverted compares sets up to where Kafka has filled the size that the log had before.
func compareDownconverted(t *testing.T, key string, got, want []byte) {
	for n := 0; len(got) > 0; n++ {
		a, rest, err := NextEntry(got)
		if err != nil {
			t.Fatal(key, err)
		}
		got = rest
		b, rest, err := NextEntry(want)
		if err != nil {
			if n < 4 {
				t.Errorf("%s, message %d: we go on, Kafka does not", key, n)
			}
			return
		}
		want = rest
		if a.CheckCRC() != nil || describe(a) != describe(b) || a.Codec() == None && !bytes.Equal(a, b) {
			t.Errorf("%s, message %d:\n%s, Kafka\n%s", key, n, describe(a), describe(b))
		}
	}
	if _, _, err := NextEntry(want); err == nil {
		t.Errorf("%s: Kafka goes on, we do not: %x", key, want)
	}
}

// describe is everything about an entry save what compressors decide.
func describe(e Entry) string {
	var s strings.Builder
	fmt.Fprintln(&s, e.Magic(), e.BaseOffset(), e.LastOffset(), e.MaxTimestamp(), e.attributes())
	for r, err := range e.Records(Limits{}) {
		fmt.Fprintf(&s, "%d %d %t %q %t %q %q %v\n", r.Offset, r.Timestamp, r.Key == nil, r.Key, r.Value == nil, r.Value, r.Headers, err)
	}
	return s.String()
}

// awaitLeaders asks until the broker answers for every partition: for a moment after the creation it may not lead them.
func (p *peer) awaitLeaders() {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		missing := 0
		for topic := range testTopics {
			r := kmsg.NewPtrListOffsetsRequest()
			r.Version, r.ReplicaID = 1, -1
			r.Topics = []kmsg.ListOffsetsRequestTopic{{
				Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}},
			}}
			if p.ask(r).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode != 0 {
				missing++
			}
		}
		if missing == 0 {
			return
		}
	}
	p.t.Fatal("the broker does not lead its partitions")
}
