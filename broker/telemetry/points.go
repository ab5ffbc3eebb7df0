package telemetry

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/twmb/franz-go/pkg/kerr"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// String writes an id as Kafka does.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// label is a name and a value that tell one series of a metric from another.
type label struct{ name, value string }

// point is a value of a series as a client pushed it.
type point struct {
	name   string // as in OpenTelemetry, with dots
	labels []label
	value  float64
	kind   kind
}

type kind int8

const (
	gauge   kind = iota
	counter      // the value is the sum so far
	delta        // the value is what came since the last push
)

// series is what a client has pushed under one name and labels.
type series struct {
	name   string
	labels []label
	value  float64
	kind   kind // gauge or counter
}

// decode reads a push. Of its metrics gauges and sums are kept, the only ones that KIP-714 has.
func decode(p Push, maxBytes int64) ([]point, *kerr.Error) {
	if len(p.Metrics) == 0 {
		return nil, nil
	}
	data, err := record.Decompress(nil, record.Codec(p.Codec), p.Metrics, maxBytes)
	if errors.Is(err, record.ErrTooLarge) {
		return nil, kerr.TelemetryTooLarge
	}
	var message metricspb.MetricsData
	if err != nil || proto.Unmarshal(data, &message) != nil {
		return nil, kerr.InvalidRecord
	}
	var points []point
	for _, r := range message.GetResourceMetrics() {
		shared := labels(r.GetResource().GetAttributes())
		for _, scope := range r.GetScopeMetrics() {
			for _, metric := range scope.GetMetrics() {
				points = append(points, pointsOf(metric, shared)...)
			}
		}
	}
	return points, nil
}

func pointsOf(metric *metricspb.Metric, shared []label) (points []point) {
	kind, list := gauge, metric.GetGauge().GetDataPoints()
	if sum := metric.GetSum(); sum != nil {
		list = sum.GetDataPoints()
		if kind = counter; sum.GetAggregationTemporality() == metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA {
			kind = delta
		}
	}
	for _, p := range list {
		value := p.GetAsDouble()
		if n, ok := p.GetValue().(*metricspb.NumberDataPoint_AsInt); ok {
			value = float64(n.AsInt)
		}
		points = append(points, point{metric.GetName(), slices.Concat(shared, labels(p.GetAttributes())), value, kind})
	}
	return points
}

func labels(attributes []*commonpb.KeyValue) []label {
	list := make([]label, 0, len(attributes))
	for _, a := range attributes {
		list = append(list, label{a.GetKey(), a.GetValue().GetStringValue()})
	}
	return list
}

// keep takes points over into an instance's series, as long as there is room.
func (m *Manager) keep(i *instance, points []point) {
	for _, p := range points {
		key := seriesKey(p)
		s := i.series[key]
		if s == nil {
			if m.mu.series >= maxSeries {
				continue
			}
			m.mu.series++
			s = &series{name: p.name, labels: p.labels}
			i.series[key] = s
		}
		if s.kind = counter; p.kind == gauge {
			s.kind = gauge
		}
		if p.kind == delta {
			s.value += p.value
		} else {
			s.value = p.value
		}
	}
}

func seriesKey(p point) string {
	var b strings.Builder
	b.WriteString(p.name)
	for _, l := range p.labels {
		b.WriteString("\x00" + l.name + "\x01" + l.value)
	}
	return b.String()
}
