package observe

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gregor-broker/gregor/broker/meter"
)

// histogram shows times in ms, with their number.
func (s sink) histogram(name string, count int64, at []time.Duration, pairs ...string) {
	s.counter(name+"_count_total", count, pairs...)
	for i, q := range quantileWords {
		s.put(prometheus.GaugeValue, name, at[i].Seconds()*1000, append(labels{"quantile", q}, pairs...))
	}
}

// timed are the names of what is timed in every broker.
var timed = map[meter.Timed]string{
	meter.Flush:           "kafka_log_logflushstats_logflushrateandtimems",
	meter.Verification:    "kafka_server_addpartitionstotxnmanager_verificationtimems",
	meter.EventQueue:      "kafka_controller_controllereventmanager_eventqueuetimems",
	meter.EventProcessing: "kafka_controller_controllereventmanager_eventqueueprocessingtimems",
	meter.LeaderElection:  "kafka_controller_controllerstats_leaderelectionrateandtimems",
}

// timings tells what took how long besides requests.
func (c *collector) timings(out sink) {
	m := c.Services().Meter
	for what, name := range timed {
		count, _, at := m.Timings(what, quantiles)
		out.histogram(name, count, at)
	}
	out.counter("kafka_server_addpartitionstotxnmanager_verificationfailurerate_count_total", m.Events(meter.NotVerified))
	c.controllerQueues(out)
	if !c.Services().Embedded {
		c.zookeeper(out)
		c.deletions(out)
	}
}

// controllerQueues tells what waits for the controller, and for the brokers that it gives orders to.
func (c *collector) controllerQueues(out sink) {
	m := c.Services().Meter
	age := m.Age()
	_, busy, _ := m.Timings(meter.EventProcessing, nil)
	idle := c.controllerIdle.look(age, []time.Duration{age - busy})
	out.fraction("kafka_controller_controllereventmanager_avgidleratio", idle[0])
	out.gauge("kafka_controller_controllereventmanager_eventqueuesize", c.Services().Controller.QueuedEvents())
	total := 0
	c.Services().Controller.QueuedOrders(func(broker int32, n int) {
		out.gauge("kafka_controller_controllerchannelmanager_queuesize", n, "broker_id", strconv.Itoa(int(broker)))
		total += n
	})
	out.gauge("kafka_controller_controllerchannelmanager_totalqueuesize", total)
	m.Orders(quantiles, func(broker int32, count int64, at []time.Duration) {
		out.histogram("kafka_controller_controllerchannelmanager_requestrateandqueuetimems", count, at, "broker_id", strconv.Itoa(int(broker)))
	})
}

// answerLimit is how long the controller may take to say what it has to delete; after that it is not shown.
const answerLimit = time.Second

// deletions tells what the active controller still has to delete.
func (c *collector) deletions(out sink) {
	names := [...]string{"topicstodeletecount", "replicastodeletecount", "topicsineligibletodeletecount", "replicasineligibletodeletecount"}
	answer := make(chan [len(names)]int, 1)
	c.Services().Controller.Deletions(func(topics, replicas, blockedTopics, blockedReplicas int) {
		answer <- [...]int{topics, replicas, blockedTopics, blockedReplicas}
	})
	late, timer := c.Services().Clock.NewTimer(answerLimit)
	defer timer.Stop()
	select {
	case d := <-answer:
		for i, name := range names {
			out.gauge("kafka_controller_kafkacontroller_"+name, d[i])
		}
	case <-late:
	}
}

// zookeeper tells how the connection to ZooKeeper fares.
func (c *collector) zookeeper(out sink) {
	m := c.Services().Meter
	count, _, at := m.Timings(meter.StoreRequest, quantiles)
	out.histogram("kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", count, at)
	out.counter("kafka_server_sessionexpirelistener_zookeepersyncconnects_total", m.Events(meter.StoreConnected))
	out.counter("kafka_server_sessionexpirelistener_zookeeperdisconnects_total", m.Events(meter.StoreDisconnected))
	out.counter("kafka_server_sessionexpirelistener_zookeeperexpires_total", m.Events(meter.StoreExpired))
}
