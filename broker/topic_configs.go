package broker

import (
	"sync"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// topicConfigs knows each topic's configuration: it validates and describes it for the controller, follows its changes
// (controller.Observer) and says when one has changed. Safe for concurrent use.
type topicConfigs struct {
	snapshot *config.Snapshot
	logger   *zap.Logger
	defaults topicConfig
	changed  func(topic string) // set before the controller starts

	mu struct {
		sync.RWMutex
		topics map[string]topicConfig // those with overrides
	}
}

// topicConfig is a topic's effective configuration, as far as it is needed often.
type topicConfig struct {
	log    *log.Config
	minISR int
}

func newTopicConfigs(s *config.Snapshot, logger *zap.Logger) *topicConfigs {
	c := &topicConfigs{snapshot: s, logger: logger}
	c.defaults = c.effective(nil)
	c.mu.topics = map[string]topicConfig{}
	return c
}

func (c *topicConfigs) effective(overrides map[string]string) topicConfig {
	return topicConfig{log: config.TopicLog(c.snapshot, overrides), minISR: config.TopicMinISR(c.snapshot, overrides)}
}

func (c *topicConfigs) of(topic string) topicConfig {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if own, ok := c.mu.topics[topic]; ok {
		return own
	}
	return c.defaults
}

// ConfigChanged takes a topic's new overrides over.
func (c *topicConfigs) ConfigChanged(kind, name string, values map[string]string) {
	if kind != "topics" {
		if len(values) > 0 {
			c.logger.Warn("configuration of this kind is stored but not applied yet",
				zap.String("kind", kind), zap.String("name", name))
		}
		return
	}
	now := c.defaults
	if len(values) > 0 {
		now = c.effective(values)
	}
	c.mu.Lock()
	if len(values) > 0 {
		c.mu.topics[name] = now
	} else {
		delete(c.mu.topics, name)
	}
	c.mu.Unlock()
	c.changed(name)
}

// ControllerChanged has no effect: who the controller is stands in the image.
func (c *topicConfigs) ControllerChanged(int32) {}

// Validate returns an INVALID_CONFIG that says what is wrong with a topic's overrides.
func (c *topicConfigs) Validate(values map[string]string) error {
	return config.ValidateTopic(c.snapshot, values)
}

// Describe returns a topic's effective configuration as CreateTopics tells it (KIP-525).
func (c *topicConfigs) Describe(values map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	rows := config.DescribeTopic(c.snapshot, values, nil)
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
	return config.TopicUncleanElection(c.snapshot, values)
}
