package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/config"
)

const controlledShutdownVersion = 3

// handOver has the controller move this broker's leaderships to others before it stops serving (controlled shutdown).
// What cannot be moved in the tries that the configuration allows is left: the others notice when it is gone.
func (b *Broker) handOver(ctx context.Context) error {
	if b.config.Embedded() || !config.ControlledShutdown.Of(b.config) || !b.registered() {
		return nil
	}
	for try := range config.ControlledShutdownTries.Of(b.config) {
		if try > 0 && !b.rest(ctx, config.ControlledShutdownPause.Of(b.config)) {
			return nil
		}
		left, err := b.askToHandOver(ctx)
		if err == nil && left == 0 {
			return nil
		}
		b.logger.Warn("not every leadership was handed over", zap.Int("left", left), zap.Error(err))
	}
	return nil
}

// registered says whether the cluster ever heard of this broker.
func (b *Broker) registered() bool {
	return b.services != nil && b.services.Controller != nil && b.services.Controller.BrokerEpoch() >= 0
}

// askToHandOver returns how many partitions this broker still leads of which there are other replicas.
func (b *Broker) askToHandOver(ctx context.Context) (left int, err error) {
	r := kmsg.NewPtrControlledShutdownRequest()
	r.Version, r.BrokerID, r.BrokerEpoch = controlledShutdownVersion, b.services.BrokerID, b.services.Controller.BrokerEpoch()
	response, err := b.askController(ctx, r)
	if err != nil {
		return 0, err
	}
	answer, ok := response.(*kmsg.ControlledShutdownResponse)
	if !ok {
		return 0, errors.New("the answer is of another kind")
	}
	return len(answer.PartitionsRemaining), kerr.ErrorForCode(answer.ErrorCode)
}
