package broker

import (
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// configObserver takes what the metadata store says of configurations to those who follow it (controller.Observer).
type configObserver struct {
	b       *Broker
	brokers dynamicConfig
}

func newObserver(b *Broker) *configObserver {
	return &configObserver{b: b, brokers: dynamicConfig{b: b}}
}

// ConfigChanged is called by one goroutine.
func (o *configObserver) ConfigChanged(kind, name string, values map[string]string) {
	switch kind {
	case znode.Topics:
		o.b.topics.topicChanged(name, values)
	case znode.Brokers:
		o.brokers.changed(name, values)
	case znode.ClientMetrics:
		o.subscriptionChanged(name, values)
	case znode.Users, znode.Clients, znode.IPs:
		o.b.quotas.changed(kind, name, values)
	}
}

// subscriptionChanged takes a subscription to clients' metrics over.
func (o *configObserver) subscriptionChanged(name string, values map[string]string) {
	s, err := config.ParseClientMetrics(o.b.live.Now(), values)
	if err != nil {
		o.b.logger.Error("a subscription to client metrics in the metadata store cannot be read", zap.String("name", name), zap.Error(err))
		return
	}
	o.b.services.Telemetry.Subscribe(name, s, len(values) == 0)
}

// ControllerChanged has no effect: who the controller is stands in the image.
func (o *configObserver) ControllerChanged(int32) {}
