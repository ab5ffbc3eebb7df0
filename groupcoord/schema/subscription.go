package schema

import "github.com/twmb/franz-go/pkg/kmsg"

// maxEmbedded is the newest version of the consumer protocol's formats that is known; what a newer one adds stands at the end.
// Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json, ConsumerProtocol.
const maxEmbedded = 3

// SubscribedTopics returns the topics in a subscription of the consumer protocol, the metadata that members of a group of
// protocol type "consumer" join with. Version 0 is the beginning of all versions.
func SubscribedTopics(metadata []byte) ([]string, error) {
	r := reader{src: metadata}
	if version := r.int16(); version < 0 {
		return nil, ErrMalformed
	}
	var topics []string
	for n := r.int32(); n > 0; n-- {
		topic := r.string(false)
		if r.bad || topic == nil {
			return nil, ErrMalformed
		}
		topics = append(topics, string(topic))
	}
	r.bytes(false)
	return topics, r.done()
}

// Subscription is a subscription of the consumer protocol.
type Subscription struct {
	Topics []string
	Owned  []NamedPartitions // v1+
	Rack   *string           // v3+
}

// NamedPartitions are partitions of a topic.
type NamedPartitions struct {
	Topic      string
	Partitions []int32
}

// SubscriptionVersion returns the version that a subscription is in, the newest known if it is a newer one.
func SubscriptionVersion(metadata []byte) int16 {
	r := reader{src: metadata}
	return min(max(r.int16(), 0), maxEmbedded)
}

// DecodeSubscription reads a subscription of any version. Nothing of the result aliases metadata.
func DecodeSubscription(metadata []byte) (*Subscription, error) {
	r := &reader{src: metadata}
	version := r.int16()
	s := &Subscription{}
	if version < 0 {
		return nil, ErrMalformed
	}
	for n := r.int32(); n > 0 && !r.bad; n-- {
		topic := r.string(false)
		r.bad = r.bad || topic == nil
		s.Topics = append(s.Topics, string(topic))
	}
	r.bytes(false)
	if version >= 1 {
		s.Owned = r.namedPartitions()
	}
	if version >= 2 {
		r.int32() // generation
	}
	if version >= 3 {
		s.Rack = optional(r.string(false))
	}
	return s, r.done()
}

func (r *reader) namedPartitions() []NamedPartitions {
	var list []NamedPartitions
	for n := r.int32(); n > 0 && !r.bad; n-- {
		t := NamedPartitions{Topic: string(r.string(false))}
		for m := r.int32(); m > 0 && !r.bad; m-- {
			t.Partitions = append(t.Partitions, r.int32())
		}
		list = append(list, t)
	}
	return list
}

// DecodeAssignment reads an assignment of the consumer protocol of any version.
func DecodeAssignment(b []byte) (assigned []NamedPartitions, userData []byte, err error) {
	r := &reader{src: b}
	if version := r.int16(); version < 0 {
		return nil, nil, ErrMalformed
	}
	assigned = r.namedPartitions()
	userData = r.bytes(false)
	return assigned, userData, r.done()
}

// AppendAssignment appends an assignment of the consumer protocol.
func AppendAssignment(dst []byte, version int16, assigned []NamedPartitions) []byte {
	a := kmsg.ConsumerMemberAssignment{Version: version}
	for _, t := range assigned {
		a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	return a.AppendTo(dst)
}
