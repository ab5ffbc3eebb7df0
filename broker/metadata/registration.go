package metadata

import (
	"maps"

	"github.com/gregor-broker/gregor/log"
)

// A broker whose session had expired is told everything when it has registered again; but nobody tells it what was deleted
// meanwhile. Topics that it is not told of then are gone. (Kafka's brokers name them until they are started again.)

// Registered takes the registration for which an update is meant, before Apply. It reports whether that is another than
// before: then Sweep is due when everything has been told.
func (c *Cache) Registered(epoch int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch <= c.mu.registration {
		return false
	}
	first := c.mu.registration == 0
	c.mu.registration = epoch
	if first {
		return false
	}
	c.mu.unnamed = map[log.TopicID]bool{}
	for id := range c.image.Load().byID {
		c.mu.unnamed[id] = true
	}
	return true
}

// Sweep drops the topics that no update has named since the registration with this epoch, and returns their names. A later
// registration has a Sweep of its own.
func (c *Cache) Sweep(epoch int64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.mu.registration || len(c.mu.unnamed) == 0 {
		return nil
	}
	next := *c.image.Load()
	next.topics, next.byID = maps.Clone(next.topics), maps.Clone(next.byID)
	next.Changes++
	var gone []string
	for id := range c.mu.unnamed {
		if t := next.byID[id]; t != nil {
			gone = append(gone, t.Name)
			delete(next.topics, t.Name)
			delete(next.byID, id)
		}
	}
	c.mu.unnamed = nil
	c.publish(&next)
	return gone
}

// publish shows an image. The caller holds mu.
func (c *Cache) publish(next *Image) {
	c.image.Store(next)
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}
