package broker

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/observe"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store/zk"
	"go.uber.org/zap"
)

// showItself answers over HTTP from now on, where the configuration says so, and has requests counted for that.
func (b *Broker) showItself(context.Context) error {
	if b.meter == nil {
		return nil
	}
	address := config.HTTPListener.Of(b.config)
	s, err := observe.Listen(address, observe.Options{Services: func() *api.Services { return b.services }, Ready: b.ready, Network: b.busy, Cleaner: b.cleaned})
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
		Asked: s.Asked, ProcessorsRested: s.Rested}
	if s.Available > 0 {
		n.HandlersIdle -= s.Worked.Seconds() / s.Available.Seconds()
	}
	return n
}

// cleaned says what the cleaner did last; nil: there is none.
func (b *Broker) cleaned() *observe.Cleaning {
	c := b.cleaner.Load()
	if c == nil {
		return nil
	}
	s := c.Stats()
	x := &observe.Cleaning{
		Looked: b.clock.Monotonic() - s.LookedAt, DirtyPercent: s.DirtyPercent, Delay: s.Delay, Took: s.Took, BufferPercent: s.BufferPercent,
		RecopyPercent: s.RecopyPercent, Bytes: s.Bytes, Uncleanable: map[string]observe.Uncleanable{},
	}
	for dir, u := range s.Uncleanable {
		x.Uncleanable[dir] = observe.Uncleanable(u)
	}
	return x
}

// measureController counts what takes the controller time.
func (b *Broker) measureController() controller.Measure {
	m := b.meter
	if m == nil {
		return controller.Measure{}
	}
	timed := func(what meter.Timed) func(time.Duration) { return func(d time.Duration) { m.Took(what, d) } }
	return controller.Measure{
		EventWaited: timed(meter.EventQueue), TurnTook: timed(meter.EventProcessing), Elected: timed(meter.LeaderElection), OrderWaited: m.OrderWaited,
	}
}

// storeEvents are the states of the connection to ZooKeeper that are counted.
var storeEvents = map[zk.State]meter.Event{
	zk.SyncConnected: meter.StoreConnected, zk.Disconnected: meter.StoreDisconnected, zk.Expired: meter.StoreExpired,
}

// ready says whether the broker serves, and if not, what it is at.
func (b *Broker) ready() error {
	if b.serving.Load() {
		return nil
	}
	return fmt.Errorf("the broker starts or stops (step: %s)", *b.stage.Load())
}

// atStage notes what a start or a stop is at.
func (b *Broker) atStage(name string) { b.stage.Store(&name) }

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
