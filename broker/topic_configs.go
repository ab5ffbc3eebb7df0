package broker

import (
	"sync"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicConfigs knows each topic's configuration: it validates and describes it for the controller, follows its changes
// and says when one has changed. Safe for concurrent use.
type topicConfigs struct {
	live       *config.Live
	throttles  *throttles
	broker     int32
	changed    func(topic string) // set before the controller starts
	changedAll func()             // likewise

	mu struct {
		sync.RWMutex
		defaults  topicConfig
		topics    map[string]topicConfig // those with overrides
		overrides map[string]map[string]string
	}
}

// topicConfig is a topic's effective configuration, as far as it is needed often.
type topicConfig struct {
	log    *log.Config
	minISR int
}

func newTopicConfigs(live *config.Live, throttles *throttles, broker int32) *topicConfigs {
	c := &topicConfigs{live: live, throttles: throttles, broker: broker}
	c.mu.defaults = effective(live.Now(), nil)
	c.mu.topics, c.mu.overrides = map[string]topicConfig{}, map[string]map[string]string{}
	return c
}

func effective(s *config.Snapshot, overrides map[string]string) topicConfig {
	return topicConfig{log: config.TopicLog(s, overrides), minISR: config.TopicMinISR(s, overrides)}
}

func (c *topicConfigs) of(topic string) topicConfig {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if own, ok := c.mu.topics[topic]; ok {
		return own
	}
	return c.mu.defaults
}

// topicChanged takes a topic's new overrides over.
func (c *topicConfigs) topicChanged(name string, values map[string]string) {
	c.mu.Lock()
	if len(values) > 0 {
		c.mu.topics[name], c.mu.overrides[name] = effective(c.live.Now(), values), values
	} else {
		delete(c.mu.topics, name)
		delete(c.mu.overrides, name)
	}
	c.mu.Unlock()
	c.throttles.topic(name, c.live.Now(), values, c.broker)
	c.changed(name)
}

// defaultsChanged takes over what the broker's configuration, which has changed, says of topics.
func (c *topicConfigs) defaultsChanged(s *config.Snapshot) {
	c.mu.Lock()
	c.mu.defaults = effective(s, nil)
	for name, values := range c.mu.overrides {
		c.mu.topics[name] = effective(s, values)
	}
	c.mu.Unlock()
	c.changedAll()
}

// Validate returns an INVALID_CONFIG that says what is wrong with a topic's overrides.
func (c *topicConfigs) Validate(values map[string]string) error {
	return config.ValidateTopic(c.live.Now(), values)
}

// Describe returns a topic's effective configuration as CreateTopics tells it (KIP-525).
func (c *topicConfigs) Describe(values map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	rows := config.DescribeTopic(c.live.Now(), values, nil)
	described := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(rows))
	for _, row := range rows {
		described = append(described, kmsg.CreateTopicsResponseTopicConfig{
			Name: row.Name, Value: row.Value, ReadOnly: row.ReadOnly, Source: int8(row.Source), IsSensitive: row.Sensitive,
		})
	}
	return described
}

// UncleanElection says whether a topic with these overrides may elect a leader outside the ISR.
func (c *topicConfigs) UncleanElection(values map[string]string) bool {
	return config.TopicUncleanElection(c.live.Now(), values)
}
