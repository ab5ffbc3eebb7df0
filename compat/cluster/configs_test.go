package cluster

import (
	"fmt"
	"slices"
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
			if v.Key == "producer_byte_rate" {
				return v.Value
			}
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

// TestQuotaNodes: quotas are where Kafka has them, as it writes them.
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

// TestEmptiedQuotaNodes is case C3 for every kind of entity: one without quotas leaves no node behind, nor does the user above it, unless
// that has quotas or other clients.
func TestEmptiedQuotaNodes(t *testing.T) {
	c, tools := shared(t)
	client := c.Client(t)
	u, id := name("user"), name("client")
	set := func(rate float64, entity ...string) {
		t.Helper()
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for i := 0; i < len(entity); i += 2 {
			of := kmsg.AlterClientQuotasRequestEntryEntity{Type: entity[i], Name: &entity[i+1]}
			if entity[i+1] == "" {
				of.Name = nil
			}
			entry.Entity = append(entry.Entity, of)
		}
		key := "producer_byte_rate"
		if entity[0] == "ip" {
			key = "connection_creation_rate"
		}
		entry.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: key, Value: rate, Remove: rate == 0}}
		r := kmsg.NewPtrAlterClientQuotasRequest()
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{entry}
		answer, err := client.Broker(1).RetriableRequest(harness.Context(t, limit), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := kerr.ErrorForCode(answer.(*kmsg.AlterClientQuotasResponse).Entries[0].ErrorCode); err != nil {
			t.Fatalf("quota of %q: %v", entity, err)
		}
	}
	nodes := func() (found []string) {
		t.Helper()
		out := tools.RunAlone(t, "zookeeper-shell", "-server", c.ZooKeeper.Addr, "ls", "-R", "/config")
		for line := range strings.Lines(out.Stdout) {
			if path := strings.TrimSpace(line); strings.Contains(path, u) || strings.Contains(path, id) || strings.Contains(path, "<default>") || strings.Contains(path, "10.9.9.9") {
				found = append(found, strings.NewReplacer("/config/", "", u, "U", id, "C").Replace(path))
			}
		}
		slices.Sort(found)
		return found
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"a client", func() { set(1, "client-id", id) }, "clients/C"},
		{"which is emptied", func() { set(0, "client-id", id) }, ""},
		{"the default client", func() { set(1, "client-id", "") }, "clients/<default>"},
		{"which is emptied", func() { set(0, "client-id", "") }, ""},
		{"an address", func() { set(1, "ip", "10.9.9.9") }, "ips/10.9.9.9"},
		{"which is emptied", func() { set(0, "ip", "10.9.9.9") }, ""},
		{"a user", func() { set(1, "user", u) }, "users/U"},
		{"which is emptied", func() { set(0, "user", u) }, ""},
		{"a user's client", func() { set(1, "user", u, "client-id", id) }, "users/U users/U/clients users/U/clients/C"},
		{"which is emptied", func() { set(0, "user", u, "client-id", id) }, ""},
		{"a user and two clients", func() {
			set(1, "user", u)
			set(1, "user", u, "client-id", id)
			set(1, "user", u, "client-id", "")
		}, "users/U users/U/clients users/U/clients/<default> users/U/clients/C"},
		{"one is emptied", func() { set(0, "user", u, "client-id", id) }, "users/U users/U/clients users/U/clients/<default>"},
		{"the other too", func() { set(0, "user", u, "client-id", "") }, "users/U"},
		{"it has a client again, and is emptied", func() {
			set(1, "user", u, "client-id", id)
			set(0, "user", u)
		}, "users/U users/U/clients users/U/clients/C"},
		{"so is the client", func() { set(0, "user", u, "client-id", id) }, ""},
		{"what has none is emptied", func() { set(0, "user", u) }, ""},
		{"a client of it too", func() { set(0, "user", u, "client-id", id) }, ""},
	} {
		step.do()
		if got := strings.Join(nodes(), " "); got != step.want {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}
