package api

import (
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// IncrementalAlterConfigs changes single keys of the configuration of a topic, of this broker, or of all brokers
// (KIP-339), and the levels of this broker's loggers (KIP-412).
// Errors per resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, INVALID_REQUEST.
var incrementalAlterConfigs = Entry{
	Key: kmsg.IncrementalAlterConfigs, ZooKeeper: v(0, 1), Kafka4: v(0, 1),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationAlterConfigs), Cost: 8, Runs: onHandler,
	Serve: serveIncrementalAlterConfigs,
}

func serveIncrementalAlterConfigs(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.IncrementalAlterConfigsRequest)
	resources, changes := make([]resource, len(r.Resources)), make([][]config.Change, len(r.Resources))
	for i, res := range r.Resources {
		resources[i] = resource{res.ResourceType, res.ResourceName}
		for _, k := range res.Configs {
			changes[i] = append(changes[i], config.Change{Name: k.Name, Op: config.Op(k.Op), Value: k.Value})
		}
	}
	check := func(i int) error {
		switch resources[i].kind {
		case kmsg.ConfigResourceTypeTopic:
			return config.CheckTopicChanges(s.Config.Now(), changes[i])
		case kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
			return config.CheckNoLists(changes[i])
		}
		return nil
	}
	change := func(i int) change {
		changes := changes[i]
		return func(old map[string]string) (map[string]string, error) {
			switch resources[i].kind {
			case kmsg.ConfigResourceTypeBroker:
				return config.AlterBroker(s.Config.Now(), resources[i].name != "", old, changes)
			case kmsg.ConfigResourceTypeClientMetrics:
				return config.AlterClientMetrics(s.Config.Now(), old, changes)
			case kmsg.ConfigResourceTypeGroupConfig:
				return config.AlterGroup(s.Config.Now(), old, changes)
			case kmsg.ConfigResourceTypeBrokerLogger:
				return s.loggerLevels(changes)
			}
			return config.AlterTopic(s.Config.Now(), old, changes)
		}
	}
	s.alterResources(resources, r.ValidateOnly, check, change, func(results []error) {
		response := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for i, err := range results {
			answer := kmsg.NewIncrementalAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = resources[i].kind, resources[i].name
			answer.ErrorCode, answer.ErrorMessage = c.Code(err), errcode.Message(err)
			response.Resources = append(response.Resources, answer)
		}
		c.Reply(response)
	})
}
