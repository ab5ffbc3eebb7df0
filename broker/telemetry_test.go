package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// subscribe makes a subscription to clients' metrics.
func subscribe(t *testing.T, cl *kgo.Client, configs map[string]string) {
	t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeClientMetrics, "all"
	for name, value := range configs {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		resource.Configs = append(resource.Configs, c)
	}
	r.Resources = append(r.Resources, resource)
	answer, err := r.RequestWith(t.Context(), cl)
	if err != nil || answer.Resources[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", answer, err)
	}
}

// TestClientsPushMetrics: once somebody asks for them, a client's own metrics are exported by the broker.
func TestClientsPushMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, t.TempDir())
		cl := client(t, b, kgo.ClientID("app"))
		defer cl.Close()
		createTopic(t, cl, "t", 1, nil)
		subscribe(t, cl, map[string]string{"metrics": "org.apache.kafka.", "interval.ms": "1000", "match": "client_id=app"})
		time.Sleep(10 * time.Minute) // of virtual time: a client looks every five minutes what it is asked for
		produce(t, cl, "t", 0, 10)
		time.Sleep(time.Minute)

		registry := prometheus.NewRegistry()
		registry.MustRegister(b.services.Telemetry)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, f := range families {
			found[f.GetName()] = true
		}
		if !found["kafka_client_producer_connection_creation_rate"] {
			t.Errorf("exported: %v", found)
		}
	})
}
