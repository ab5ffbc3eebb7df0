package consumer

import "github.com/twmb/franz-go/pkg/kmsg"

// Describe fills in a group of a ConsumerGroupDescribe response.
func (g *Group) Describe(e *Env, r *kmsg.ConsumerGroupDescribeResponseGroup) {
	r.State, r.Epoch, r.AssignmentEpoch = string(g.State()), g.epoch, g.targetEpoch
	r.AssignorName = e.preferred(g.candidates())
	for _, m := range g.members {
		if !m.present {
			continue
		}
		d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		d.MemberID, d.MemberEpoch, d.InstanceID, d.RackID = m.ID, m.Epoch, m.Said.InstanceID, m.Said.RackID
		d.ClientID, d.ClientHost = m.Said.ClientID, m.Said.ClientHost
		regex := m.Said.Regex
		d.SubscribedTopics, d.SubscribedTopicRegex = m.Said.Topics, &regex
		d.Assignment = e.described(partitionsOf(append(m.Assigned.entries(), m.Revoking.entries()...), false))
		d.TargetAssignment = e.described(m.target)
		d.MemberType = 1
		if m.classic() {
			d.MemberType = 0
		}
		r.Members = append(r.Members, d)
	}
}

func (e *Env) described(p Partitions) kmsg.Assignment {
	a := kmsg.Assignment{}
	for i := range p {
		if name, ok := e.Metadata.TopicName(p[i].Topic); ok {
			t := kmsg.AssignmentTopicPartition{TopicID: p[i].Topic, Topic: name, Partitions: p[i].Partitions}
			a.TopicPartitions = append(a.TopicPartitions, t)
		}
	}
	return a
}
