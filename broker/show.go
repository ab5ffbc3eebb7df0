package broker

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/observe"
	"go.uber.org/zap"
)

// showItself answers over HTTP from now on, where the configuration says so, and has requests counted for that.
func (b *Broker) showItself() error {
	b.services.LogRequests = b.options.LogRequests
	address := config.HTTPListener.Of(b.config)
	if address == "" {
		return nil
	}
	b.services.Meter = meter.New(b.clock)
	s, err := observe.Listen(address, observe.Options{Services: b.services, Ready: b.ready, Network: b.busy})
	if err != nil {
		return fmt.Errorf("gregor.http.listener=%s: %w", address, err)
	}
	b.observed = s
	b.logger.Info("metrics and health are served over HTTP", zap.Stringer("address", s.Addr()))
	return nil
}

// busy says how busy the network layer is.
func (b *Broker) busy() observe.Network {
	s := b.network.Stats()
	n := observe.Network{QueuedRequests: s.Waiting, HandlersIdle: 1, MemoryUsed: s.MemoryUsed, MemoryAllowed: s.MemoryAllowed,
		Age: s.Age, ProcessorsRested: s.Rested}
	if s.Available > 0 {
		n.HandlersIdle -= s.Worked.Seconds() / s.Available.Seconds()
	}
	return n
}

var errNotServing = errors.New("the broker starts or stops")

// ready says whether the broker serves.
func (b *Broker) ready() error {
	if !b.serving.Load() {
		return errNotServing
	}
	return nil
}

// HTTPAddr returns where the broker answers over HTTP, nil for nowhere.
func (b *Broker) HTTPAddr() net.Addr {
	if b.observed == nil {
		return nil
	}
	return b.observed.Addr()
}

func (b *Broker) hideItself(ctx context.Context) error {
	if b.observed == nil {
		return nil
	}
	return b.observed.Close(ctx)
}
