package broker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNamedTwice: what a request names twice is answered for once, as by Kafka 4.4.0, whose answers these are.
func TestNamedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, t.TempDir())
		cl := client(t, b)
		defer cl.Close()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "a", 1, 1
		create := kmsg.NewPtrCreateTopicsRequest()
		create.TimeoutMillis, create.Topics = 60000, []kmsg.CreateTopicsRequestTopic{topic, topic}
		if got := send(t, cl, create).Topics; len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("created: %+v", got)
		}
		create.Topics = create.Topics[:1]
		if got := send(t, cl, create).Topics; len(got) != 1 || got[0].ErrorCode != 0 {
			t.Fatalf("created: %+v", got)
		}

		more := kmsg.NewCreatePartitionsRequestTopic()
		more.Topic, more.Count = "a", 2
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.TimeoutMillis, grow.Topics = 60000, []kmsg.CreatePartitionsRequestTopic{more, more}
		if got := send(t, cl, grow).Topics; len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("grown: %+v", got)
		}

		var at []kmsg.DeleteRecordsRequestTopic
		for _, offset := range []int64{0, 99} {
			of := kmsg.NewDeleteRecordsRequestTopic()
			of.Topic, of.Partitions = "a", []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}
			at = append(at, of)
		}
		trim := kmsg.NewPtrDeleteRecordsRequest()
		trim.TimeoutMillis, trim.Topics = 60000, at
		got := send(t, cl, trim).Topics
		if len(got) != 1 || len(got[0].Partitions) != 1 || got[0].Partitions[0].ErrorCode != kerr.OffsetOutOfRange.Code {
			t.Errorf("the last offset counts: %+v", got)
		}
	})
}

// TestQuotaNamedTwice: an entity that is named twice gets what it is first named for, and the answer says that there was more; one
// with a key named twice gets nothing. After Kafka 4.4.0.
func TestQuotaNamedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, t.TempDir())
		cl := client(t, b)
		defer cl.Close()
		entry := func(user string, keys ...string) kmsg.AlterClientQuotasRequestEntry {
			e := kmsg.NewAlterClientQuotasRequestEntry()
			e.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &user}}
			for i, key := range keys {
				e.Ops = append(e.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: float64(1000 + i)})
			}
			return e
		}
		r := kmsg.NewPtrAlterClientQuotasRequest()
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{
			entry("u", "producer_byte_rate"), entry("u", "consumer_byte_rate"), entry("v", "producer_byte_rate", "producer_byte_rate"),
		}
		got := send(t, cl, r).Entries
		if len(got) != 2 || got[0].ErrorCode != kerr.InvalidRequest.Code || got[1].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("altered: %+v", got)
		}
		d := kmsg.NewPtrDescribeClientQuotasRequest()
		d.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: 2}}
		if have := send(t, cl, d).Entries; len(have) != 1 || fmt.Sprint(have[0].Values) != "[{producer_byte_rate 1000 {map[]}}]" {
			t.Errorf("described: %+v", have)
		}
	})
}

// TestNamesToAlter are Kafka 4.4.0's answers to IncrementalAlterConfigs of what there cannot be.
func TestNamesToAlter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, t.TempDir())
		cl := client(t, b)
		defer cl.Close()
		for _, c := range []struct {
			kind      kmsg.ConfigResourceType
			name, key string
			op        kmsg.IncrementalAlterConfigOp
			want      *kerr.Error
		}{
			{kmsg.ConfigResourceTypeTopic, "", "retention.ms", 0, kerr.InvalidRequest},
			{kmsg.ConfigResourceTypeTopic, "a/b", "retention.ms", 0, kerr.InvalidTopicException},
			{kmsg.ConfigResourceTypeTopic, "no", "retention.ms", 0, kerr.UnknownTopicOrPartition},
			{kmsg.ConfigResourceTypeTopic, "no", "retention.ms", 2, kerr.InvalidConfig},
			{kmsg.ConfigResourceTypeTopic, "", "retention.ms", 3, kerr.InvalidConfig},
			{kmsg.ConfigResourceTypeClientMetrics, "s", "metrics", 2, kerr.InvalidConfig},
			{kmsg.ConfigResourceTypeClientMetrics, "s", "match", 3, kerr.InvalidConfig},
			{kmsg.ConfigResourceTypeClientMetrics, "", "interval.ms", 2, kerr.InvalidConfig},
			{kmsg.ConfigResourceTypeClientMetrics, "", "interval.ms", 0, kerr.InvalidRequest},
			{kmsg.ConfigResourceTypeGroupConfig, "", "consumer.session.timeout.ms", 2, kerr.InvalidConfig},
			{kmsg.ConfigResourceTypeGroupConfig, "", "consumer.session.timeout.ms", 0, kerr.InvalidRequest},
			{kmsg.ConfigResourceTypeBroker, "", "no.such.key", 0, nil},
			{kmsg.ConfigResourceTypeBroker, "1", "no.such.key", 0, nil},
		} {
			value := "5000"
			of := kmsg.NewIncrementalAlterConfigsRequestResource()
			of.ResourceType, of.ResourceName = c.kind, c.name
			of.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: c.key, Op: c.op, Value: &value}}
			r := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r.Resources = append(r.Resources, of)
			want := int16(0)
			if c.want != nil {
				want = c.want.Code
			}
			if got := send(t, cl, r).Resources; len(got) != 1 || got[0].ErrorCode != want {
				t.Errorf("%+v: %+v", c, got)
			}
		}
	})
}

// send sends a request to the broker and returns its answer.
func send[R interface {
	RequestWith(ctx context.Context, r kmsg.Requestor) (A, error)
}, A any](t *testing.T, cl *kgo.Client, r R) A {
	t.Helper()
	answer, err := r.RequestWith(t.Context(), cl.SeedBrokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
