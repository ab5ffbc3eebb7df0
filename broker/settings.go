package broker

import (
	"time"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/groupcoord"
	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/txn"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/ibp"
)

// logSettings are the values that the log directories honour.
func logSettings(c *config.Snapshot) log.Options {
	return log.Options{
		Dirs: c.LogDirs(), LeaveOut: !c.Embedded(),
		RecoveryThreadsPerDir:         config.RecoveryThreadsPerDir.Of(c),
		InitialTaskDelay:              max(1, config.InitialTaskDelay.Of(c)), // 0 would be the default
		RetentionCheckInterval:        config.RetentionCheckInterval.Of(c),
		FlushCheckpointInterval:       orNever(config.FlushCheckpointInterval.Of(c)),
		HWCheckpointInterval:          orNever(config.HighWatermarkCheckpoint.Of(c)),
		StartOffsetCheckpointInterval: orNever(config.StartCheckpointInterval.Of(c)),
		ProducerIDExpiration:          config.ProducerIDExpiration.Of(c),
	}
}

// orNever is an interval of the logs, which take 0 for the default. With 0 Kafka does the thing once, when there is nothing to do yet.
func orNever(interval time.Duration) time.Duration {
	if interval == 0 {
		return -1
	}
	return interval
}

// networkSettings are the values that the network layer honours.
func networkSettings(c *config.Snapshot) wire.Config {
	return wire.Config{
		Processors: config.NumNetworkThreads.Of(c), Handlers: handlers(c),
		QueuedMaxRequests:     config.QueuedMaxRequests.Of(c),
		QueuedMaxRequestBytes: requestMemory(c),
		MaxRequestBytes:       int32(config.SocketRequestMaxBytes.Of(c)),
		ConnectionLimits:      connectionLimits(c),
		IdleTimeout:           config.ConnectionsMaxIdle.Of(c),
		SendBuffer:            config.SocketSendBuffer.Of(c),
		ReceiveBuffer:         config.SocketReceiveBuffer.Of(c),
		Backlog:               config.SocketListenBacklog.Of(c),
	}
}

// replicaSettings are the values that partitions and followers honour.
func replicaSettings(c *config.Snapshot, protocol ibp.Protocol) replica.Options {
	return replica.Options{
		ReplicaLagMax: config.ReplicaLagTimeMax.Of(c),
		Fetchers:      config.ReplicaFetchers.Of(c),
		Fetch: replica.FetchSettings{
			MaxWait:        config.ReplicaFetchWaitMax.Of(c),
			MinBytes:       int32(config.ReplicaFetchMinBytes.Of(c)),
			MaxBytes:       int32(config.ReplicaFetchResponseMax.Of(c)),
			PartitionBytes: int32(config.ReplicaFetchMaxBytes.Of(c)),
			Backoff:        config.ReplicaFetchBackoff.Of(c),
			Version:        protocol.Fetch, ListOffsetsVersion: protocol.ListOffsets,
		},
	}
}

// groupSettings are the values that the group coordinator honours.
func groupSettings(c *config.Snapshot) groupcoord.Settings {
	settings := groupcoord.DefaultSettings()
	settings.Group.MinSessionTimeout = config.GroupMinSessionTimeout.Of(c)
	settings.Group.MaxSessionTimeout = config.GroupMaxSessionTimeout.Of(c)
	settings.Group.InitialRebalanceDelay = config.GroupInitialRebalanceDelay.Of(c)
	settings.Group.MaxSize = config.GroupMaxSize.Of(c)
	settings.Consumer = consumerSettings(c)
	settings.OffsetMetadataMaxBytes = config.OffsetMetadataMaxBytes.Of(c)
	settings.OffsetsRetention = config.OffsetsRetention.Of(c)
	settings.OffsetsRetentionCheckInterval = config.OffsetsRetentionCheck.Of(c)
	settings.OffsetsCommitTimeout = config.OffsetsCommitTimeout.Of(c)
	settings.OffsetsTopicCodec = record.Codec(config.OffsetsTopicCodec.Of(c))
	settings.Kafka4 = c.Embedded()
	return settings
}

// consumerSettings are the values that groups of the consumer protocol go by.
func consumerSettings(c *config.Snapshot) consumer.Settings {
	s := consumer.Settings{
		Times:                consumer.Times(config.GroupTimesOf(c, nil)),
		RegexRefreshInterval: config.ConsumerRegexRefresh.Of(c),
		MaxSize:              config.ConsumerGroupMaxSize.Of(c),
		Migration:            migration(c),
	}
	for _, name := range config.ConsumerAssignors.Of(c) {
		switch name {
		case "org.apache.kafka.coordinator.group.assignor.UniformAssignor":
			name = "uniform"
		case "org.apache.kafka.coordinator.group.assignor.RangeAssignor":
			name = "range"
		}
		s.Assignors = append(s.Assignors, name)
	}
	return s
}

// migration is whether groups turn into the other kind. 3.9 has no such groups on ZooKeeper, and a default that is of no use to those who
// have ours: 4.4's is taken.
func migration(c *config.Snapshot) consumer.Policy {
	if !c.Embedded() && !config.ConsumerMigration.Given(c) {
		return consumer.ParsePolicy("bidirectional")
	}
	return consumer.ParsePolicy(config.ConsumerMigration.Of(c))
}

// transactionSettings are the values that the coordinator of transactions honours.
func transactionSettings(c *config.Snapshot) txn.Settings {
	return txn.Settings{
		MaxTimeout:            config.TxnMaxTimeout.Of(c),
		AbortTimedOutInterval: config.TxnAbortInterval.Of(c),
		IDExpiration:          config.TxnIDExpiration.Of(c),
		RemoveExpiredInterval: config.TxnExpiryInterval.Of(c),
		RequestTimeout:        config.RequestTimeout.Of(c),
		Kafka4:                c.Embedded(),
	}
}

// controllerSettings are the values that the controller honours.
func controllerSettings(c *config.Snapshot, protocol ibp.Protocol) controller.Settings {
	settings := controller.Settings{
		DeleteTopicEnable:            config.DeleteTopic.Of(c),
		NumPartitions:                int32(config.NumPartitions.Of(c)),
		DefaultReplicationFactor:     int16(config.ReplicationFactor.Of(c)),
		InterBrokerListener:          c.InterBrokerListener(),
		AutoLeaderRebalance:          config.AutoLeaderRebalance.Of(c),
		LeaderImbalanceCheckInterval: config.LeaderImbalanceInterval.Of(c),
		LeaderImbalancePercent:       config.LeaderImbalancePercent.Of(c),
		RefuseUnknownReplicas:        c.Embedded(),
		Protocol:                     protocol,
		Embedded:                     c.Embedded(),
		InternalTopics: map[string]controller.InternalTopic{
			metadata.ConsumerOffsets: controller.OffsetsTopic(
				int32(config.OffsetsTopicPartitions.Of(c)), int16(config.OffsetsTopicReplication.Of(c)),
				int32(config.OffsetsTopicSegmentBytes.Of(c))),
			metadata.TransactionState: controller.TransactionsTopic(
				int32(config.TxnTopicPartitions.Of(c)), int16(config.TxnTopicReplication.Of(c)),
				int32(config.TxnTopicSegmentBytes.Of(c)), int32(config.TxnTopicMinISR.Of(c))),
		},
	}
	if c.Embedded() {
		settings.Features = api.Features()
	} else {
		settings.Extensions, settings.SessionTimeout = api.Features(), config.ZooKeeperSession.Of(c)
	}
	return settings
}

// rackAware is the name of Kafka's replica selector that prefers the consumer's rack (KIP-392).
const rackAware = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

// nearReplica chooses for a consumer a replica in its rack: the leader if it is there, else the follower that is
// furthest. nil where consumers always read from the leader. After RackAwareReplicaSelector.
func (b *Broker) nearReplica() func(rack string, candidates []replica.Candidate) int32 {
	if config.ReplicaSelector.Of(b.config) != rackAware {
		return nil
	}
	return func(rack string, candidates []replica.Candidate) int32 {
		image := b.services.Metadata.Image()
		var best *replica.Candidate
		for i := range candidates {
			c := &candidates[i]
			at := image.Broker(c.Broker)
			if at == nil || at.Rack == nil || *at.Rack != rack {
				continue
			}
			if i == 0 {
				return c.Broker
			}
			if best == nil || c.LogEnd > best.LogEnd || c.LogEnd == best.LogEnd && c.SinceCaughtUp < best.SinceCaughtUp {
				best = c
			}
		}
		if best == nil {
			return candidates[0].Broker
		}
		return best.Broker
	}
}
