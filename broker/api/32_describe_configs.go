package api

import (
	"strconv"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeConfigs tells the configuration of topics, of this broker and of its loggers, with where each value comes from.
// v0 IsDefault, which 3.9 never sets · v1 source and synonyms · v3 type and documentation · v4 flexible.
// Errors per resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST. After ConfigHelper.
var describeConfigs = Entry{
	Key: kmsg.DescribeConfigs, ZooKeeper: v(0, 4), Kafka4: v(1, 4),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDescribeConfigs), Cost: 32, Runs: onHandler,
	Serve: serveDescribeConfigs,
}

func serveDescribeConfigs(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DescribeConfigsRequest)
	topics := s.topicsNamed(r.Resources)
	if len(topics) == 0 {
		s.replyDescribed(c, r)
		return
	}
	// What a topic was created with, a broker without a replica of it has not read.
	s.Controller.LearnTopics(topics, func() { s.Pool(func() { s.replyDescribed(c, r) }) })
}

// topicsNamed are the topics among the resources that another broker's controller may have created.
func (s *Services) topicsNamed(resources []kmsg.DescribeConfigsRequestResource) (topics []kmsg.LeaderAndISRRequestTopicState) {
	if s.Embedded {
		return nil
	}
	image := s.Metadata.Image()
	for _, r := range resources {
		if r.ResourceType != kmsg.ConfigResourceTypeTopic {
			continue
		}
		if t := image.Topic(r.ResourceName); t != nil {
			topics = append(topics, kmsg.LeaderAndISRRequestTopicState{Topic: r.ResourceName, TopicID: t.ID})
		}
	}
	return topics
}

func (s *Services) replyDescribed(c *Call, r *kmsg.DescribeConfigsRequest) {
	response := kmsg.NewPtrDescribeConfigsResponse()
	for _, asked := range r.Resources {
		answer := kmsg.NewDescribeConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = asked.ResourceType, asked.ResourceName
		rows, err := s.describe(asked)
		answer.ErrorCode, answer.ErrorMessage = c.Code(err), errcode.Message(err)
		for i := range rows {
			answer.Configs = append(answer.Configs, describedRow(&rows[i], r))
		}
		response.Resources = append(response.Resources, answer)
	}
	c.Reply(response)
}

func (s *Services) describe(r kmsg.DescribeConfigsRequestResource) ([]config.Row, error) {
	if len(r.ConfigNames) == 0 {
		r.ConfigNames = nil // none named is all, as null is
	}
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := controller.ValidTopicName(r.ResourceName); err != nil {
			return nil, err
		}
		if s.Metadata.Image().Topic(r.ResourceName) == nil {
			return nil, errNoSuchTopic
		}
		return config.DescribeTopic(s.Config.Now(), s.Controller.TopicConfigs(r.ResourceName), r.ConfigNames), nil
	case kmsg.ConfigResourceTypeBroker:
		return s.describeBroker(r)
	case kmsg.ConfigResourceTypeBrokerLogger:
		return s.describeLoggers(r)
	case kmsg.ConfigResourceTypeClientMetrics:
		if err := s.subscriptionNamed(r.ResourceName); err != nil {
			return nil, err
		}
		return config.DescribeClientMetrics(s.Config.Now(), s.Controller.Configs(kindClientMetrics, r.ResourceName), r.ConfigNames), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if err := s.checkGroup(r.ResourceName); err != nil {
			return nil, err
		}
		return config.DescribeGroup(s.Config.Now(), s.Controller.Configs(kindGroups, r.ResourceName), r.ConfigNames), nil
	}
	return nil, errOtherResource
}

// describeBroker describes this broker, or, without a name, what is stored for all brokers.
func (s *Services) describeBroker(r kmsg.DescribeConfigsRequestResource) ([]config.Row, error) {
	if r.ResourceName == "" {
		return config.DescribeDefaults(s.Config.Now(), r.ConfigNames), nil
	}
	id, err := strconv.ParseInt(r.ResourceName, 10, 32)
	if err != nil {
		return nil, errcode.Newf(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", r.ResourceName)
	}
	if int32(id) != s.BrokerID {
		return nil, errcode.Newf(kerr.InvalidRequest,
			"Unexpected broker id, expected %d or empty string, but received %s", s.BrokerID, r.ResourceName)
	}
	return config.DescribeBroker(s.Config.Now(), r.ConfigNames), nil
}

func describedRow(row *config.Row, r *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	answer := kmsg.NewDescribeConfigsResponseResourceConfig()
	answer.Name, answer.Value = row.Name, row.Value
	answer.ReadOnly, answer.IsSensitive = row.ReadOnly, row.Sensitive
	answer.Source = kmsg.ConfigSource(row.Source)
	answer.ConfigType = kmsg.ConfigType(row.Type)
	if r.IncludeDocumentation || row.Source == config.SourceBrokerLogger { // Kafka's loggers have none, and say so unasked
		answer.Documentation = &row.Doc
	}
	if r.IncludeSynonyms {
		for _, synonym := range row.Synonyms {
			answer.ConfigSynonyms = append(answer.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
				Name: synonym.Name, Value: synonym.Value, Source: kmsg.ConfigSource(synonym.Source),
			})
		}
	}
	return answer
}
