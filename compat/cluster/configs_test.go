package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// setAt has one broker change the configuration of a broker ("" for all), and fails the test if it does not.
func setAt(t testing.TB, client *kgo.Client, at int, broker, key, value string) {
	t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeBroker, broker
	c := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: kmsg.IncrementalAlterConfigOpSet, Value: &value}
	if value == "" {
		c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
	}
	of.Configs = append(of.Configs, c)
	r.Resources = append(r.Resources, of)
	answer, err := client.Broker(at).RetriableRequest(harness.Context(t, limit), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(answer.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode); err != nil {
		t.Fatalf("broker %d: %s=%s of %q: %v", at, key, value, broker, err)
	}
}

// describedAt asks one broker for a value of a resource, "" if it has none.
func describedAt(t testing.TB, client *kgo.Client, at int, kind kmsg.ConfigResourceType, name, key string) string {
	t.Helper()
	r := kmsg.NewPtrDescribeConfigsRequest()
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName, of.ConfigNames = kind, name, []string{key}
	r.Resources = append(r.Resources, of)
	answer, err := client.Broker(at).RetriableRequest(harness.Context(t, limit), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range answer.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if c.Name == key && c.Value != nil {
			return *c.Value
		}
	}
	return ""
}

// setQuotaAt has one broker set a client id's producer_byte_rate, or take it back (0).
func setQuotaAt(t testing.TB, client *kgo.Client, at int, id string, rate float64) {
	t.Helper()
	r := kmsg.NewPtrAlterClientQuotasRequest()
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "client-id", Name: &id}}
	entry.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: rate, Remove: rate == 0}}
	r.Entries = append(r.Entries, entry)
	answer, err := client.Broker(at).RetriableRequest(harness.Context(t, limit), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(answer.(*kmsg.AlterClientQuotasResponse).Entries[0].ErrorCode); err != nil {
		t.Fatalf("broker %d: quota of %s: %v", at, id, err)
	}
}

// quotaAt asks one broker for a client id's producer_byte_rate, 0 if it has none.
func quotaAt(t testing.TB, client *kgo.Client, at int, id string) float64 {
	t.Helper()
	r := kmsg.NewPtrDescribeClientQuotasRequest()
	r.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "client-id", Match: &id}}
	answer, err := client.Broker(at).RetriableRequest(harness.Context(t, limit), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range answer.(*kmsg.DescribeClientQuotasResponse).Entries {
		for _, v := range e.Values {
			return v.Value
		}
	}
	return 0
}

// configsTravel: what any broker writes of configurations and quotas, the others read, of whatever kind they are.
func configsTravel(t *testing.T, c *harness.Cluster, topic string) {
	t.Helper()
	client := c.Client(t)
	client.ForceMetadataRefresh()
	const key = "log.cleaner.backoff.ms"
	eventually := func(what string, at int, want any, got func() any) {
		t.Helper()
		harness.Eventually(t, limit, func() error {
			if g := got(); g != want {
				return fmt.Errorf("%s at broker %d: %v, want %v", what, at, g, want)
			}
			return nil
		})
	}
	for writer := 1; writer <= 3; writer++ {
		id, name := fmt.Sprintf("client %d", writer), fmt.Sprint(writer)
		setAt(t, client, writer, "", "log.retention.ms", fmt.Sprint(7000000+writer))
		setAt(t, client, writer, name, key, fmt.Sprint(14000+writer))
		setQuotaAt(t, client, writer, id, float64(1000*writer))
		for reader := 1; reader <= 3; reader++ {
			eventually("retention.ms of the topic", reader, fmt.Sprint(7000000+writer), func() any {
				return describedAt(t, client, reader, kmsg.ConfigResourceTypeTopic, topic, "retention.ms")
			})
			eventually("quota", reader, float64(1000*writer), func() any { return quotaAt(t, client, reader, id) })
		}
		eventually("its own configuration", writer, fmt.Sprint(14000+writer), func() any {
			return describedAt(t, client, writer, kmsg.ConfigResourceTypeBroker, name, key)
		})
	}
	for writer := 1; writer <= 3; writer++ {
		id, next := fmt.Sprintf("client %d", writer), writer%3+1
		setQuotaAt(t, client, next, id, 0) // another takes it back
		setAt(t, client, writer, fmt.Sprint(writer), key, "")
		for reader := 1; reader <= 3; reader++ {
			eventually("quota that was taken back", reader, 0.0, func() any { return quotaAt(t, client, reader, id) })
		}
	}
	setAt(t, client, 2, "", "log.retention.ms", "")
}

// TestQuotaNodes: quotas are where Kafka has them, as it writes them, and an entity without quotas leaves no node behind.
func TestQuotaNodes(t *testing.T) {
	c, tools := shared(t)
	id := name("quota")
	of := []string{"--alter", "--entity-type", "clients", "--entity-name", id}
	tools.run(t, "kafka-configs", append(of, "--add-config", "producer_byte_rate=1000000,request_percentage=200.5")...)
	got := tools.zookeeper(t, "get", "/config/clients/"+id)
	if !sameKeys(got, `\{"version":1,"config":\{"producer_byte_rate":"1000000","request_percentage":"200\.5"\}\}`) &&
		!sameKeys(got, `\{"version":1,"config":\{"request_percentage":"200\.5","producer_byte_rate":"1000000"\}\}`) {
		t.Errorf("/config/clients/%s is %s", id, got)
	}
	client := c.Client(t)
	for at := 1; at <= 3; at++ {
		harness.Eventually(t, limit, func() error {
			if q := quotaAt(t, client, at, id); q != 1000000 {
				return fmt.Errorf("broker %d: %v", at, q)
			}
			return nil
		})
	}
	tools.run(t, "kafka-configs", append(of, "--delete-config", "producer_byte_rate,request_percentage")...)
	if got := tools.zookeeper(t, "ls", "/config/clients"); strings.Contains(got, id) {
		t.Errorf("/config/clients has %s", got)
	}
}
