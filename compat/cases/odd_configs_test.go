package cases

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Types of resources in requests about configurations.
const (
	ofTopic   = kmsg.ConfigResourceTypeTopic
	ofBroker  = kmsg.ConfigResourceTypeBroker
	ofLogger  = kmsg.ConfigResourceTypeBrokerLogger
	ofMetrics = kmsg.ConfigResourceTypeClientMetrics
	ofGroup   = kmsg.ConfigResourceTypeGroupConfig
)

// ops are the operations of IncrementalAlterConfigs, and one that there is not.
var ops = []kmsg.IncrementalAlterConfigOp{
	kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend,
	kmsg.IncrementalAlterConfigOpSubtract, 9,
}

// step is one operation on a key; "-" for its value is null.
type step struct {
	op         kmsg.IncrementalAlterConfigOp
	key, value string
}

func orNull(s string) *string {
	if s == "-" {
		return nil
	}
	return &s
}

func (s step) String() string { return fmt.Sprintf("%d %s=%s", s.op, s.key, s.value) }

// incrementally alters one resource.
func (o *odd) incrementally(validate bool, kind kmsg.ConfigResourceType, name string, steps ...step) {
	o.t.Helper()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kind, name
	for _, s := range steps {
		of.Configs = append(of.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: s.key, Op: s.op, Value: orNull(s.value)})
	}
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.ValidateOnly, r.Resources = validate, []kmsg.IncrementalAlterConfigsRequestResource{of}
	o.ask(fmt.Sprintf("%s %s %v", kind, o.resource(kind, name), steps), 1, r)
}

// wholly replaces the configuration of one resource.
func (o *odd) wholly(validate bool, kind kmsg.ConfigResourceType, name string, pairs ...string) {
	o.t.Helper()
	of := kmsg.NewAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kind, name
	for i := 0; i < len(pairs); i += 2 {
		of.Configs = append(of.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: pairs[i], Value: orNull(pairs[i+1])})
	}
	r := kmsg.NewPtrAlterConfigsRequest()
	r.ValidateOnly, r.Resources = validate, []kmsg.AlterConfigsRequestResource{of}
	o.ask(fmt.Sprintf("%s %s %v", kind, o.resource(kind, name), pairs), 2, r)
}

// configured asks for keys of one resource, with all that can be said of them.
func (o *odd) configured(kind kmsg.ConfigResourceType, name string, keys ...string) {
	o.t.Helper()
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.IncludeSynonyms = true
	r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: keys}}
	o.ask(fmt.Sprintf("%s %s %v", kind, o.resource(kind, name), keys), 4, r)
}

// self is the name of the broker as a resource.
func (o *odd) self() string { return fmt.Sprint(o.node) }

// resource is a resource's name in a transcript: brokers have other ids elsewhere.
func (o *odd) resource(kind kmsg.ConfigResourceType, name string) string {
	if (kind == ofBroker || kind == ofLogger) && !strings.Contains(name, o.topic) {
		name = strings.ReplaceAll(name, o.self(), "SELF")
	}
	return fmt.Sprintf("%q", name)
}

// configs changes configurations of every type with every operation.
func (o *odd) configs() {
	o.operations()
	o.lists()
	o.brokers()
	o.loggers()
	o.replacements()
	o.metricsAndGroups()
	o.sameTwice()
}

// operations tries each operation with each kind of value.
func (o *odd) operations() {
	for _, op := range ops {
		for _, value := range []string{"-", "", "5", "delete"} {
			for _, key := range []string{"retention.ms", "cleanup.policy", "compression.type", "preallocate", "min.cleanable.dirty.ratio", "no.such.key", ""} {
				o.incrementally(true, ofTopic, o.topic, step{op, key, value})
			}
		}
	}
}

// lists appends and subtracts, and looks at what became of it.
func (o *odd) lists() {
	key := "cleanup.policy"
	for _, s := range []step{
		{2, key, "compact"}, {2, key, "compact"}, {2, key, "delete"}, {3, key, "delete"}, {3, key, "delete"}, {2, key, ""}, {3, key, ""},
		{3, key, "compact"}, {2, key, "delete,compact"}, {2, key, " compact "}, {3, key, "compact,delete"}, {3, key, "x"}, {2, key, "x"},
		{2, key, ","}, {0, key, "compact,compact"}, {0, key, "compact,"}, {0, key, " delete , compact "}, {0, key, ""}, {1, key, ""}, {1, key, "x"},
		{2, key, "delete"}, {1, key, "-"},
	} {
		o.altered(s)
		o.configured(ofTopic, o.topic, key)
	}
	key = "leader.replication.throttled.replicas"
	for _, s := range []step{
		{2, key, "0:1"}, {2, key, "0:1,1:1"}, {3, key, "0:1"}, {2, key, "*"}, {0, key, "*"}, {2, key, "1:1"}, {0, key, "x"}, {0, key, "0:x"}, {0, key, ""},
		{2, key, ""}, {3, key, "*"}, {1, key, "-"},
	} {
		o.altered(s)
		o.configured(ofTopic, o.topic, key)
	}
}

// altered takes a step, and waits until it is seen: every broker learns of a change a little later.
func (o *odd) altered(s step) {
	mark := fmt.Sprint(1000 + len(o.lines))
	o.incrementally(false, ofTopic, o.topic, s, step{0, "flush.messages", mark})
	if strings.Contains(o.lines[len(o.lines)-1].answer, "ErrorCode=NONE") {
		awaitSetting(o.t, o.c, o.topic, "flush.messages", setting{mark, kmsg.ConfigSourceDynamicTopicConfig})
	}
}

// brokers alters this broker, all brokers and brokers that there are not.
func (o *odd) brokers() {
	for _, name := range []string{o.self(), "", "99", "x", "-5", " " + o.self(), "+" + o.self(), "x" + o.self(), "3333333333"} {
		o.incrementally(true, ofBroker, name, step{0, "log.retention.ms", "86400000"})
		o.configured(ofBroker, name, "log.retention.ms")
		if name != "" { // 4.4 would miss a min.insync.replicas there
			o.wholly(true, ofBroker, name, "log.retention.ms", "86400000")
		}
	}
	for _, name := range []string{o.self(), ""} {
		for _, s := range []step{
			{0, "log.cleanup.policy", "compact"}, {2, "log.cleanup.policy", "compact"}, {3, "log.cleanup.policy", "delete"}, {2, "log.retention.ms", "5"},
			{0, "log.retention.ms", "x"}, {0, "log.retention.ms", ""}, {0, "log.retention.ms", "-"}, {1, "log.retention.ms", "-"},
			{0, "num.io.threads", "0"}, {0, "num.io.threads", "1000"},
			{0, "log.cleaner.threads", "100"}, {0, "message.max.bytes", "-1"}, {0, "max.connections.per.ip.overrides", "x"},
			{0, "max.connections.per.ip.overrides", "127.0.0.1:5"}, {2, "max.connections.per.ip.overrides", "127.0.0.1:5"},
			{0, "broker.id", "7"}, {0, "listener.name.x.ssl.keystore.location", "/x"},
			{0, "leader.replication.throttled.rate", "1000"}, {0, "leader.replication.throttled.rate", "-1"},
			{0, "unclean.leader.election.enable", "x"}, {0, "unclean.leader.election.enable", "true"}, {0, "max.connections", "-1"}, {0, "max.connections", "0"},
			{0, "listener.name.plaintext.max.connections", "0"}, {0, "listener.name.plaintext.max.connections", "5"}, {0, "listener.name.plaintext.max.connections", "x"},
			{0, "listener.name.plaintext.max.connection.creation.rate", "0"}, {0, "listener.name.nowhere.max.connections", "0"}, {0, "listener.name.PLAINTEXT.max.connections", "5"},
			{0, "listener.name.plaintext.no.such.key", "5"}, {0, "listener.name.plaintext.retention.ms", "5"}, {0, "max.connections.per.ip", "0"},
			{0, "max.connection.creation.rate", "0"}, {0, "log.roll.ms", "0"}, {0, "log.segment.bytes", "13"}, {0, "log.flush.interval.messages", "0"},
			{0, "compression.type", "x"}, {0, "compression.gzip.level", "0"}, {0, "producer.id.expiration.ms", "5"},
			{0, "transaction.partition.verification.enable", "false"},
			{0, "log.message.timestamp.type", "x"},
			{0, "log.retention.hours", "5"}, {0, "log.retention.minutes", "5"}, {0, "group.max.size", "5"},
			{0, "", "5"}, {9, "log.retention.ms", "5"},
		} {
			o.incrementally(true, ofBroker, name, s)
		}
	}
}

// loggers alters levels.
func (o *odd) loggers() {
	for _, name := range []string{o.self(), "", "99", "x"} {
		o.incrementally(true, ofLogger, name, step{0, "kafka.server", "DEBUG"})
		o.wholly(true, ofLogger, name, "kafka.server", "DEBUG")
	}
	for _, s := range []step{
		{0, "root", "x"}, {0, "root", "debug"}, {0, "root", "-"}, {0, "root", ""}, {1, "root", "-"}, {2, "root", "DEBUG"}, {3, "root", "DEBUG"}, {9, "root", "DEBUG"},
		{0, "no.such.logger", "DEBUG"}, {1, "no.such.logger", "-"}, {0, "", "DEBUG"}, {0, "root", "OFF"}, {0, "root", "ALL"}, {0, "root", "FATAL"}, {0, "root", "WARNING"},
	} {
		o.incrementally(true, ofLogger, o.self(), s)
	}
	o.incrementally(true, ofLogger, o.self(), step{0, "root", "INFO"}, step{0, "root", "DEBUG"})
	o.configured(ofLogger, o.self(), "root", "no.such.logger", "root")
	o.configured(ofLogger, "", "root")
	o.configured(ofLogger, "99", "root")
	o.configured(ofLogger, "x", "root")
}

// replacements replaces whole configurations.
func (o *odd) replacements() {
	for _, name := range []string{o.topic, "", "a/b", o.topic + "-missing"} {
		o.wholly(true, ofTopic, name, "retention.ms", "5")
		o.wholly(true, ofTopic, name)
		o.wholly(true, ofTopic, name, "retention.ms", "x")
	}
	for _, value := range []string{"-", "", "x"} {
		o.wholly(true, ofTopic, o.topic, "retention.ms", value)
		o.wholly(true, ofTopic, o.topic, "cleanup.policy", value)
	}
	o.wholly(true, ofTopic, o.topic, "retention.ms", "5", "retention.ms", "6")
	o.wholly(false, ofTopic, o.topic, "retention.ms", "5000", "no.such.key", "6")
	o.wholly(false, ofTopic, o.topic, "retention.ms", "5000", "cleanup.policy", "compact", "flush.messages", "1000000")
	awaitSetting(o.t, o.c, o.topic, "flush.messages", setting{"1000000", kmsg.ConfigSourceDynamicTopicConfig})
	o.configured(ofTopic, o.topic, "retention.ms", "cleanup.policy")
	o.wholly(false, ofTopic, o.topic, "flush.messages", "1000001")
	awaitSetting(o.t, o.c, o.topic, "flush.messages", setting{"1000001", kmsg.ConfigSourceDynamicTopicConfig})
	o.configured(ofTopic, o.topic, "retention.ms", "cleanup.policy")
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 5, 64} {
		o.wholly(true, kind, "x", "retention.ms", "5")
		o.incrementally(true, kind, "x", step{0, "retention.ms", "5"})
		o.configured(kind, "x", "retention.ms")
	}
}

// metricsAndGroups alters what 3.9 on ZooKeeper does not have.
func (o *odd) metricsAndGroups() {
	for _, name := range []string{"", o.topic, "a/b"} {
		for _, s := range []step{
			{0, "interval.ms", "100"}, {0, "interval.ms", "99"}, {0, "interval.ms", "3600001"}, {0, "interval.ms", ""}, {0, "interval.ms", "-"}, {1, "interval.ms", "-"},
			{0, "metrics", ""}, {0, "metrics", "a,,b"}, {2, "metrics", "a"}, {3, "metrics", "a"}, {2, "interval.ms", "5"}, {2, "match", "client_id=x"},
			{0, "match", "client_id=["}, {0, "match", "nothing"}, {0, "match", "no_such_thing=x"}, {0, "match", "client_id=a,client_id=b"}, {0, "match", ""},
			{0, "no.such.key", "5"},
		} {
			o.incrementally(true, ofMetrics, name, s)
		}
		o.wholly(true, ofMetrics, name, "interval.ms", "100")
		o.wholly(true, ofMetrics, name, "interval.ms", "5")
		o.configured(ofMetrics, name, "interval.ms", "match", "metrics", "no.such.key")
		for _, s := range []step{
			{0, "consumer.session.timeout.ms", "50000"}, {0, "consumer.session.timeout.ms", "1"}, {0, "consumer.session.timeout.ms", "1000000"},
			{0, "consumer.heartbeat.interval.ms", "5000"}, {0, "consumer.heartbeat.interval.ms", "60000"}, {0, "consumer.session.timeout.ms", ""}, {1, "consumer.session.timeout.ms", "-"},
			{2, "consumer.session.timeout.ms", "5"}, {0, "no.such.key", "5"}, {0, "share.auto.offset.reset", "x"},
		} {
			o.incrementally(true, ofGroup, name, s)
		}
		o.wholly(true, ofGroup, name, "consumer.session.timeout.ms", "50000")
		o.wholly(true, ofGroup, name, "consumer.session.timeout.ms", "5")
		o.configured(ofGroup, name, "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "no.such.key")
	}
	o.incrementally(true, ofGroup, o.topic, step{0, "consumer.session.timeout.ms", "45000"}, step{0, "consumer.heartbeat.interval.ms", "15000"})
}

// sameTwice names keys and resources more than once.
func (o *odd) sameTwice() {
	o.incrementally(true, ofTopic, o.topic, step{0, "retention.ms", "5"}, step{0, "retention.ms", "5"})
	o.incrementally(true, ofTopic, o.topic, step{0, "retention.ms", "5"}, step{1, "retention.ms", "-"})
	o.incrementally(true, ofTopic, o.topic, step{2, "cleanup.policy", "compact"}, step{3, "cleanup.policy", "delete"})
	o.incrementally(true, ofTopic, "", step{2, "cleanup.policy", "compact"}, step{3, "cleanup.policy", "delete"})
	o.incrementally(true, ofTopic, o.topic)
	o.incrementally(true, ofTopic, "")
	o.incrementally(true, ofTopic, o.topic+"-missing")
	o.incrementally(true, ofBroker, o.self(), step{0, "log.retention.ms", "86400000"}, step{1, "log.retention.ms", "-"})
	o.incrementally(true, ofBroker, "")
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = ofTopic, o.topic
	of.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: ptr("5")}}
	broker := of
	broker.ResourceType, broker.ResourceName = ofBroker, ""
	broker.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "log.retention.ms", Value: ptr("86400000")}}
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.ValidateOnly, r.Resources = true, []kmsg.IncrementalAlterConfigsRequestResource{of, broker, of}
	o.ask("a topic twice and a broker", 1, r)
	r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{broker, of, broker}
	o.ask("a broker twice and a topic", 1, r)
	r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{broker, of}
	o.ask("a broker and a topic", 0, r)
	r.Resources = nil
	o.ask("nothing", 1, r)
	whole := kmsg.NewAlterConfigsRequestResource()
	whole.ResourceType, whole.ResourceName = ofTopic, o.topic
	w := kmsg.NewPtrAlterConfigsRequest()
	w.ValidateOnly, w.Resources = true, []kmsg.AlterConfigsRequestResource{whole}
	o.ask("a topic and no keys", 0, w)
	w.Resources = nil
	o.ask("nothing", 0, w)
}

// described asks for configurations.
func (o *odd) described() {
	o.altered(step{0, "retention.ms", "5000"})
	for _, kind := range []kmsg.ConfigResourceType{ofTopic, ofBroker, ofLogger, ofMetrics, ofGroup} {
		for _, name := range []string{"", "a/b", "..", o.topic + "-missing", "99", "x"} {
			o.configured(kind, name, "no.such.key")
		}
	}
	keys := []string{"retention.ms", "segment.bytes", "segment.ms", "message.timestamp.type", "compression.type", "retention.ms", "no.such.key",
		"leader.replication.throttled.replicas", "remote.storage.enable", "preallocate", "index.interval.bytes", "message.downconversion.enable", "flush.ms", ""}
	o.each(versions{1, 4, 1, 4}, func(version int16) { // Kafka 3.9 has forgotten to say what is a default in version 0
		r := kmsg.NewPtrDescribeConfigsRequest()
		r.IncludeSynonyms = true
		topic := kmsg.DescribeConfigsRequestResource{ResourceType: ofTopic, ResourceName: o.topic, ConfigNames: keys}
		broker := kmsg.DescribeConfigsRequestResource{ResourceType: ofBroker, ResourceName: o.self(), ConfigNames: []string{
			"log.retention.ms", "log.retention.hours", "log.segment.bytes", "num.io.threads", "max.connections", "no.such.key", "auto.create.topics.enable",
			"log.cleaner.dedupe.buffer.size", "log.cleanup.policy", "quota.window.num", "log.roll.jitter.ms", "compression.gzip.level", "log.flush.interval.ms"}}
		r.Resources = []kmsg.DescribeConfigsRequestResource{topic, topic, broker}
		o.ask("a topic twice and a broker", version, r)
		r.IncludeSynonyms = false
		r.Resources = []kmsg.DescribeConfigsRequestResource{broker}
		o.ask("without synonyms", version, r)
		r.Resources = nil
		o.ask("nothing", version, r)
	})
	o.configured(ofBroker, "", "log.retention.ms")
}
