package api

import (
	"strconv"

	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of config entities, as the metadata store names them.
const (
	kindTopics        = "topics"
	kindBrokers       = "brokers"
	kindUsers         = "users"
	kindClients       = "clients"
	kindIPs           = "ips"
	kindGroups        = "groups"
	kindClientMetrics = "client-metrics"
)

var (
	errNoSuchTopic   = errcode.New(kerr.UnknownTopicOrPartition, "the topic does not exist")
	errDefaultTopic  = errcode.New(kerr.InvalidRequest, "Default topic resources are not allowed.")
	errOtherResource = errcode.New(kerr.InvalidRequest, "this broker has no configuration of this type of resource")
	errOnlyExtended  = errcode.New(kerr.InvalidRequest, "On ZooKeeper groups and client metrics have configurations with gregor.extensions only.")
	errResourceTwice = errcode.New(kerr.InvalidRequest, "the resource is named more than once")
)

// resource is one resource of an alter request. The protocol has two request types with the same meaning here.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// change computes a resource's new configuration from its old one.
type change func(old map[string]string) (map[string]string, error)

// alterResources answers for each resource once: named twice it is refused, otherwise the controller writes what change
// returns; what it returns for loggers is their levels. check, if not nil, says what is wrong with the request whatever the
// configuration is, which comes before the question whether there is such a thing. done gets the errors in the order of resources.
func (s *Services) alterResources(resources []resource, validateOnly bool, check func(i int) error, change func(i int) change, done func([]error)) {
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
		if check != nil && (s.Embedded || r.kind == kmsg.ConfigResourceTypeTopic && r.name != "") {
			if err := check(i); err != nil {
				gather.put(i, err)
				continue
			}
		}
		s.alterResource(r, validateOnly, change(i), func(err error) { gather.put(i, err) })
	}
}

func (s *Services) alterResource(r resource, validateOnly bool, change change, done func(error)) {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := s.checkTopic(r.name); err != nil {
			done(err)
			return
		}
		s.Controller.AlterConfigs(kindTopics, r.name, change, validateOnly, done)
	case kmsg.ConfigResourceTypeBroker:
		name, err := s.brokerEntity(r.name)
		if err != nil {
			done(err)
			return
		}
		s.Controller.AlterConfigs(kindBrokers, name, change, validateOnly, done)
	case kmsg.ConfigResourceTypeClientMetrics:
		if err := s.subscriptionNamed(r.name); err != nil {
			done(err)
			return
		}
		s.Controller.AlterConfigs(kindClientMetrics, r.name, change, validateOnly, done)
	case kmsg.ConfigResourceTypeGroupConfig:
		if err := s.checkGroup(r.name); err != nil {
			done(err)
			return
		}
		s.Controller.AlterConfigs(kindGroups, r.name, change, validateOnly, done)
	case kmsg.ConfigResourceTypeBrokerLogger:
		done(s.alterLoggers(r.name, validateOnly, change))
	default:
		done(errOtherResource)
	}
}

// checkTopic says why there is no topic to alter. 4.4 looks at the name.
func (s *Services) checkTopic(name string) error {
	switch {
	case name == "":
		return errDefaultTopic
	case s.Metadata.Image().Topic(name) != nil:
		return nil
	case s.Embedded:
		if err := controller.ValidTopicName(name); err != nil {
			return err
		}
	}
	return errNoSuchTopic
}

// defaultEntity is the metadata store's name for all brokers.
const defaultEntity = controller.Default

// brokerEntity is the metadata store's name for a broker resource: this broker's id, or, for no name, all brokers. Another
// broker's configuration is asked of that one.
func (s *Services) brokerEntity(name string) (string, error) {
	if name == "" {
		return defaultEntity, nil
	}
	return name, s.ownID(name)
}

// subscriptionNamed returns an error unless this can be the name of a subscription to clients' metrics.
func (s *Services) subscriptionNamed(name string) error {
	switch {
	case !s.newConfigs():
		return errOnlyExtended
	case name == "":
		return errcode.New(kerr.InvalidRequest, "Subscription name can't be empty")
	}
	return nil
}

// ownID returns an error unless name is this broker's id.
func (s *Services) ownID(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return errcode.Newf(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", name)
	case int32(id) != s.BrokerID:
		return errcode.Newf(kerr.InvalidRequest, "Unexpected broker id, expected %d, but received %s", s.BrokerID, name)
	}
	return nil
}

// newConfigs says whether there are configurations of kinds that a 3.9 broker on ZooKeeper does not know.
func (s *Services) newConfigs() bool { return s.Embedded || s.extended() }

// checkGroup says whether a group may have a configuration.
func (s *Services) checkGroup(name string) error {
	switch {
	case !s.newConfigs():
		return errOnlyExtended
	case name == "":
		return errcode.New(kerr.InvalidRequest, "Default group resources are not allowed.")
	}
	return nil
}
