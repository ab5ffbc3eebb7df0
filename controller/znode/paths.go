package znode

import "strconv"

// Paths below the chroot.
const (
	ClusterIDPath       = "/cluster/id"
	ControllerPath      = "/controller"
	ControllerEpochPath = "/controller_epoch"
	BrokerIDsPath       = "/brokers/ids"
	BrokerSeqIDPath     = "/brokers/seqid"
	TopicsPath          = "/brokers/topics"
	DeleteTopicsPath    = "/admin/delete_topics"
	ReassignPath        = "/admin/reassign_partitions"
	PreferredPath       = "/admin/preferred_replica_election"
	ISRChangesPath      = "/isr_change_notification"
	LogDirEventsPath    = "/log_dir_event_notification"
	ConfigPath          = "/config"
	ConfigChangesPath   = "/config/changes"
	FeaturePath         = "/feature"
	MigrationPath       = "/migration"
	ProducerIDsPath     = "/latest_producer_id_block"
	ConsumersPath       = "/consumers"

	// OwnPath and what is below it is gregor's alone: Kafka 3.9 looks at none of it. It is there once Extensions was switched on.
	// ExtensionsPath has the form of FeaturePath, OwnConfigPath that of ConfigPath; its data is written with each change below it.
	OwnPath        = "/gregor"
	ExtensionsPath = OwnPath + "/features"
	OwnConfigPath  = OwnPath + "/config"

	// ConfigChangePrefix and the other prefixes are those of sequential nodes.
	ConfigChangePrefix = ConfigChangesPath + "/config_change_"
	ISRChangePrefix    = ISRChangesPath + "/isr_change_"
	LogDirEventPrefix  = LogDirEventsPath + "/log_dir_event_"
)

// Persistent lists what a broker creates at start, with null data, if it is missing; parents come before children.
// After ZkData.PersistentZkPaths.
func Persistent() []string {
	paths := []string{ConsumersPath, "/brokers", BrokerIDsPath, TopicsPath, ConfigPath, ConfigChangesPath, "/admin", DeleteTopicsPath,
		BrokerSeqIDPath, ISRChangesPath, ProducerIDsPath, LogDirEventsPath}
	for _, kind := range ConfigKinds {
		paths = append(paths, ConfigPath+"/"+kind)
	}
	return paths
}

// BrokerPath is the registration of a broker.
func BrokerPath(id int32) string { return BrokerIDsPath + "/" + strconv.Itoa(int(id)) }

// TopicPath is a topic's node.
func TopicPath(topic string) string { return TopicsPath + "/" + topic }

// PartitionsPath is the parent of a topic's partitions.
func PartitionsPath(topic string) string { return TopicPath(topic) + "/partitions" }

// PartitionPath is a partition's node, which has no data.
func PartitionPath(topic string, partition int32) string {
	return PartitionsPath(topic) + "/" + strconv.Itoa(int(partition))
}

// StatePath is a partition's state.
func StatePath(topic string, partition int32) string {
	return PartitionPath(topic, partition) + "/state"
}

// DeleteTopicPath marks a topic for deletion.
func DeleteTopicPath(topic string) string { return DeleteTopicsPath + "/" + topic }

// ConfigEntityPath is the node of a configuration; entity as from ConfigEntity.
func ConfigEntityPath(entity string) string { return ConfigPath + "/" + entity }

// TopicConfigPath is the configuration of a topic.
func TopicConfigPath(topic string) string { return ConfigEntityPath(Topics + "/" + topic) }

// ConsumerOffsetPath is where clients before Kafka 0.8.2 keep a group's offset of a partition. The group's name stands as it is, so
// one with slashes makes a deeper path.
func ConsumerOffsetPath(group, topic string, partition int32) string {
	return ConsumersPath + "/" + group + "/offsets/" + topic + "/" + strconv.Itoa(int(partition))
}
