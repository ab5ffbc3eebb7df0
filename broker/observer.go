package broker

import "github.com/gregor-broker/gregor/controller/znode"

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
	}
}

// ControllerChanged has no effect: who the controller is stands in the image.
func (o *configObserver) ControllerChanged(int32) {}
