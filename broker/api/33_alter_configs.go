package api

import (
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs replaces all of the configuration of a topic, of this broker, or of all brokers (the one without name): a
// key that is not named goes back to its default. Errors per resource: UNKNOWN_TOPIC_OR_PARTITION,
// INVALID_CONFIG, INVALID_REQUEST.
var alterConfigs = Entry{
	Key: kmsg.AlterConfigs, ZooKeeper: v(0, 2), Kafka4: v(0, 2),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationAlterConfigs), Cost: 8, Runs: onHandler,
	Serve: serveAlterConfigs,
}

func serveAlterConfigs(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.AlterConfigsRequest)
	resources := make([]resource, len(r.Resources))
	for i, res := range r.Resources {
		resources[i] = resource{res.ResourceType, res.ResourceName}
	}
	valuesOf := func(i int) []config.Change {
		values := make([]config.Change, 0, len(r.Resources[i].Configs))
		for _, k := range r.Resources[i].Configs {
			values = append(values, config.Change{Name: k.Name, Op: config.Set, Value: k.Value})
		}
		return values
	}
	check := func(i int) error { // 4.4 looks at the values of a topic before it looks for the topic, if there can be one
		if !s.Embedded || resources[i].kind != kmsg.ConfigResourceTypeTopic || controller.ValidTopicName(resources[i].name) != nil {
			return nil
		}
		_, err := config.ReplaceTopic(s.Config.Now(), valuesOf(i))
		return err
	}
	change := func(i int) change {
		values := valuesOf(i)
		return func(old map[string]string) (map[string]string, error) {
			switch resources[i].kind {
			case kmsg.ConfigResourceTypeBroker:
				return config.ReplaceBroker(s.Config.Now(), resources[i].name != "", old, values)
			case kmsg.ConfigResourceTypeClientMetrics:
				return config.ReplaceClientMetrics(s.Config.Now(), values)
			case kmsg.ConfigResourceTypeGroupConfig:
				return config.ReplaceGroup(s.Config.Now(), values)
			case kmsg.ConfigResourceTypeBrokerLogger:
				return nil, errLoggersIncremental
			}
			return config.ReplaceTopic(s.Config.Now(), values)
		}
	}
	s.alterResources(resources, r.ValidateOnly, check, change, func(results []error) {
		response := kmsg.NewPtrAlterConfigsResponse()
		for i, err := range results {
			answer := kmsg.NewAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = resources[i].kind, resources[i].name
			answer.ErrorCode, answer.ErrorMessage = c.Code(err), errcode.Message(err)
			response.Resources = append(response.Resources, answer)
		}
		c.Reply(response)
	})
}
