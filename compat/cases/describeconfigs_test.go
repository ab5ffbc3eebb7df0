package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// TestDescribeConfigsInEveryVersion: where values come from and their synonyms from v1 on, types and what keys mean from v3 on; synonyms
// and meanings only for who asks for them. v0 has a field for what is a default, but 3.9 says it of no value.
func TestDescribeConfigsInEveryVersion(t *testing.T) { everywhere(t, describeConfigsInEveryVersion) }

func describeConfigsInEveryVersion(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1, "retention.ms", "1234567", "segment.index.bytes", "20000")
	id := brokerOf(t, c)
	first := int16(0)
	if b.Kind == harness.Kafka44 {
		first = 1
	}
	for version := first; version <= 4; version++ {
		for _, asks := range []bool{false, true} {
			r := raw.With(kmsg.NewPtrDescribeConfigsRequest(), version)
			r.IncludeSynonyms, r.IncludeDocumentation = asks, asks
			r.Resources = []kmsg.DescribeConfigsRequestResource{
				{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}, {ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: id},
			}
			answer := raw.Do[*kmsg.DescribeConfigsResponse](c, r)
			found := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
			for _, resource := range answer.Resources {
				wantCode(t, "describe "+resource.ResourceName, resource.ErrorCode, nil)
				for _, k := range resource.Configs {
					found[k.Name] = k
					if documented := k.Documentation != nil && *k.Documentation != ""; documented != (asks && version >= 3) {
						t.Errorf("v%d, asked %v: what %s means is told: %v", version, asks, k.Name, documented)
					}
				}
			}
			for _, want := range []struct {
				key, value, synonyms string
				source               kmsg.ConfigSource
				kind                 kmsg.ConfigType
				readOnly             bool
			}{
				{"retention.ms", "1234567", "1 retention.ms=1234567", kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigTypeLong, false},
				{"segment.index.bytes", "20000", "1 segment.index.bytes=20000, 5 log.index.size.max.bytes=10485760", kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigTypeInt, false},
				{"cleanup.policy", "delete", "5 log.cleanup.policy=delete", kmsg.ConfigSourceDefaultConfig, kmsg.ConfigTypeList, false},
				{"log.cleaner.backoff.ms", "15000", "5 log.cleaner.backoff.ms=15000", kmsg.ConfigSourceDefaultConfig, kmsg.ConfigTypeLong, false},
				{"socket.request.max.bytes", "104857600", "5 socket.request.max.bytes=104857600", kmsg.ConfigSourceDefaultConfig, kmsg.ConfigTypeInt, true},
			} {
				k := found[want.key]
				synonyms := ""
				for i, y := range k.ConfigSynonyms {
					if i > 0 {
						synonyms += ", "
					}
					synonyms += fmt.Sprintf("%d %s=%s", y.Source, y.Name, *y.Value)
				}
				if !asks || version < 1 {
					want.synonyms = ""
				}
				if version < 1 {
					want.source = k.Source
				}
				if version < 3 {
					want.kind = k.ConfigType
				}
				if k.Value == nil || *k.Value != want.value || synonyms != want.synonyms || k.Source != want.source || k.ConfigType != want.kind ||
					k.ReadOnly != want.readOnly || k.IsDefault || k.IsSensitive {
					t.Errorf("v%d, asked %v: %+v with synonyms %q, want %+v", version, asks, k, synonyms, want)
				}
			}
		}
	}
}

// brokerOf returns the id of the only broker.
func brokerOf(t testing.TB, c *raw.Conn) string {
	t.Helper()
	id := int32(-1)
	harness.Eventually(t, time.Minute, func() error {
		answer := raw.Do[*kmsg.MetadataResponse](c, raw.With(kmsg.NewPtrMetadataRequest(), 4))
		if len(answer.Brokers) != 1 {
			return fmt.Errorf("%d brokers", len(answer.Brokers))
		}
		id = answer.Brokers[0].NodeID
		return nil
	})
	return fmt.Sprint(id)
}
