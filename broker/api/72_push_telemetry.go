package api

import (
	"github.com/gregor-broker/gregor/broker/telemetry"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// PushTelemetry takes a client's metrics (KIP-714), which are exported with the broker's own.
// Errors: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE,
// INVALID_RECORD. After ClientMetricsManager.processPushTelemetryRequest.
var pushTelemetry = Entry{
	Key: kmsg.PushTelemetry, ZooKeeper: none, Kafka4: v(0, 0),
	Access: anyone, Cost: 8, Runs: onHandler,
	Serve: servePushTelemetry,
}

func servePushTelemetry(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.PushTelemetryRequest)
	err := s.Telemetry.Push(r.ClientInstanceID, c.telemetryClient(), telemetry.Push{
		Subscription: r.SubscriptionID, Terminating: r.Terminating, Codec: r.CompressionType, Metrics: r.Metrics,
	})
	response := kmsg.NewPtrPushTelemetryResponse()
	response.ErrorCode = c.Code(err)
	c.Reply(response)
}
