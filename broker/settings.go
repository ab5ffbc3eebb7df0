package broker

import (
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/groupcoord"
	"github.com/gregor-broker/gregor/log/record"
)

// groupSettings are the values that the group coordinator honours.
func groupSettings(c *config.Snapshot) groupcoord.Settings {
	settings := groupcoord.DefaultSettings()
	settings.Group.MinSessionTimeout = config.GroupMinSessionTimeout.Of(c)
	settings.Group.MaxSessionTimeout = config.GroupMaxSessionTimeout.Of(c)
	settings.Group.InitialRebalanceDelay = config.GroupInitialRebalanceDelay.Of(c)
	settings.Group.MaxSize = config.GroupMaxSize.Of(c)
	settings.OffsetMetadataMaxBytes = config.OffsetMetadataMaxBytes.Of(c)
	settings.OffsetsRetention = config.OffsetsRetention.Of(c)
	settings.OffsetsRetentionCheckInterval = config.OffsetsRetentionCheck.Of(c)
	settings.OffsetsCommitTimeout = config.OffsetsCommitTimeout.Of(c)
	settings.OffsetsTopicCodec = record.Codec(config.OffsetsTopicCodec.Of(c))
	settings.Kafka4 = c.Embedded()
	return settings
}

// controllerSettings are the values that the controller honours.
func controllerSettings(c *config.Snapshot) controller.Settings {
	return controller.Settings{
		DeleteTopicEnable:        config.DeleteTopic.Of(c),
		NumPartitions:            int32(config.NumPartitions.Of(c)),
		DefaultReplicationFactor: int16(config.ReplicationFactor.Of(c)),
		InterBrokerListener:      c.InterBrokerListener(),
		RefuseUnknownReplicas:    c.Embedded(),
		InternalTopics: map[string]controller.InternalTopic{
			metadata.ConsumerOffsets: controller.OffsetsTopic(
				int32(config.OffsetsTopicPartitions.Of(c)), int16(config.OffsetsTopicReplication.Of(c)),
				int32(config.OffsetsTopicSegmentBytes.Of(c))),
		},
	}
}
