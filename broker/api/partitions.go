package api

import (
	"errors"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/errcode"
	"go.uber.org/zap"
)

// partitionKey is how a request names a partition: by name, by id, or by both.
type partitionKey struct {
	topic     string
	id        log.TopicID
	partition int32
}

// double says of a place in a request whether the same partition stands before and after it.
type double struct{ before, again bool }

// pairwise is how many partitions are compared each with each; more go into a map.
const pairwise = 24

// duplicates finds partitions that a request names more than once among its n; nil if there are none.
func duplicates(n int, key func(int) partitionKey) []double {
	var found []double
	pair := func(i, j int) {
		if found == nil {
			found = make([]double, n)
		}
		found[i].again, found[j].before = true, true
	}
	if n <= pairwise {
		for j := 1; j < n; j++ {
			k := key(j)
			for i := range j {
				if key(i) == k {
					pair(i, j)
				}
			}
		}
		return found
	}
	seen := make(map[partitionKey]int, n)
	for j := range n {
		k := key(j)
		if i, ok := seen[k]; ok {
			pair(i, j)
		}
		seen[k] = j
	}
	return found
}

// leader is where a client should go instead (KIP-951).
type leader struct {
	id, epoch int32 // -1 and -1 when unknown
	reachable bool  // the rest holds
	metadata.Endpoint
	rack *string
}

// currentLeader tells who leads a partition now, as the client of a call reaches it.
func (s *Services) currentLeader(c *Call, topic string, partition int32) leader {
	image := s.Metadata.Image()
	p := image.Partition(topic, partition)
	if p == nil {
		return leader{id: -1, epoch: -1}
	}
	l := leader{id: p.Leader, epoch: p.LeaderEpoch}
	if b := image.Broker(p.Leader); b != nil {
		l.rack = b.Rack
		l.Endpoint, l.reachable = s.Endpoint(b, c.Listener(), c.Local())
	}
	return l
}

// logUnexpected notes an error that has no code of its own: the client only learns that something went wrong here. Where that is Kafka's
// answer to what the client did wrong, there is nothing to note.
func (s *Services) logUnexpected(c *Call, api, topic string, partition int32, err error) {
	var expected *errcode.Error
	if errors.As(err, &expected) {
		return
	}
	s.Logger.Error("a request failed unexpectedly", zap.String("api", api), zap.String("topic", topic),
		zap.Int32("partition", partition), zap.String("client_id", c.ClientID), zap.Stringer("conn", c.Remote()), zap.Error(err))
}
