package controller

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
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
func (m *Machine) autoCreate(names []string, permit Permit, done func([]AutoCreated)) {
	results := make([]AutoCreated, len(names))
	q := m.newRequest(len(names), 0, func(i int, code int16, message *string) {
		results[i] = AutoCreated{Topic: names[i]}
		switch code {
		case kerr.ThrottlingQuotaExceeded.Code: // the client asks again
			code = kerr.UnknownTopicOrPartition.Code
		case kerr.RequestTimedOut.Code, kerr.TopicAlreadyExists.Code: // it is there, its leaders soon will be
			code = kerr.LeaderNotAvailable.Code
		case kerr.NotController.Code: // the controller is asked; a broker of 3.9 would have created it itself
			code = kerr.LeaderNotAvailable.Code
		case 0, kerr.UnknownTopicOrPartition.Code:
		default:
			if results[i].Refusal = kerr.ErrorForCode(code).Error(); message != nil {
				results[i].Refusal = *message
			}
		}
		results[i].Code = code
	}, func(m *Machine) { m.do(Answer{results, func() { done(results) }}) })
	var list []*creation
	var others []string
	for i, name := range names {
		switch err := ValidTopicName(name); {
		case err != nil:
			q.result(m, i, err)
		case !m.active():
			q.result(m, i, errNotController)
			others = append(others, name)
		case m.reign.creating[name] != nil:
			q.result(m, i, errcode.New(kerr.UnknownTopicOrPartition, "the topic is being created"))
		default:
			c, err := m.newCreation(m.autoTopic(name), nil)
			if err == nil {
				err = permit.take(len(c.t.parts))
			}
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
	m.forward(others, permit)
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

// forward asks the active controller to create topics, unless it has been asked already. Who is the first to want a topic is charged for it
// here: a broker of Kafka 3.9 creates it in ZooKeeper itself, and charges its own quotas.
func (m *Machine) forward(names []string, permit Permit) {
	names = slices.DeleteFunc(names, func(name string) bool { return m.forwarded[name] })
	if len(names) == 0 || m.activeID < 0 {
		return
	}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = forwardVersion, forwardTimeoutMs
	for _, name := range names {
		t := m.autoTopic(name)
		if t.NumPartitions < 0 { // this broker's defaults count, not the controller's
			t.NumPartitions, t.ReplicationFactor = m.o.Settings.NumPartitions, m.o.Settings.DefaultReplicationFactor
		}
		r.Topics = append(r.Topics, *t)
		m.forwarded[name] = true
	}
	m.do(Forward{m.expect(always, func(e Event) {
		for _, name := range names {
			delete(m.forwarded, name)
		}
		m.createdElsewhere(r, e.(Forwarded), permit)
	}), r})
}

// createdElsewhere looks at what the active controller answers.
func (m *Machine) createdElsewhere(r *kmsg.CreateTopicsRequest, e Forwarded, permit Permit) {
	resp, ok := e.Response.(*kmsg.CreateTopicsResponse)
	if e.Err != nil || !ok {
		m.log.Warn("the active controller could not be asked to create topics", zap.Int("topics", len(r.Topics)),
			zap.String("first", r.Topics[0].Topic), zap.Error(e.Err))
		return
	}
	partitions := make(map[string]int, len(r.Topics))
	for i := range r.Topics {
		partitions[r.Topics[i].Topic] = int(r.Topics[i].NumPartitions)
	}
	for i := range resp.Topics {
		switch t := &resp.Topics[i]; t.ErrorCode {
		case 0, kerr.RequestTimedOut.Code: // then its leaders are still missing
			_ = permit.take(partitions[t.Topic]) // there is nothing left to refuse
		case kerr.TopicAlreadyExists.Code, kerr.NotController.Code:
		default:
			m.log.Warn("a topic could not be created automatically", zap.String("topic", t.Topic), zap.Error(kerr.ErrorForCode(t.ErrorCode)))
		}
	}
}

// forwardVersion is that of the request to create topics for another broker's clients: the last one that no quota refuses, such as one that
// all client ids have, and so those of brokers.
const forwardVersion = 5

// forwardTimeoutMs is how long the active controller may take to create a topic for another broker.
const forwardTimeoutMs = 30_000
