package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file writes the control requests, field by field as Apache Kafka 3.9 sends them in ZooKeeper mode, in the versions that
// inter.broker.protocol.version stands for.

// Leaders and epochs that only requests name.
const (
	noLeader           = -1
	leaderDuringDelete = -2
	epochDuringDelete  = -2
)

var securityProtocols = map[string]int16{"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

// stateRequest is LeaderAndIsr for one broker.
func (r *reign) stateRequest(self, to int32, o *stateOrders) kmsg.Request {
	req := kmsg.NewPtrLeaderAndISRRequest()
	req.Version = r.protocol.LeaderAndISR
	req.ControllerID, req.ControllerEpoch, req.BrokerEpoch = self, r.epoch, r.brokers[to].epoch
	leaders := map[int32]bool{}
	byTopic(o.list, func(t *topic, list []ref) {
		ts := kmsg.NewLeaderAndISRRequestTopicState()
		ts.Topic, ts.TopicID = t.name, t.id
		ts.PartitionStates = make([]kmsg.LeaderAndISRRequestTopicPartition, 0, len(list))
		for _, x := range list {
			p := x.part()
			s := kmsg.NewLeaderAndISRRequestTopicPartition()
			s.Partition, s.ControllerEpoch = x.p, p.controllerEpoch
			s.Leader, s.LeaderEpoch, s.ISR, s.ZKVersion = p.leader, p.leaderEpoch, p.isr, p.version
			a := x.assigned()
			s.Replicas, s.AddingReplicas, s.RemovingReplicas = a.replicas, a.adding, a.removing
			_, s.IsNew = o.isNew[x]
			if p.recovering && r.protocol.LeaderRecovery {
				s.LeaderRecoveryState = 1
			}
			ts.PartitionStates = append(ts.PartitionStates, s)
			leaders[p.leader] = true
		}
		req.TopicStates = append(req.TopicStates, ts)
	})
	for _, id := range r.brokerIDs() {
		if leaders[id] {
			req.LiveLeaders = append(req.LiveLeaders, r.liveLeader(id))
		}
	}
	return req
}

// liveLeader is the address at which followers reach a leader.
func (r *reign) liveLeader(id int32) kmsg.LeaderAndISRRequestLiveLeader {
	l := kmsg.NewLeaderAndISRRequestLiveLeader()
	l.BrokerID = id
	b := r.brokers[id]
	i := max(0, slices.IndexFunc(b.Endpoints, func(e znode.Endpoint) bool { return e.Listener == r.listener }))
	if i < len(b.Endpoints) {
		l.Host, l.Port = b.Endpoints[i].Host, b.Endpoints[i].Port
	}
	return l
}

// metadataOf is the topics' part of UpdateMetadata. A partition whose leader does not know yet that it leads is left out: nobody must
// be told before (case P6 of a producer that is refused first and accepted then). But a topic is not shown with some of its
// partitions, or a producer would spread keys over those: new ones are told as having no leader.
func (r *reign) metadataOf(refs []ref) []kmsg.UpdateMetadataRequestTopicState {
	var topics []kmsg.UpdateMetadataRequestTopicState
	byTopic(refs, func(t *topic, list []ref) {
		ts := kmsg.NewUpdateMetadataRequestTopicState()
		ts.Topic, ts.TopicID = t.name, t.id
		ts.PartitionStates = make([]kmsg.UpdateMetadataRequestTopicPartition, 0, len(list))
		for _, x := range list {
			if p := x.part(); t.deletion == nil && (p.version < 0 || p.leader >= 0 && !p.told) {
				continue
			}
			ts.PartitionStates = append(ts.PartitionStates, r.metadataOfPartition(x))
		}
		if len(ts.PartitionStates) == 0 {
			return
		}
		if t.deletion == nil {
			ts.PartitionStates = append(ts.PartitionStates, r.leaderless(t)...)
		}
		topics = append(topics, ts)
	})
	return topics
}

// leaderless is what is told of a topic's new partitions whose leaders have not answered yet.
func (r *reign) leaderless(t *topic) []kmsg.UpdateMetadataRequestTopicPartition {
	var list []kmsg.UpdateMetadataRequestTopicPartition
	for i := range t.parts {
		if p := &t.parts[i]; p.fresh && p.version >= 0 && p.leader >= 0 {
			s := r.metadataOfPartition(ref{t, int32(i)})
			s.Leader = noLeader
			list = append(list, s)
		}
	}
	return list
}

func (r *reign) metadataOfPartition(x ref) kmsg.UpdateMetadataRequestTopicPartition {
	p := x.part()
	s := kmsg.NewUpdateMetadataRequestTopicPartition()
	s.Partition, s.ControllerEpoch, s.Leader, s.LeaderEpoch = x.p, p.controllerEpoch, p.leader, p.leaderEpoch
	s.ISR, s.ZKVersion, s.Replicas = p.isr, p.version, x.assigned().replicas
	if x.t.deletion != nil {
		s.ControllerEpoch, s.Leader, s.LeaderEpoch, s.ZKVersion = r.epoch, leaderDuringDelete, 0, 0
	}
	for _, id := range s.Replicas {
		if !r.live(id, x) {
			s.OfflineReplicas = append(s.OfflineReplicas, id)
		}
	}
	return s
}

// metadataRequest is UpdateMetadata for one broker.
func (r *reign) metadataRequest(self, to int32, topics []kmsg.UpdateMetadataRequestTopicState, live []kmsg.UpdateMetadataRequestLiveBroker) kmsg.Request {
	req := kmsg.NewPtrUpdateMetadataRequest()
	req.Version = r.protocol.UpdateMetadata
	req.ControllerID, req.ControllerEpoch, req.BrokerEpoch = self, r.epoch, r.brokers[to].epoch
	req.TopicStates, req.LiveBrokers = topics, live
	return req
}

// liveBrokers is the brokers' part of UpdateMetadata.
func (r *reign) liveBrokers() []kmsg.UpdateMetadataRequestLiveBroker {
	var list []kmsg.UpdateMetadataRequestLiveBroker
	for _, id := range r.brokerIDs() {
		b := r.brokers[id]
		l := kmsg.NewUpdateMetadataRequestLiveBroker()
		l.ID = id
		if b.Rack != "" {
			rack := b.Rack
			l.Rack = &rack
		}
		for _, e := range b.Endpoints {
			le := kmsg.NewUpdateMetadataRequestLiveBrokerEndpoint()
			le.Host, le.Port, le.ListenerName, le.SecurityProtocol = e.Host, e.Port, e.Listener, securityProtocols[e.Protocol]
			l.Endpoints = append(l.Endpoints, le)
		}
		list = append(list, l)
	}
	return list
}

// stopRequest is StopReplica for one broker.
func (r *reign) stopRequest(self, to int32, stops []stop) kmsg.Request {
	req := kmsg.NewPtrStopReplicaRequest()
	req.Version = r.protocol.StopReplica
	req.ControllerID, req.ControllerEpoch, req.BrokerEpoch = self, r.epoch, r.brokers[to].epoch
	refs := make([]ref, len(stops))
	epochs := make(map[ref]int32, len(stops))
	for i, s := range stops {
		refs[i] = s.ref
		epochs[s.ref] = s.epoch
	}
	byTopic(refs, func(t *topic, list []ref) {
		ts := kmsg.NewStopReplicaRequestTopic()
		ts.Topic = t.name
		for _, x := range list {
			s := kmsg.NewStopReplicaRequestTopicPartitionState()
			s.Partition, s.LeaderEpoch, s.Delete = x.p, epochs[x], stops[0].remove
			ts.PartitionStates = append(ts.PartitionStates, s)
		}
		req.Topics = append(req.Topics, ts)
	})
	return req
}

// byTopic calls f for each topic of refs, in the order in which the topics come first.
func byTopic(refs []ref, f func(*topic, []ref)) {
	together := true
	seen := map[*topic]bool{}
	for i, x := range refs {
		if i > 0 && refs[i-1].t == x.t {
			continue
		}
		together = together && !seen[x.t]
		seen[x.t] = true
	}
	if !together {
		refs = slices.Clone(refs)
		slices.SortStableFunc(refs, func(a, b ref) int {
			if a.t.name < b.t.name {
				return -1
			} else if a.t.name > b.t.name {
				return 1
			}
			return 0
		})
	}
	for i := 0; i < len(refs); {
		j := i + 1
		for j < len(refs) && refs[j].t == refs[i].t {
			j++
		}
		f(refs[i].t, refs[i:j])
		i = j
	}
}

// allRefs returns every partition, topics in order.
func (r *reign) allRefs() []ref {
	var all []ref
	for _, name := range r.topicNames() {
		all = append(all, r.topics[name].refs()...)
	}
	return all
}
