package controller

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Names of the internal topics.
const (
	OffsetsTopicName      = "__consumer_offsets"
	TransactionsTopicName = "__transaction_state"
)

// OffsetsTopic is how __consumer_offsets is created. After GroupCoordinator.offsetsTopicConfigs.
func OffsetsTopic(partitions int32, replicationFactor int16, segmentBytes int32) InternalTopic {
	return InternalTopic{partitions, replicationFactor, map[string]string{
		"cleanup.policy":   "compact",
		"compression.type": "producer",
		"segment.bytes":    strconv.Itoa(int(segmentBytes)),
	}}
}

// TransactionsTopic is how __transaction_state is created. After TransactionCoordinator.transactionTopicConfigs.
func TransactionsTopic(partitions int32, replicationFactor int16, segmentBytes, minISR int32) InternalTopic {
	return InternalTopic{partitions, replicationFactor, map[string]string{
		"cleanup.policy":                 "compact",
		"compression.type":               "uncompressed",
		"min.insync.replicas":            strconv.Itoa(int(minISR)),
		"segment.bytes":                  strconv.Itoa(int(segmentBytes)),
		"unclean.leader.election.enable": "false",
	}}
}

// autoCreate serves AutoCreate. After kafka.server.AutoTopicCreationManager.
func (m *Machine) autoCreate(names []string, done func([]AutoCreated)) {
	results := make([]AutoCreated, len(names))
	q := m.newRequest(len(names), 0, func(i int, code int16, _ *string) {
		switch code {
		case kerr.NotController.Code:
			code = kerr.UnknownTopicOrPartition.Code
		case kerr.RequestTimedOut.Code, kerr.TopicAlreadyExists.Code: // it is there, its leaders soon will be
			code = kerr.LeaderNotAvailable.Code
		}
		results[i] = AutoCreated{names[i], code}
	}, func(m *Machine) { m.do(Answer{results, func() { done(results) }}) })
	var list []*creation
	for i, name := range names {
		switch err := ValidTopicName(name); {
		case err != nil:
			q.result(m, i, err)
		case !m.active() || m.reign.creating[name] != nil:
			q.result(m, i, errcode.New(kerr.UnknownTopicOrPartition, "the topic is being created"))
		default:
			c, err := m.newCreation(m.autoTopic(name), nil)
			if err != nil {
				q.result(m, i, err)
				continue
			}
			c.committed = func(err error) {
				if err == nil {
					err = errTimedOut
				}
				q.result(m, i, err)
			}
			m.reign.creating[name] = c
			list = append(list, c)
		}
	}
	if q.left > 0 {
		q.begin(m, 0)
	} else {
		q.reply(m)
	}
	if len(list) > 0 {
		m.create(list)
	}
}

// autoTopic is the request that a user would send.
func (m *Machine) autoTopic(name string) *kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	if internal, ok := m.o.Settings.InternalTopics[name]; ok {
		t.NumPartitions, t.ReplicationFactor = internal.Partitions, internal.ReplicationFactor
		for _, key := range slices.Sorted(maps.Keys(internal.Configs)) {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			value := internal.Configs[key]
			c.Name, c.Value = key, &value
			t.Configs = append(t.Configs, c)
		}
	}
	return &t
}
