package broker

import (
	"errors"
	"time"

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

// failedDirPause is how long after a failure the controller is told again.
const failedDirPause = time.Second

// tellOfFailedDir goes on until the notification is written: as long as nobody knows of it nobody else leads. Two do no harm.
func (b *Broker) tellOfFailedDir() {
	event := store.Create(znode.LogDirEventPrefix, znode.EncodeLogDirEvent(b.services.BrokerID), store.Sequential)
	for {
		_, err := b.store.Commit(b.running, event)
		if err == nil || b.running.Err() != nil {
			return
		}
		b.logger.Error("the controller was not told of a failed log directory; trying again", zap.Error(err))
		if !b.rest(b.running, failedDirPause) {
			return
		}
	}
}
