package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// stopStage is a step of stopping. After its deadline the next begins.
type stopStage struct {
	name     string
	deadline time.Duration
	always   bool // also done when the stop is hurried
	run      func(*Broker, context.Context) error
}

// stopStages take a broker down, in this order. Coordinators and the controller write to logs, so they end before these
// are closed; the store outlives the controller, which takes back the broker's registration.
var stopStages = []stopStage{
	{"leaderships handed over", 2 * time.Minute, false, (*Broker).handOver},
	{"network drained", 10 * time.Second, false, (*Broker).drainNetwork},
	{"questions about transactions ended", 10 * time.Second, true, (*Broker).stopJoiner},
	{"coordinators unloaded", 10 * time.Second, false, (*Broker).stopCoordinators},
	{"controller stopped", 10 * time.Second, true, (*Broker).stopController},
	{"HTTP ended", 10 * time.Second, true, (*Broker).hideItself},
	{"network closed", 10 * time.Second, true, (*Broker).closeNetwork},
	{"errands ended", 10 * time.Second, true, (*Broker).stopBackground},
	{"connections to brokers closed", 10 * time.Second, true, (*Broker).closePeers},
	{"replicas stopped", 10 * time.Second, true, (*Broker).stopReplicas},
	{"cleaner stopped", 10 * time.Second, true, (*Broker).stopCleaner},
	{"logs closed", time.Minute, true, (*Broker).closeLogs},
	{"metadata store closed", 10 * time.Second, true, (*Broker).closeStore},
}

// Stop takes the broker down. When hurry is closed, what only serves politeness is skipped. It may be called on a
// broker whose start failed half way.
func (b *Broker) Stop(hurry <-chan struct{}) error {
	started := b.clock.Monotonic()
	b.serving.Store(false)
	var failures []error
	for _, s := range stopStages {
		b.atStage(s.name)
		if err := b.runStage(s, hurry); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	err := errors.Join(failures...)
	b.logger.Info("stopped", zap.Duration("dur", b.clock.Monotonic()-started), zap.Error(err))
	return err
}

func (b *Broker) runStage(s stopStage, hurry <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.deadline)
	defer cancel()
	if !s.always {
		stop := cancelOn(ctx, hurry, cancel)
		defer stop()
	}
	began := b.clock.Monotonic()
	err := s.run(b, ctx)
	b.logger.Debug(s.name, zap.Duration("dur", b.clock.Monotonic()-began), zap.Error(err))
	return err
}

// cancelOn cancels when hurry closes; the returned function ends the watch and waits for that.
func cancelOn(ctx context.Context, hurry <-chan struct{}, cancel context.CancelFunc) func() {
	watching, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-hurry:
			cancel()
		case <-watching:
		case <-ctx.Done():
		}
	}()
	return func() {
		close(watching)
		<-ended
	}
}

func (b *Broker) drainNetwork(ctx context.Context) error {
	if b.network == nil {
		return nil
	}
	b.services.TurnAway()
	return ignoreDone(ctx, b.network.Drain(ctx))
}

func (b *Broker) stopJoiner(context.Context) error {
	if b.joiner != nil {
		b.joiner.Close()
	}
	return nil
}

func (b *Broker) stopCoordinators(ctx context.Context) error {
	if b.services == nil || b.services.Groups == nil {
		return nil
	}
	if b.services.OldOffsets != nil {
		b.services.OldOffsets.Close()
	}
	return ignoreDone(ctx, errors.Join(b.services.Groups.Close(ctx), b.services.Transactions.Close(ctx)))
}

// ignoreDone forgives what was cut short because a client was slow or the stop is hurried: nothing is lost by it.
func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (b *Broker) stopController(ctx context.Context) error {
	if b.services == nil || b.services.Controller == nil {
		return nil
	}
	return b.services.Controller.Stop(ctx)
}

func (b *Broker) closeNetwork(context.Context) error {
	if b.network == nil {
		return nil
	}
	return b.network.Close()
}

func (b *Broker) closePeers(context.Context) error {
	if b.peers != nil {
		b.peers.Close()
	}
	return nil
}

func (b *Broker) stopReplicas(context.Context) error {
	if b.services == nil || b.services.Replicas == nil {
		return nil
	}
	b.services.Replicas.Close()
	return nil
}

func (b *Broker) stopCleaner(context.Context) error {
	c := b.cleaner.Load()
	if c == nil {
		return nil
	}
	return c.Close()
}

func (b *Broker) closeLogs(ctx context.Context) error {
	if b.services == nil {
		return nil
	}
	return b.services.Logs.Close(ctx)
}

func (b *Broker) closeStore(context.Context) error {
	if b.store == nil {
		return nil
	}
	return b.store.Close()
}
