package observe

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/meter"
)

// collector makes metrics of a broker when it is asked. It describes none in advance, as the names of Kafka's have now fewer
// and now more labels.
type collector struct {
	Options
	idle, controllerIdle idleness
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	out := sink{to}
	c.requests(out)
	c.topics(out)
	c.partitions(out)
	c.directories(out)
	c.work(out)
	c.cleaner(out)
	c.timings(out)
	c.quotas(out)
	c.cluster(out)
	c.clients(out)
	c.lags(out)
}

// sink takes values under the names that the JMX exporter's example gives them.
type sink struct{ to chan<- prometheus.Metric }

// labels are pairs of name and value.
type labels []string

func (s sink) put(kind prometheus.ValueType, name string, value float64, pairs labels) {
	var names, values []string
	for i := 0; i < len(pairs); i += 2 {
		names, values = append(names, pairs[i]), append(values, strings.ToValidUTF8(pairs[i+1], "�"))
	}
	s.to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help[name], names, nil), kind, value, values...)
}

func (s sink) gauge(name string, value int, pairs ...string) {
	s.put(prometheus.GaugeValue, name, float64(value), pairs)
}

func (s sink) fraction(name string, value float64, pairs ...string) {
	s.put(prometheus.GaugeValue, name, value, pairs)
}

func (s sink) counter(name string, value int64, pairs ...string) {
	s.put(prometheus.CounterValue, name, float64(value), pairs)
}

// quantiles are those of Kafka's histograms, and what the JMX exporter's example makes of their names.
var (
	quantiles     = []float64{0.50, 0.75, 0.95, 0.98, 0.99, 0.999}
	quantileWords = []string{"0.50", "0.75", "0.95", "0.98", "0.99", "0.999"}
)

// apiName is what Kafka calls requests of an API, or the kind of Fetch that key stands for.
func apiName(key int16) string {
	switch key {
	case meter.FetchConsumer:
		return "FetchConsumer"
	case meter.FetchFollower:
		return "FetchFollower"
	}
	return api.Name(key)
}

// partNames are those of the parts of a request.
var partNames = [...]string{
	meter.Total: "totaltimems", meter.Queue: "requestqueuetimems", meter.Local: "localtimems", meter.Remote: "remotetimems",
	meter.Throttle: "throttletimems", meter.Bytes: "requestbytes", meter.Send: "responsesendtimems",
}

// requests tells what was asked, how it was answered and how long that took.
func (c *collector) requests(out sink) {
	m := c.Services().Meter
	m.Requests(func(r meter.Request, n int64) {
		out.counter("kafka_network_requestmetrics_requests_total", n, "request", apiName(r.Key), "version", strconv.Itoa(int(r.Version)))
	})
	m.Failures(func(e meter.Failure, n int64) {
		out.counter("kafka_network_requestmetrics_errors_total", n, "request", apiName(e.Key), "error", codeName(e.Code))
	})
	m.Times(quantiles, func(s meter.Spent, n int64, seconds float64, at []time.Duration) {
		request, name := apiName(s.Key), "kafka_network_requestmetrics_"+partNames[s.Part]
		unit := time.Millisecond
		if s.Part == meter.Bytes {
			unit = time.Microsecond
		}
		out.counter(name+"_count_total", n, "request", request)
		if s.Part == meter.Total {
			out.put(prometheus.CounterValue, "gregor_request_seconds_total", seconds, labels{"request", request})
		}
		for i, q := range quantileWords {
			out.put(prometheus.GaugeValue, name, float64(at[i])/float64(unit), labels{"request", request, "quantile", q})
		}
	})
}

func codeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return strconv.Itoa(int(code))
}

// topics tells what went in and out, of all topics and of each.
func (c *collector) topics(out sink) {
	c.Services().Meter.Topics(func(name string, t *meter.Topic) {
		var pairs []string
		if name != "" {
			pairs = labels{"topic", name}
		}
		for kind, n := range map[string]int64{
			"messagesin": t.MessagesIn.Load(), "bytesin": t.BytesIn.Load(), "bytesout": t.BytesOut.Load(), "bytesrejected": t.BytesRejected.Load(),
			"totalproducerequests": t.Produces.Load(), "failedproducerequests": t.FailedProduces.Load(),
			"totalfetchrequests": t.Fetches.Load(), "failedfetchrequests": t.FailedFetches.Load(),
			"producemessageconversions": t.ProducedConverted.Load(), "fetchmessageconversions": t.FetchedConverted.Load(),
		} {
			if n > 0 || name == "" { // Kafka too shows of a topic what has happened
				out.counter("kafka_server_brokertopicmetrics_"+kind+"_total", n, pairs...)
			}
		}
	})
	c.replication(out)
	for fault, name := range faultNames {
		out.counter("kafka_server_brokertopicmetrics_"+name+"records_total", c.Services().Meter.Faults(meter.Fault(fault)))
	}
}

// faultNames are what Kafka calls the faults of records.
var faultNames = [...]string{
	meter.InvalidMagic: "invalidmagicnumber", meter.InvalidChecksum: "invalidmessagecrc", meter.InvalidNumbers: "invalidoffsetorsequence",
	meter.KeylessRecords: "nokeycompactedtopic",
}

// replication tells what brokers sent each other.
func (c *collector) replication(out sink) {
	in, sent := c.Services().Meter.Replication()
	out.counter("kafka_server_brokertopicmetrics_replicationbytesin_total", in)
	out.counter("kafka_server_brokertopicmetrics_replicationbytesout_total", sent)
	in, sent = c.Services().Meter.Reassignment()
	out.counter("kafka_server_brokertopicmetrics_reassignmentbytesin_total", in)
	out.counter("kafka_server_brokertopicmetrics_reassignmentbytesout_total", sent)
}

// cluster tells what this broker knows of the cluster; of offline partitions, as Kafka, only the active controller.
func (c *collector) cluster(out sink) {
	const running = 3 // of Kafka's BrokerState
	out.gauge("kafka_server_kafkaserver_brokerstate", running)
	image := c.Services().Metadata.Image()
	active, offline, unpreferred, partitions := 0, 0, 0, 0
	if image.Controller == c.Services().BrokerID {
		active = 1
	}
	names := image.TopicNames()
	for _, name := range names {
		t := image.Topic(name)
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if !p.Exists() {
				continue
			}
			partitions++
			switch {
			case p.Leader == metadata.NoLeader:
				offline++
			case p.Leader != p.Replicas[0]:
				unpreferred++
			}
		}
	}
	out.gauge("kafka_controller_kafkacontroller_activecontrollercount", active)
	out.counter("kafka_controller_controllerstats_uncleanleaderelections_total", c.Services().Controller.UncleanElections())
	out.gauge("kafka_controller_kafkacontroller_offlinepartitionscount", active*offline)
	out.gauge("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", active*unpreferred)
	out.gauge("kafka_controller_kafkacontroller_globaltopiccount", active*len(names))
	out.gauge("kafka_controller_kafkacontroller_globalpartitioncount", active*partitions)
	out.gauge("kafka_controller_kafkacontroller_activebrokercount", active*len(image.Brokers()))
}

// clients tells what the connected clients call themselves (KIP-511).
func (c *collector) clients(out sink) {
	for client, n := range c.Services().Clients.Counts() {
		out.gauge("kafka_server_socket_server_metrics_connections", n,
			"clientSoftwareName", client.Name, "clientSoftwareVersion", client.Version, "listener", client.Listener)
	}
}
