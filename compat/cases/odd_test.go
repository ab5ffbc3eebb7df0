package cases

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// update writes down what the peer, which must be Apache Kafka, answers: GREGOR_COMPAT_PEER=kafka-4.4 go test
// ./compat/cases -run TestOddRequests -update, and so for kafka-3.9.
var update = flag.Bool("update", false, "write the transcripts of the peer")

// odd is one conversation in requests that no well-behaved client sends.
type odd struct {
	t     *testing.T
	s     *server
	c     *raw.Conn
	topic string
	node  int32 // the broker's id
	lines []line
}

// line is a request and what was answered.
type line struct{ api, versions, what, answer string }

func (l line) String() string { return l.api + " " + l.versions + ", " + l.what + ": " + l.answer }

// ask sends a request and notes the answer: a connection that is closed is one too.
func (o *odd) ask(what string, version int16, r kmsg.Request) {
	o.t.Helper()
	r.SetVersion(version)
	o.c.Send(r)
	answer := "closes the connection"
	response, err := o.c.TryReceive()
	switch {
	case err == nil:
		answer = o.print(reflect.ValueOf(response))
	case errors.Is(err, os.ErrDeadlineExceeded):
		answer = "no answer"
		fallthrough
	default:
		o.c.Close()
		o.c = raw.Dial(o.t, o.s.Addr)
	}
	o.write(what, r, answer)
}

// note notes an answer that the caller has received.
func (o *odd) note(what string, r kmsg.Request, answer kmsg.Response) {
	o.write(what, r, o.print(reflect.ValueOf(answer)))
}

func (o *odd) write(what string, r kmsg.Request, answer string) {
	plain := strings.NewReplacer(o.topic, "TOPIC", strings.ReplaceAll(o.topic, ".", "_"), "TOPIC_")
	o.lines = append(o.lines, line{kmsg.NameForKey(r.Key()), fmt.Sprint("v", r.GetVersion()), plain.Replace(what), plain.Replace(answer)})
}

// versions are those of an API that both Kafkas serve that the test compares with, from the given ones.
type versions struct{ low39, high39, low44, high44 int16 }

// each calls do for each version that the broker's Kafka serves. What is asked and answered alike in several is one line.
func (o *odd) each(v versions, do func(version int16)) {
	low, high := v.low44, v.high44
	if o.s.Kind == harness.Kafka39 {
		low, high = v.low39, v.high39
	}
	before := o.lines
	o.lines = nil
	for version := low; version <= high; version++ {
		do(version)
	}
	var merged []line
	place := map[line]int{}
	for _, l := range o.lines {
		alike := line{l.api, "", l.what, l.answer}
		if at, known := place[alike]; known {
			merged[at].versions += " " + l.versions
			continue
		}
		place[alike] = len(merged)
		merged = append(merged, l)
	}
	o.lines = append(before, merged...)
}

func ptr[T any](v T) *T { return &v }

func (o *odd) alter(what string, kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key, value string) {
	o.t.Helper()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kind, name
	of.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: op, Value: &value}}
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.ValidateOnly, r.Resources = true, []kmsg.IncrementalAlterConfigsRequestResource{of}
	o.ask(what, 1, r)
}

func (o *odd) admin() {
	again := kmsg.NewCreatePartitionsRequestTopic()
	again.Topic, again.Count = o.topic, 2
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.TimeoutMillis, grow.Topics = 30_000, []kmsg.CreatePartitionsRequestTopic{again, again}
	o.ask("a topic twice", 3, grow)
	trim := kmsg.NewPtrDeleteRecordsRequest()
	trim.TimeoutMillis = 30_000
	for _, offset := range []int64{0, 99} {
		of := kmsg.NewDeleteRecordsRequestTopic()
		of.Topic, of.Partitions = o.topic, []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}
		trim.Topics = append(trim.Topics, of)
	}
	o.ask("a partition twice", 2, trim)
	const topic, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	for _, name := range []string{"", "a/b", o.topic + "-missing"} {
		o.alter("set", topic, name, 0, "retention.ms", "5")
		o.alter("append to a number", topic, name, 2, "retention.ms", "5")
	}
	o.alter("append to a number", topic, o.topic, 2, "retention.ms", "5")
	o.alter("append", topic, o.topic, 2, "cleanup.policy", "compact")
	o.alter("an unknown key", topic, o.topic, 0, "no.such.key", "5")
	o.alter("an unknown key", broker, "", 0, "no.such.key", "5")
	o.alter("a key of the start", broker, "", 0, "log.dirs", "/x")
	o.alter("another broker", broker, "99", 0, "log.retention.ms", "5")
	o.alter("no broker", broker, "x", 0, "log.retention.ms", "5")
	quota := kmsg.NewAlterClientQuotasRequestEntry()
	quota.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &o.topic}}
	quota.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1000}}
	quotas := kmsg.NewPtrAlterClientQuotasRequest()
	quotas.ValidateOnly, quotas.Entries = true, []kmsg.AlterClientQuotasRequestEntry{quota, quota}
	o.ask("an entity twice", 1, quotas)
	quotas.Entries = quotas.Entries[:1]
	quotas.Entries[0].Ops = append(quotas.Entries[0].Ops, quotas.Entries[0].Ops[0])
	o.ask("a key twice", 1, quotas)
}

func (o *odd) groups() {
	group := o.topic + "-group"
	ready(o.t, o.c, group)
	for _, generation := range []int32{-1, 0, 5} {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.Generation, beat.MemberID = group, generation, "nobody"
		o.ask(fmt.Sprint("of nobody, generation ", generation), 4, beat)
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.Generation, sync.MemberID = group, generation, "nobody"
		sync.ProtocolType, sync.Protocol = ptr("consumer"), ptr("range")
		o.ask(fmt.Sprint("of nobody, generation ", generation), 5, sync)
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group, commit.Generation, commit.MemberID = group, generation, "nobody"
		of := kmsg.NewOffsetCommitRequestTopic()
		of.Topic, of.Partitions = o.topic, []kmsg.OffsetCommitRequestTopicPartition{{Partition: 9, Offset: 5}, {Offset: 5}} // Kafka answers for the missing first
		commit.Topics = append(commit.Topics, of)
		o.ask(fmt.Sprint("of nobody, generation ", generation), 8, commit)
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.Members = group, []kmsg.LeaveGroupRequestMember{{MemberID: "nobody"}, {InstanceID: ptr("no instance")}}
	o.ask("nobody", 5, leave)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 1, 1
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	o.ask("a session of a millisecond", 7, join)
	join.SessionTimeoutMillis, join.MemberID = 10_000, "nobody"
	o.ask("as nobody", 7, join)
	join.MemberID, join.Protocols = "", nil
	o.ask("without a protocol", 7, join)
	join.Group = ""
	o.ask("without a group", 7, join)
}

// conversations each have a transcript for each Kafka.
var conversations = []struct {
	name string
	hold func(*odd)
}{
	{"admin", (*odd).admin},
	{"groups", (*odd).groups},
	{"configs", (*odd).configs},
	{"described", (*odd).described},
	{"offsets", (*odd).offsets},
	{"commits", (*odd).commits},
	{"topics", (*odd).topics},
	{"quotas", (*odd).quotas},
	{"listed", (*odd).listed},
	{"cluster", (*odd).cluster},
	{"moves", (*odd).moves},
}

// TestOddRequests: what no well-behaved client asks is answered as Kafka 4.4.0 and 3.9.2 answered it (testdata).
func TestOddRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		for _, c := range conversations {
			t.Run(c.name, func(t *testing.T) {
				o := &odd{t: t, s: s, c: raw.Dial(t, s.Addr), topic: name(t)}
				o.begin()
				c.hold(o)
				o.compare(c.name)
			})
		}
	})
}

// begin learns which broker this is, and creates the topic.
func (o *odd) begin() {
	harness.CreateTopic(o.t, o.s.Broker, o.topic, 2)
	brokers := raw.Do[*kmsg.MetadataResponse](o.c, raw.With(kmsg.NewPtrMetadataRequest(), 9)).Brokers
	o.node = brokers[0].NodeID
}

func (o *odd) text() string {
	var b strings.Builder
	for _, l := range o.lines {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// compare holds what was answered against the transcript, or writes that.
func (o *odd) compare(what string) {
	version := "4.4"
	if o.s.Kind == harness.Kafka39 {
		version = "3.9"
	}
	path, got := filepath.Join("testdata", "odd", what+"-"+version+".txt"), o.text()
	if *update {
		if o.s.Broker.Kind == harness.Gregor {
			o.t.Fatal("transcripts come from Apache Kafka")
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			o.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		o.t.Fatal(err)
	}
	lines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(lines) || !asGood(line, lines[i]) {
			o.t.Errorf("got  %s\nwant %s", line, lines[min(i, len(lines)-1)])
		}
	}
}

// surprise is Kafka's word for an exception that it did not foresee.
const surprise = "ErrorCode=UNKNOWN_SERVER_ERROR"

// anyError is any error code; all of those have more than one word.
var anyError = regexp.MustCompile("ErrorCode=[A-Z]+_")

// asGood says whether a line is Kafka's, or one that refuses in better words what surprised Kafka.
func asGood(got, want string) bool {
	if got == want {
		return true
	}
	return strings.Contains(want, surprise) && anyError.MatchString(got)
}
