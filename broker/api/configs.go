package api

import (
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of config entities, as the metadata store names them.
const (
	kindTopics  = "topics"
	kindBrokers = "brokers"
)

var (
	errNoSuchTopic        = errcode.New(kerr.UnknownTopicOrPartition, "the topic does not exist")
	errOtherResource      = errcode.New(kerr.InvalidRequest, "this broker has no configuration of this type of resource")
	errBrokerConfigStatic = errcode.New(kerr.InvalidRequest,
		"broker configuration cannot be changed while the broker runs; change its file and restart it")
	errResourceTwice = errcode.New(kerr.InvalidRequest, "the resource is named more than once")
)

// resource is one resource of an alter request. The protocol has two request types with the same meaning here.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alterResources answers for each resource once: named twice it is refused, otherwise change computes its new
// overrides from its old ones and the controller writes them. done gets the errors in the order of resources.
func (s *Services) alterResources(resources []resource, validateOnly bool,
	change func(i int, old map[string]string) (map[string]string, error), done func([]error)) {
	counts := map[resource]int{}
	for _, r := range resources {
		counts[r]++
	}
	gather := newGather(len(resources), done)
	for i, r := range resources {
		if counts[r] > 1 {
			gather.put(i, errResourceTwice)
			continue
		}
		s.alterResource(r, validateOnly, func(old map[string]string) (map[string]string, error) { return change(i, old) },
			func(err error) { gather.put(i, err) })
	}
}

func (s *Services) alterResource(r resource, validateOnly bool,
	change func(map[string]string) (map[string]string, error), done func(error)) {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		if s.Metadata.Image().Topic(r.name) == nil {
			done(errNoSuchTopic)
			return
		}
		s.Controller.AlterConfigs(kindTopics, r.name, change, validateOnly, done)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		done(errBrokerConfigStatic)
	default:
		done(errOtherResource)
	}
}
