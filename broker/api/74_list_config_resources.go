package api

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources names what has a configuration (KIP-1142); v0, ListClientMetricsResources of KIP-714, subscriptions to
// clients' metrics alone.
// v1 by types of resource, none is all: topics, brokers, loggers, client metrics, groups.
// Errors: UNSUPPORTED_VERSION for other types. After KafkaApis.handleListConfigResources.
var listConfigResources = Entry{
	Key: kmsg.ListConfigResources, ZooKeeper: none, Kafka4: v(0, 1),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribeConfigs), Cost: 8, Runs: onHandler,
	Serve: serveListConfigResources,
}

var listedTypes = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

func serveListConfigResources(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.ListConfigResourcesRequest)
	response := kmsg.NewPtrListConfigResourcesResponse()
	asked := listedTypes
	if r.Version == 0 {
		asked = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}
	} else if len(r.ResourceTypes) > 0 {
		asked = nil
		for _, t := range r.ResourceTypes {
			if !slices.Contains(listedTypes, kmsg.ConfigResourceType(t)) {
				response.ErrorCode = kerr.UnsupportedVersion.Code
				c.Reply(response)
				return
			}
			asked = append(asked, kmsg.ConfigResourceType(t))
		}
	}
	for _, t := range listedTypes {
		if !slices.Contains(asked, t) {
			continue
		}
		for _, name := range s.namesOf(t) {
			response.ConfigResources = append(response.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: int8(t)})
		}
	}
	c.Reply(response)
}

// namesOf are the resources of a type: all that there are of topics and brokers, those with a configuration of others.
func (s *Services) namesOf(t kmsg.ConfigResourceType) (names []string) {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		return s.Metadata.Image().TopicNames()
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		for _, b := range s.Metadata.Image().Brokers() {
			names = append(names, strconv.Itoa(int(b.ID)))
		}
		return names
	case kmsg.ConfigResourceTypeClientMetrics:
		return s.Controller.ConfigNames(kindClientMetrics)
	}
	return s.Controller.ConfigNames(kindGroups)
}
