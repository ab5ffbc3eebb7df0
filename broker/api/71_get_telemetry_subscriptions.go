package api

import (
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/telemetry"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GetTelemetrySubscriptions tells a client which metrics to push, and how often (KIP-714).
// Errors: THROTTLING_QUOTA_EXCEEDED. After ClientMetricsManager.processGetTelemetrySubscriptionRequest.
var getTelemetrySubscriptions = Entry{
	Key: kmsg.GetTelemetrySubscriptions, ZooKeeper: none, Kafka4: v(0, 0),
	Access: anyone, Cost: 8, Runs: onHandler,
	Serve: serveGetTelemetrySubscriptions,
}

func serveGetTelemetrySubscriptions(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.GetTelemetrySubscriptionsRequest)
	response := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	subscription, err := s.Telemetry.Get(r.ClientInstanceID, c.telemetryClient())
	if err != nil {
		response.ErrorCode = c.Code(err)
		c.Reply(response)
		return
	}
	response.ClientInstanceID, response.SubscriptionID = subscription.Instance, subscription.ID
	response.RequestedMetrics, response.PushIntervalMillis = subscription.Metrics, int32(subscription.Interval.Milliseconds())
	response.AcceptedCompressionTypes, response.DeltaTemporality = telemetry.Codecs, true
	response.TelemetryMaxBytes = int32(config.TelemetryMaxBytes.Of(s.Config.Now()))
	c.Reply(response)
}

func (c *Call) telemetryClient() telemetry.Client {
	software := c.client()
	return telemetry.Client{ClientID: c.ClientID, Software: software.Name, SoftwareVersion: software.Version, Address: c.Remote()}
}
