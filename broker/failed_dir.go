package broker

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
)

var errNoDirectory = errors.New("no log directory is left that can be written")

// dirFailed returns what a broker of a cluster does when a log directory can no longer be written: it tells the
// controller, which has others lead what lies there, and ends when it was the last one. A broker that is alone goes on
// when there is room again; it has nobody to hand over to.
func (b *Broker) dirFailed() func(dir string, left int) {
	if b.config.Embedded() {
		return nil
	}
	return func(dir string, left int) {
		b.logger.Error("a log directory failed; its replicas are offline", zap.String("dir", dir), zap.Int("left", left))
		if left == 0 {
			select {
			case b.failed <- errNoDirectory:
			default:
			}
			return
		}
		b.background.Go(b.tellOfFailedDir)
	}
}

func (b *Broker) tellOfFailedDir() {
	ctx, cancel := context.WithTimeout(b.running, b.peerTimeout())
	defer cancel()
	event := store.Create(znode.LogDirEventPrefix, znode.EncodeLogDirEvent(b.services.BrokerID), store.Sequential)
	if _, err := b.store.Commit(ctx, event); err != nil {
		b.logger.Error("the controller was not told of a failed log directory", zap.Error(err))
	}
}
