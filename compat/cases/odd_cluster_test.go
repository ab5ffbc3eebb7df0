package cases

import (
	"crypto/md5"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// cluster asks about the cluster as a whole.
func (o *odd) cluster() {
	o.each(versions{0, 1, 0, 2}, func(version int16) {
		for _, endpoint := range []int8{1, 2, 0, -1, 7} {
			r := kmsg.NewPtrDescribeClusterRequest()
			r.EndpointType, r.IncludeClusterAuthorizedOperations = endpoint, endpoint == 1
			if endpoint != 2 { // which a controller of 4.4 answers
				o.ask(fmt.Sprint("endpoint ", endpoint), version, r)
			}
		}
	})
	o.features()
	o.paged()
	o.secrets()
	if o.s.Kind != harness.Kafka39 {
		o.telemetry()
	}
}

// features raises and lowers features, never really.
func (o *odd) features() {
	o.each(versions{0, 1, 0, 2}, func(version int16) {
		update := func(what, name string, level int16, down bool, kind int8) {
			of := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			of.Feature, of.MaxVersionLevel, of.AllowDowngrade, of.UpgradeType = name, level, down, kind
			r := kmsg.NewPtrUpdateFeaturesRequest()
			r.TimeoutMillis, r.ValidateOnly = 10_000, true
			r.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{of}
			o.ask(what, version, r)
		}
		if version >= 1 {
			for _, kind := range []int8{0, 1, 2, 3, 7, -1} {
				for _, level := range []int16{-1, 0, 1, 2, 99} {
					update(fmt.Sprintf("group.version to %d, type %d", level, kind), "group.version", level, false, kind)
				}
				update(fmt.Sprintf("no feature, type %d", kind), "no.such.feature", 1, false, kind)
				update(fmt.Sprintf("no feature off, type %d", kind), "no.such.feature", 0, false, kind)
				update(fmt.Sprintf("no name, type %d", kind), "", 1, false, kind)
			}
			twice := kmsg.NewPtrUpdateFeaturesRequest()
			twice.TimeoutMillis, twice.ValidateOnly = 10_000, true
			of := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			of.Feature, of.MaxVersionLevel, of.UpgradeType = "group.version", 1, 1
			twice.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{of, of}
			o.ask("a feature twice", version, twice)
		}
		r := kmsg.NewPtrUpdateFeaturesRequest()
		r.TimeoutMillis, r.ValidateOnly = 10_000, true
		o.ask("nothing", version, r)
	})
}

// paged describes topics a page at a time.
func (o *odd) paged() {
	if o.s.Kind == harness.Kafka39 {
		return
	}
	page := func(what string, limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) {
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		r.ResponsePartitionLimit, r.Cursor = limit, cursor
		for _, name := range names {
			r.Topics = append(r.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		o.ask(what, 0, r)
	}
	at := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
	}
	other := o.topic + "-other"
	harness.CreateTopic(o.t, o.s.Broker, other, 3)
	for _, limit := range []int32{-1, 0, 1, 2, 3, 5, 2000, 2_000_000} {
		page(fmt.Sprint("limit ", limit), limit, nil, o.topic, other)
	}
	for _, cursor := range []*kmsg.DescribeTopicPartitionsRequestCursor{
		at(o.topic, 0), at(o.topic, 1), at(o.topic, 2), at(o.topic, 99), at(o.topic, -1), at(other, 1), at(o.topic+"-missing", 0), at(o.topic+"-missing", 1), at("", 0), at("a/b", 0), at(o.topic+"-zzz", 0),
	} {
		for _, limit := range []int32{1, 2000} {
			page(fmt.Sprintf("from %q %d, limit %d", cursor.Topic, cursor.Partition, limit), limit, cursor, o.topic, other)
			page(fmt.Sprintf("from %q %d, limit %d, with a missing one", cursor.Topic, cursor.Partition, limit), limit, cursor, o.topic, other, o.topic+"-missing")
		}
	}
	page("a topic twice", 2000, nil, o.topic, o.topic)
	page("topics that cannot be", 2000, nil, "a/b", "", "..", o.topic+"-missing")
	page("a missing topic, limit 1", 1, nil, o.topic+"-missing", o.topic)
}

// secrets asks for credentials that there are not.
func (o *odd) secrets() {
	for _, users := range [][]string{{o.topic}, {o.topic, o.topic}, {""}, {"", ""}, {}} {
		r := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		r.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{}
		for _, user := range users {
			r.Users = append(r.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: user})
		}
		o.ask(fmt.Sprintf("%q", users), 0, r)
	}
	o.ask("all", 0, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
}

// telemetry asks for subscriptions and pushes without one.
func (o *odd) telemetry() {
	push := func(what string, id [16]byte, subscription int32, codec int8, ends bool, metrics string) {
		r := kmsg.NewPtrPushTelemetryRequest()
		r.ClientInstanceID, r.SubscriptionID, r.CompressionType, r.Terminating, r.Metrics = id, subscription, codec, ends, []byte(metrics)
		o.ask(what, 0, r)
	}
	mine := [16]byte(md5.Sum([]byte(o.topic)))
	push("no id", [16]byte{}, 5, 0, false, "")
	push("a reserved id", [16]byte{15: 1}, 5, 0, false, "")
	push("no subscription", mine, 5, 0, false, "")
	push("a codec that there is not", mine, 5, 9, false, "")
	get := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	o.ask("a new client", 0, get)
	mine[0]++
	get.ClientInstanceID = mine
	o.ask("a client with an id", 0, get)
	o.ask("again at once", 0, get)
	push("a wrong subscription", mine, 5, 0, false, "x")
}
