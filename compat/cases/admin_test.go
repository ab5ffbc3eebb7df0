package cases

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// setting is a config as DescribeConfigs shows it.
type setting struct {
	value  string
	source kmsg.ConfigSource
}

// settings describes a topic's configs.
func settings(t testing.TB, c *raw.Conn, topic string, keys ...string) map[string]setting {
	t.Helper()
	r := raw.With(kmsg.NewPtrDescribeConfigsRequest(), 3)
	asked := kmsg.NewDescribeConfigsRequestResource()
	asked.ResourceType, asked.ResourceName, asked.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, keys
	r.Resources = []kmsg.DescribeConfigsRequestResource{asked}
	answer := raw.Do[*kmsg.DescribeConfigsResponse](c, r).Resources[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		t.Fatalf("describe the configs of %s: %v", topic, err)
	}
	found := map[string]setting{}
	for _, config := range answer.Configs {
		if config.Value != nil {
			found[config.Name] = setting{*config.Value, config.Source}
		}
	}
	return found
}

// replaceAll is AlterConfigs: the topic's settings are these and no others. Pairs of key and value; a nil value is null.
func replaceAll(t testing.TB, c *raw.Conn, topic string, validateOnly bool, pairs ...*string) int16 {
	t.Helper()
	r := raw.With(kmsg.NewPtrAlterConfigsRequest(), 1)
	r.ValidateOnly = validateOnly
	asked := kmsg.NewAlterConfigsRequestResource()
	asked.ResourceType, asked.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for i := 0; i < len(pairs); i += 2 {
		asked.Configs = append(asked.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: *pairs[i], Value: pairs[i+1]})
	}
	r.Resources = []kmsg.AlterConfigsRequestResource{asked}
	return raw.Do[*kmsg.AlterConfigsResponse](c, r).Resources[0].ErrorCode
}

// alteration is one operation of IncrementalAlterConfigs.
type alteration struct {
	key   string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

func alter(t testing.TB, c *raw.Conn, topic string, validateOnly bool, alterations ...alteration) int16 {
	t.Helper()
	r := raw.With(kmsg.NewPtrIncrementalAlterConfigsRequest(), 1)
	r.ValidateOnly = validateOnly
	asked := kmsg.NewIncrementalAlterConfigsRequestResource()
	asked.ResourceType, asked.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for _, a := range alterations {
		asked.Configs = append(asked.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: a.key, Op: a.op, Value: a.value})
	}
	r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{asked}
	return raw.Do[*kmsg.IncrementalAlterConfigsResponse](c, r).Resources[0].ErrorCode
}

// awaitSetting waits until a topic's config is as wanted: Kafka answers an alteration before the brokers have it.
func awaitSetting(t testing.TB, c *raw.Conn, topic, key string, want setting) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, func() error {
		if got := settings(t, c, topic, key)[key]; got != want {
			return &differs{key, got, want}
		}
		return nil
	})
}

type differs struct {
	key       string
	got, want setting
}

func (d *differs) Error() string {
	return d.key + " is " + d.got.value + " from " + d.got.source.String() + ", want " + d.want.value + " from " + d.want.source.String()
}

// TestA1AlterConfigs: AlterConfigs replaces, IncrementalAlterConfigs changes; a value that was set is dynamic even if it is
// the default.
func TestA1AlterConfigs(t *testing.T) { everywhere(t, a1AlterConfigs) }

func a1AlterConfigs(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1, "retention.ms", "1", "max.message.bytes", "2000")
	p := kmsg.StringPtr
	awaitSetting(t, c, topic, "max.message.bytes", setting{"2000", kmsg.ConfigSourceDynamicTopicConfig})

	wantCode(t, "validate only", replaceAll(t, c, topic, true, p("retention.ms"), p("5")), nil)
	wantCode(t, "incremental, validate only", alter(t, c, topic, true, alteration{"retention.ms", kmsg.IncrementalAlterConfigOpSet, p("7")}), nil)
	wantCode(t, "another, to see that all before it are done", alter(t, c, topic, false, alteration{"segment.ms", kmsg.IncrementalAlterConfigOpSet, p("3000")}), nil)
	awaitSetting(t, c, topic, "segment.ms", setting{"3000", kmsg.ConfigSourceDynamicTopicConfig})
	if got := settings(t, c, topic); got["retention.ms"].value != "1" || got["max.message.bytes"].value != "2000" {
		t.Errorf("validating changed retention.ms to %v, max.message.bytes to %v", got["retention.ms"], got["max.message.bytes"])
	}
	wantCode(t, "replace", replaceAll(t, c, topic, false, p("retention.ms"), p("5")), nil)
	awaitSetting(t, c, topic, "retention.ms", setting{"5", kmsg.ConfigSourceDynamicTopicConfig})
	awaitSetting(t, c, topic, "max.message.bytes", setting{"1048588", kmsg.ConfigSourceDefaultConfig})
	awaitSetting(t, c, topic, "segment.ms", setting{"604800000", kmsg.ConfigSourceDefaultConfig})

	awaitSetting(t, c, topic, "cleanup.policy", setting{"delete", kmsg.ConfigSourceDefaultConfig})
	set := func(key, value string) alteration { return alteration{key, kmsg.IncrementalAlterConfigOpSet, p(value)} }
	wantCode(t, "set to the default", alter(t, c, topic, false, set("cleanup.policy", "delete")), nil)
	awaitSetting(t, c, topic, "cleanup.policy", setting{"delete", kmsg.ConfigSourceDynamicTopicConfig})
	wantCode(t, "append", alter(t, c, topic, false, alteration{"cleanup.policy", kmsg.IncrementalAlterConfigOpAppend, p("compact")}), nil)
	awaitSetting(t, c, topic, "cleanup.policy", setting{"delete,compact", kmsg.ConfigSourceDynamicTopicConfig})
	wantCode(t, "subtract", alter(t, c, topic, false, alteration{"cleanup.policy", kmsg.IncrementalAlterConfigOpSubtract, p("delete")}), nil)
	awaitSetting(t, c, topic, "cleanup.policy", setting{"compact", kmsg.ConfigSourceDynamicTopicConfig})
	wantCode(t, "delete", alter(t, c, topic, false, alteration{"cleanup.policy", kmsg.IncrementalAlterConfigOpDelete, nil}), nil)
	awaitSetting(t, c, topic, "cleanup.policy", setting{"delete", kmsg.ConfigSourceDefaultConfig})
	awaitSetting(t, c, topic, "retention.ms", setting{"5", kmsg.ConfigSourceDynamicTopicConfig})

	wantCode(t, "replace with an unknown key", replaceAll(t, c, topic, false, p("no.such.key"), p("1")), kerr.InvalidConfig)
	wantCode(t, "set an unknown key", alter(t, c, topic, false, set("no.such.key", "1")), kerr.InvalidConfig)
	wantCode(t, "set an impossible value", alter(t, c, topic, false, set("retention.ms", "soon")), kerr.InvalidConfig)
	wantCode(t, "set null", alter(t, c, topic, false, alteration{"retention.ms", kmsg.IncrementalAlterConfigOpSet, nil}), kerr.InvalidRequest)
	wantCode(t, "replace with null", replaceAll(t, c, topic, false, p("retention.ms"), nil), kerr.InvalidRequest)
	wantCode(t, "the same key twice", alter(t, c, topic, false, set("retention.ms", "1"), set("retention.ms", "2")), kerr.InvalidRequest)
	wantCode(t, "replace with the same key twice",
		replaceAll(t, c, topic, false, p("retention.ms"), p("1"), p("retention.ms"), p("2")), kerr.InvalidRequest)
	wantCode(t, "append to a number", alter(t, c, topic, false, alteration{"retention.ms", kmsg.IncrementalAlterConfigOpAppend, p("1")}), kerr.InvalidConfig)
	wantCode(t, "an unknown topic", alter(t, c, name(t), false, set("retention.ms", "1")), kerr.UnknownTopicOrPartition)
	awaitSetting(t, c, topic, "retention.ms", setting{"5", kmsg.ConfigSourceDynamicTopicConfig})
}

// metadata asks for topics in a version; with nil for all.
func metadata(t testing.TB, c *raw.Conn, version int16, create bool, topics []string) []kmsg.MetadataResponseTopic {
	t.Helper()
	r := raw.With(kmsg.NewPtrMetadataRequest(), version)
	r.AllowAutoTopicCreation = create
	if topics != nil {
		r.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, topic := range topics {
		r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(topic)})
	}
	return raw.Do[*kmsg.MetadataResponse](c, r).Topics
}

// TestA3AutoCreation: asking creates a topic only where it may.
func TestA3AutoCreation(t *testing.T) { everywhere(t, a3AutoCreation) }

func a3AutoCreation(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	known := func() map[string]bool {
		names := map[string]bool{}
		for _, topic := range metadata(t, c, 4, true, nil) {
			names[*topic.Topic] = true
		}
		return names
	}
	topic(t, b, 1) // once it is there, so is all that creating one needs
	nope, fresh, old := name(t), name(t), name(t)
	before := known()

	wantCode(t, "not allowed", metadata(t, c, 4, false, []string{nope})[0].ErrorCode, kerr.UnknownTopicOrPartition)
	if after := known(); after[nope] || len(after) != len(before) {
		t.Errorf("asking for all, or without leave, created topics: %v", after)
	}
	wantCode(t, "a bad name", metadata(t, c, 4, true, []string{"a b"})[0].ErrorCode, kerr.InvalidTopicException)

	// 5 from an active controller that is a broker, 3 from a broker that asks it, which in KRaft each does.
	for _, topic := range []string{fresh, old} {
		version := map[string]int16{fresh: 4, old: 1}[topic]
		first := metadata(t, c, version, true, []string{topic})[0].ErrorCode
		if first != kerr.LeaderNotAvailable.Code && (first != kerr.UnknownTopicOrPartition.Code || b.Kind != harness.Kafka44) {
			t.Errorf("v%d, the first time: %v, want LEADER_NOT_AVAILABLE", version, kerr.ErrorForCode(first))
		}
	}
	for version, topic := range map[int16]string{4: fresh, 1: old} {
		harness.Eventually(t, 30*time.Second, func() error {
			answer := metadata(t, c, version, true, []string{topic})[0]
			if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
				return err
			}
			return kerr.ErrorForCode(answer.Partitions[0].ErrorCode)
		})
	}
	if n := len(metadata(t, c, 1, false, []string{})); n != 0 {
		t.Errorf("v1 with an empty list answers %d topics, want none", n)
	}
	if n := len(metadata(t, c, 0, false, []string{})); n < 2 {
		t.Errorf("v0 with an empty list answers %d topics, want all", n)
	}
}
