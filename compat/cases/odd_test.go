package cases

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// update writes down what the peer, which must be Apache Kafka, answers: GREGOR_COMPAT_PEER=kafka-4.4 go test -run TestOddRequests
// -update ./compat/cases.
var update = flag.Bool("update", false, "write the transcripts of the peer")

// odd is one conversation in requests that no well-behaved client sends.
type odd struct {
	t     *testing.T
	c     *raw.Conn
	topic string
	lines []string
}

// ask sends a request and notes what is answered: all names and error codes.
func (o *odd) ask(what string, version int16, r kmsg.Request) {
	o.t.Helper()
	r.SetVersion(version)
	o.c.Send(r)
	var words []string
	codes(reflect.ValueOf(o.c.Receive()).Elem(), &words)
	answer := strings.ReplaceAll(strings.Join(words, " "), o.topic, "TOPIC")
	o.lines = append(o.lines, fmt.Sprintf("%s v%d, %s: %s", kmsg.NameForKey(r.Key()), version, what, answer))
}

// codes appends the names and error codes in a response, in order.
func codes(v reflect.Value, words *[]string) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		for f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		switch {
		case name == "Version" || name == "UnknownTags" || name == "ErrorMessage":
		case f.Kind() == reflect.Struct:
			codes(f, words)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			for j := range f.Len() {
				codes(f.Index(j), words)
			}
		case name == "ErrorCode" && f.Int() == 0:
			*words = append(*words, "NONE")
		case name == "ErrorCode":
			*words = append(*words, kerr.TypedErrorForCode(int16(f.Int())).Message)
		case (name == "Topic" || name == "ResourceName") && f.Kind() == reflect.String:
			*words = append(*words, fmt.Sprintf("%q", f.String()))
		}
	}
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

// TestOddRequests: what no well-behaved client asks is answered as Kafka 4.4.0 and 3.9.2 answered it (testdata).
func TestOddRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		version := "4.4"
		if s.Kind == harness.Kafka39 {
			version = "3.9"
		}
		o := &odd{t: t, c: raw.Dial(t, s.Addr), topic: name(t)}
		harness.CreateTopic(t, s.Broker, o.topic, 1)
		o.admin()
		o.groups()
		path, got := filepath.Join("testdata", "odd-"+version+".txt"), strings.Join(o.lines, "\n")+"\n"
		if *update {
			if s.Broker.Kind == harness.Gregor {
				t.Fatal("transcripts come from Apache Kafka")
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(want), "\n")
		for i, line := range strings.Split(got, "\n") {
			if i >= len(lines) || line != lines[i] {
				t.Errorf("got  %s\nwant %s", line, lines[min(i, len(lines)-1)])
			}
		}
	})
}
