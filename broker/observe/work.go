package observe

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/broker/quota"
)

// work tells how busy the broker is.
func (c *collector) work(out sink) {
	n := c.Network()
	out.gauge("kafka_network_requestchannel_requestqueuesize", n.QueuedRequests)
	out.gauge("kafka_network_socketserver_memorypoolused", int(n.MemoryUsed))
	out.gauge("kafka_network_socketserver_memorypoolavailable", int(n.MemoryAllowed-n.MemoryUsed))
	out.fraction("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", n.HandlersIdle)
	c.processors(out, &n)
	out.gauge("kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize", c.Services().Transactions.MarkersWaiting())
	sessions, partitions, evicted := c.Services().Sessions.Stats()
	out.gauge("kafka_server_fetchsessioncache_numincrementalfetchsessions", sessions)
	out.gauge("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", partitions)
	out.counter("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", evicted)
}

// processors tells which part of the last half to one minute the processors had nothing to do.
func (c *collector) processors(out sink, n *Network) {
	idle := c.idle.look(n.Asked, n.ProcessorsRested)
	if len(idle) == 0 {
		return
	}
	sum := 0.0
	for i, part := range idle {
		out.fraction("kafka_network_processor_idlepercent", part, "networkProcessor", strconv.Itoa(i))
		sum += part
	}
	out.fraction("kafka_network_socketserver_networkprocessoravgidlepercent", sum/float64(len(idle)))
}

// quotas tells what clients that have quotas use of them.
func (c *collector) quotas(out sink) {
	c.Services().Quotas.Each(func(u quota.Used) {
		var resource, rate string
		switch u.Kind {
		case quota.Produce:
			resource, rate = "Produce", "byte_rate"
		case quota.Fetch:
			resource, rate = "Fetch", "byte_rate"
		case quota.Request:
			resource, rate = "Request", "request_time"
		case quota.Mutations:
			resource, rate = "ControllerMutation", "mutation_rate"
		}
		pairs := labels{"resource", resource}
		if u.Entity.User != "" {
			pairs = append(pairs, "user", sanitized(u.Entity.User))
		}
		if u.Entity.Client != "" {
			pairs = append(pairs, "clientId", sanitized(u.Entity.Client))
		}
		out.fraction("kafka_server_quota_"+rate, u.Rate, pairs...)
		out.fraction("kafka_server_quota_throttle_time", u.Wait, pairs...)
		if u.Kind == quota.Mutations {
			out.fraction("kafka_server_quota_tokens", u.Tokens, pairs...)
		}
	})
}

// sanitized is a name as Kafka has it in the names of metrics (Sanitizer.sanitize).
func sanitized(name string) string {
	return strings.NewReplacer("+", "%20", "*", "%2A", "~", "%7E").Replace(url.QueryEscape(name))
}
