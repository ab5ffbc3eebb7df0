package telemetry

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix is that of exported names: org.apache.kafka.producer.record.send.total is kafka_client_producer_record_send_total.
const prefix = "kafka_client_"

var instancesDesc = prometheus.NewDesc("kafka_server_client_metrics_instance_count", "Clients that push metrics.", nil, nil)

// Describe implements prometheus.Collector: which metrics there are, clients decide.
func (m *Manager) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. What two clients push in contradiction, or one twice under names that become one, is
// exported once: an exporter refuses all of a page for the least of it.
func (m *Manager) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	out <- prometheus.MustNewConstMetric(instancesDesc, prometheus.GaugeValue, float64(m.mu.recent.Len()))
	kinds, seen := map[string]kind{}, map[string]bool{}
	for element := m.mu.recent.Front(); element != nil; element = element.Next() {
		i := element.Value.(*instance)
		for _, s := range i.series {
			name := prefix + sanitize(strings.TrimPrefix(s.name, "org.apache.kafka."))
			names, values := i.labels(s)
			key := name + "\x00" + strings.Join(names, "\x00") + "\x01" + strings.Join(values, "\x00")
			if k, known := kinds[name]; known && k != s.kind || seen[key] {
				continue
			}
			valueType := prometheus.GaugeValue
			if s.kind == counter {
				valueType = prometheus.CounterValue
			}
			metric, err := prometheus.NewConstMetric(prometheus.NewDesc(name, "Pushed by clients (KIP-714).", names, nil), valueType, s.value, values...)
			if err != nil {
				continue // a label that Prometheus has no name for
			}
			kinds[name], seen[key] = s.kind, true
			out <- metric
		}
	}
}

// labels are the names, in order, and the values that tell this client's series from others.
func (i *instance) labels(s *series) (names, values []string) {
	all := map[string]string{}
	for _, l := range s.labels {
		all[sanitize(l.name)] = strings.ToValidUTF8(l.value, "?")
	}
	all["client_instance_id"], all["client_id"] = i.id.String(), i.client.ClientID
	all["client_software_name"], all["client_software_version"] = i.client.Software, i.client.SoftwareVersion
	names = slices.Sorted(maps.Keys(all))
	for _, name := range names {
		values = append(values, all[name])
	}
	return names, values
}

// sanitize makes a name that Prometheus takes.
func sanitize(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
}
