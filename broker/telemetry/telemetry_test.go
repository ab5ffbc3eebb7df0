package telemetry

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

const maxBytes = 10_000

var java = Client{"app", "apache-kafka-java", "4.4.0", netip.MustParseAddrPort("127.0.0.1:50000")}

func manager() *Manager {
	return New(Options{Clock: clock.System, Logger: zap.NewNop(), MaxBytes: func() int { return maxBytes }})
}

func subscription(interval time.Duration, match map[string]string, metrics ...string) config.ClientMetrics {
	s := config.ClientMetrics{Metrics: metrics, Interval: interval, Match: map[string]*regexp.Regexp{}}
	for parameter, pattern := range match {
		s.Match[parameter] = regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	}
	return s
}

// sum is a push of one counter.
func sum(t testing.TB, name string, value int64, delta bool) []byte {
	t.Helper()
	temporality := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	if delta {
		temporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	return encode(t, &metricspb.Metric{Name: name, Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{
		AggregationTemporality: temporality, IsMonotonic: true,
		DataPoints: []*metricspb.NumberDataPoint{{
			Value:      &metricspb.NumberDataPoint_AsInt{AsInt: value},
			Attributes: []*commonpb.KeyValue{{Key: "topic", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "t"}}}},
		}},
	}}})
}

func encode(t testing.TB, metrics ...*metricspb.Metric) []byte {
	t.Helper()
	data, err := proto.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: metrics}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestMatching(t *testing.T) {
	for _, c := range []struct {
		match map[string]string
		want  bool
	}{
		{nil, true},
		{map[string]string{"client_id": "app"}, true},
		{map[string]string{"client_id": "ap"}, false},
		{map[string]string{"client_software_name": "apache.*", "client_software_version": `4\..*`}, true},
		{map[string]string{"client_software_name": "apache.*", "client_software_version": `3\..*`}, false},
		{map[string]string{"client_source_address": `127\.0\.0\.1`, "client_source_port": "50000"}, true},
		{map[string]string{"client_instance_id": "x"}, false},
	} {
		m := manager()
		m.Subscribe("s", subscription(time.Second, c.match, "*"), false)
		got, err := m.Get(ID{1}, java)
		if matched := slices.Contains(got.Metrics, "*"); err != nil || matched != c.want || matched != (got.Interval == time.Second) {
			t.Errorf("%v: %+v, %v", c.match, got, err)
		}
	}
}

// TestSeveralSubscriptions: prefixes join, the shortest interval counts, all is all.
func TestSeveralSubscriptions(t *testing.T) {
	m := manager()
	if got, err := m.Get(ID{1}, java); err != nil || len(got.Metrics) != 0 || got.Interval != defaultInterval {
		t.Errorf("without subscriptions %+v, %v", got, err)
	}
	m.Subscribe("a", subscription(time.Minute, nil, "x.", "y."), false)
	m.Subscribe("b", subscription(time.Second, nil, "y.", "z."), false)
	first, err := m.Get(ID{1}, java)
	if err != nil || !slices.Equal(first.Metrics, []string{"x.", "y.", "z."}) || first.Interval != time.Second {
		t.Errorf("%+v, %v", first, err)
	}
	m.Subscribe("c", subscription(time.Minute, nil, "*"), false)
	if got, err := m.Get(ID{1}, java); err != nil || !slices.Equal(got.Metrics, []string{"*"}) || got.ID == first.ID {
		t.Errorf("%+v, %v", got, err)
	}
	m.Subscribe("c", config.ClientMetrics{}, true)
	if got, err := m.Get(ID{1}, java); err != nil || got.ID != first.ID {
		t.Errorf("%+v, %v; the subscription was %d", got, err, first.ID)
	}
}

func TestNewInstancesGetIDs(t *testing.T) {
	m := manager()
	a, _ := m.Get(ID{}, java)
	b, _ := m.Get(ID{}, java)
	if a.Instance == (ID{}) || a.Instance == b.Instance || m.Instances() != 2 {
		t.Errorf("%v and %v", a, b)
	}
}

// TestTimes: when a client may ask and push, as ClientMetricsInstance has it.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager()
		m.Subscribe("s", subscription(time.Minute, nil, "*"), false)
		s, _ := m.Get(ID{1}, java)
		push := func(want error) {
			t.Helper()
			if err := m.Push(ID{1}, java, Push{Subscription: s.ID}); !errors.Is(err, want) {
				t.Errorf("push: %v, want %v", err, want)
			}
		}
		get := func(want error) {
			t.Helper()
			if _, err := m.Get(ID{1}, java); !errors.Is(err, want) {
				t.Errorf("get: %v, want %v", err, want)
			}
		}
		get(kerr.ThrottlingQuotaExceeded)
		push(nil) // after a subscription at once
		push(kerr.ThrottlingQuotaExceeded)
		get(kerr.ThrottlingQuotaExceeded)
		time.Sleep(time.Minute)
		push(nil)
		time.Sleep(time.Minute)
		get(nil)
		push(nil)
		if err := m.Push(ID{1}, java, Push{Subscription: s.ID, Terminating: true}); err != nil {
			t.Errorf("the last push: %v", err)
		}
		push(kerr.InvalidRequest)
		time.Sleep(4 * time.Minute)
		if m.Instances() != 0 {
			t.Error("an instance that is silent stays")
		}
	})
}

func TestRefusedPushes(t *testing.T) {
	m := manager()
	for name, c := range map[string]struct {
		id   ID
		push Push
		want error
	}{
		"no id":                 {ID{}, Push{}, kerr.InvalidRequest},
		"another subscription":  {ID{1}, Push{Subscription: -1}, kerr.UnknownSubscriptionID},
		"unknown codec":         {ID{2}, Push{Codec: 9}, kerr.UnsupportedCompressionType},
		"too large":             {ID{3}, Push{Metrics: make([]byte, maxBytes+1)}, kerr.TelemetryTooLarge},
		"no metrics":            {ID{4}, Push{Metrics: []byte("hello")}, kerr.InvalidRecord},
		"not what it should be": {ID{5}, Push{Codec: 4, Metrics: []byte("hello")}, kerr.InvalidRecord},
	} {
		if s, _ := m.Get(c.id, java); c.push.Subscription == 0 {
			c.push.Subscription = s.ID
		}
		if err := m.Push(c.id, java, c.push); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager()
		s, _ := m.Get(ID{1}, java)
		gauge := &metricspb.Metric{Name: "odd-name", Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{
			DataPoints: []*metricspb.NumberDataPoint{{Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: 1.5}}},
		}}}
		twin := proto.Clone(gauge).(*metricspb.Metric)
		twin.Name = "odd.name"
		for _, data := range [][]byte{sum(t, "org.apache.kafka.producer.sent", 2, true), sum(t, "org.apache.kafka.producer.sent", 3, true), encode(t, gauge, twin)} {
			if err := m.Push(ID{1}, java, Push{Subscription: s.ID, Metrics: data}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(defaultInterval)
		}
		const labels = `client_id="app",client_instance_id="AQAAAAAAAAAAAAAAAAAAAA",client_software_name="apache-kafka-java",client_software_version="4.4.0"`
		want := `
# HELP kafka_client_odd_name Pushed by clients (KIP-714).
# TYPE kafka_client_odd_name gauge
kafka_client_odd_name{` + labels + `} 1.5
# HELP kafka_client_producer_sent Pushed by clients (KIP-714).
# TYPE kafka_client_producer_sent counter
kafka_client_producer_sent{` + labels + `,topic="t"} 5
`
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(m)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "kafka_client_odd_name", "kafka_client_producer_sent"); err != nil {
			t.Error(err)
		}
	})
}

func FuzzPush(f *testing.F) {
	f.Add(int8(0), sum(f, "org.apache.kafka.producer.sent", 2, true))
	f.Add(int8(4), []byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, codec int8, data []byte) {
		m := manager()
		s, _ := m.Get(ID{1}, java)
		_ = m.Push(ID{1}, java, Push{Subscription: s.ID, Codec: codec, Metrics: data})
		registry := prometheus.NewRegistry()
		registry.MustRegister(m)
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
	})
}
