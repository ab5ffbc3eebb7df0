package broker

import (
	"context"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/clock"
	"go.uber.org/zap"
)

const (
	// metadataLook is after how long a broker that waits for the controller says so, and looks again which topics there are.
	metadataLook = time.Second
	// metadataPatience is how long it waits for topics that the controller says nothing of: their nodes may be unreadable.
	metadataPatience = 30 * time.Second
	// metadataSaid is how often a broker says that it waits.
	metadataSaid = 10 * time.Second
)

// awaitMetadata waits until the controller has told this broker of the cluster, itself and every partition in it, and only then
// lets clients in: a new controller tells of brokers before it tells of partitions, and of some partitions before others. To
// answer «that does not exist» meanwhile makes producers give their records up.
func (b *Broker) awaitMetadata(ctx context.Context) error {
	began := b.clock.Monotonic()
	whole := map[string]int{}
	said := clock.Seldom{}
	for {
		missing, err := b.missingMetadata(ctx, whole)
		switch known := b.services.Metadata.Image().Broker(b.services.BrokerID) != nil; {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && known && len(missing) == 0:
			b.services.ServeClients()
			return nil
		case known && b.clock.Monotonic()-began > metadataPatience:
			b.logger.Warn("serving, although the controller says nothing of some topics", zap.Strings("topics", missing), zap.Error(err))
			b.services.ServeClients()
			return nil
		}
		if _, due := said.Due(b.clock, metadataSaid); due {
			b.logger.Info("waiting for the controller to tell this broker of the cluster; it connects to the address that this broker advertises",
				zap.String("advertised", b.addressForBrokers()), zap.Int("missing_topics", len(missing)))
		}
	}
}

// addressForBrokers is where the others are told to find this broker.
func (b *Broker) addressForBrokers() string {
	for _, e := range b.registration().Endpoints {
		if e.Listener == b.config.InterBrokerListener() {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
	return ""
}

// missingMetadata waits for a while until the metadata has this broker and every partition; it returns the topics that it does not
// know whole then, and leaves the others in whole, with how many partitions they have: their nodes need not be read again.
func (b *Broker) missingMetadata(ctx context.Context, whole map[string]int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataLook)
	defer cancel()
	topics, err := controller.TopicPartitions(ctx, b.store, whole)
	if err != nil {
		<-ctx.Done() // not to ask in a tight circle
		return nil, err
	}
	var missing []string
	err = b.services.Metadata.Await(ctx, func(i *metadata.Image) bool {
		missing = missing[:0]
		for name, partitions := range topics {
			t := i.Topic(name)
			for p := range int32(partitions) {
				if t.Partition(p) == nil {
					missing = append(missing, name)
					break
				}
			}
		}
		return len(missing) == 0 && i.Broker(b.services.BrokerID) != nil
	})
	clear(whole)
	maps.Copy(whole, topics)
	for _, name := range missing {
		delete(whole, name)
	}
	return missing, err
}
