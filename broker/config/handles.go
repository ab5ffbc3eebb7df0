package config

import (
	"math"
	"time"
)

// Handle is how the rest of the program reads one broker key: config.NumIOThreads.Of(snapshot).
type Handle[T any] struct {
	key *Key
	get func(s *Snapshot, k *Key) T
}

// Of returns the key's value in a snapshot.
func (h Handle[T]) Of(s *Snapshot) T { return h.get(s, h.key) }

// Name returns the key's name, for messages.
func (h Handle[T]) Name() string { return h.key.Name }

// Given says whether somebody has set the key, at the start or since.
func (h Handle[T]) Given(s *Snapshot) bool { return len(s.layersOf(h.key)) > 0 }

// handle makes the handle of a key; it panics (when the program starts) for a name that is not in the table.
func handle[T any](name string, get func(*Snapshot, *Key) T) Handle[T] {
	k := brokerTable.byName[name]
	if k == nil {
		panic("config: no such key: " + name)
	}
	return Handle[T]{k, get}
}

func integer(name string) Handle[int] {
	return handle(name, func(s *Snapshot, k *Key) int { return int(long(s, k)) })
}

func longInteger(name string) Handle[int64] { return handle(name, long) }

func long(s *Snapshot, k *Key) int64 {
	n, _ := s.resolved(k).(int64)
	return n
}

func boolean(name string) Handle[bool] {
	return handle(name, func(s *Snapshot, k *Key) bool { b, _ := s.resolved(k).(bool); return b })
}

func list(name string) Handle[[]string] {
	return handle(name, func(s *Snapshot, k *Key) []string { return asList(s.resolved(k)) })
}

func double(name string) Handle[float64] {
	return handle(name, func(s *Snapshot, k *Key) float64 { f, _ := s.resolved(k).(float64); return f })
}

func text(name string) Handle[string] {
	return handle(name, func(s *Snapshot, k *Key) string { return format(s.resolved(k)) })
}

// span reads a duration from a key in milliseconds, minutes or hours; what is longer than a Duration can be is the
// longest Duration.
func span(name string) Handle[time.Duration] {
	unit := unitOf(name)
	return handle(name, func(s *Snapshot, k *Key) time.Duration {
		n := long(s, k)
		if n > math.MaxInt64/int64(unit) {
			return math.MaxInt64
		}
		return time.Duration(n) * unit
	})
}

// The keys of the broker itself.
var (
	BrokerRack              = text("broker.rack") // "" = none
	NumNetworkThreads       = integer("num.network.threads")
	NumIOThreads            = integer("num.io.threads")
	QueuedMaxRequests       = integer("queued.max.requests")
	QueuedMaxRequestBytes   = longInteger("queued.max.request.bytes") // ≤ 0 = from the memory limit
	SocketSendBuffer        = integer("socket.send.buffer.bytes")     // -1 = the system's
	SocketReceiveBuffer     = integer("socket.receive.buffer.bytes")  // -1 = the system's
	SocketRequestMaxBytes   = integer("socket.request.max.bytes")
	SocketListenBacklog     = integer("socket.listen.backlog.size")
	ConnectionsMaxIdle      = span("connections.max.idle.ms") // < 0 = for ever
	MaxConnections          = integer("max.connections")
	MaxConnectionsPerIP     = integer("max.connections.per.ip")
	ConnectionCreationRate  = integer("max.connection.creation.rate") // per second
	AutoCreateTopics        = boolean("auto.create.topics.enable")
	DeleteTopic             = boolean("delete.topic.enable")
	NumPartitions           = integer("num.partitions")
	ReplicationFactor       = integer("default.replication.factor")
	FetchMaxBytes           = integer("fetch.max.bytes")
	FetchSessionCacheSlots  = integer("max.incremental.fetch.session.cache.slots")
	PartitionSizeLimit      = integer("max.request.partition.size.limit")
	AutoLeaderRebalance     = boolean("auto.leader.rebalance.enable")
	LeaderImbalanceInterval = span("leader.imbalance.check.interval.seconds")
	LeaderImbalancePercent  = integer("leader.imbalance.per.broker.percentage")
	ControlledShutdown      = boolean("controlled.shutdown.enable")
	ControlledShutdownTries = integer("controlled.shutdown.max.retries")
	ControlledShutdownPause = span("controlled.shutdown.retry.backoff.ms")
	ReplicaFetchers         = integer("num.replica.fetchers")
	LeaderThrottle          = longInteger("leader.replication.throttled.rate")   // bytes/s
	FollowerThrottle        = longInteger("follower.replication.throttled.rate") // bytes/s
	QuotaWindows            = integer("quota.window.num")
	QuotaWindow             = span("quota.window.size.seconds")
	ControllerQuotaWindows  = integer("controller.quota.window.num")
	ControllerQuotaWindow   = span("controller.quota.window.size.seconds")
	ReplicationQuotaWindows = integer("replication.quota.window.num")
	ReplicationQuotaWindow  = span("replication.quota.window.size.seconds")
	ReplicaFetchBackoff     = span("replica.fetch.backoff.ms")
	ReplicaFetchMaxBytes    = integer("replica.fetch.max.bytes")
	ReplicaFetchMinBytes    = integer("replica.fetch.min.bytes")
	ReplicaFetchResponseMax = integer("replica.fetch.response.max.bytes")
	ReplicaFetchWaitMax     = span("replica.fetch.wait.max.ms")
	ReplicaLagTimeMax       = span("replica.lag.time.max.ms")
	ReplicaSocketTimeout    = span("replica.socket.timeout.ms")
	ControllerSocketTimeout = span("controller.socket.timeout.ms")
	BrokerIDGeneration      = boolean("broker.id.generation.enable")
	ReservedBrokerMaxID     = integer("reserved.broker.max.id")
	ReplicaSelector         = text("replica.selector.class")
	RequestTimeout          = span("request.timeout.ms")
	InterBrokerProtocol     = text("inter.broker.protocol.version")
	LogMessageFormat        = text("log.message.format.version")
	ZooKeeperConnect        = text(zookeeperConnect)
	ZooKeeperSession        = span("zookeeper.session.timeout.ms")
	ZooKeeperConnection     = span("zookeeper.connection.timeout.ms") // 0 = the session timeout
	ZooKeeperSetACL         = boolean("zookeeper.set.acl")
	ZooKeeperTLS            = boolean("zookeeper.ssl.client.enable")
	ZooKeeperCiphers        = list("zookeeper.ssl.cipher.suites")
	ZooKeeperTLSVersions    = list("zookeeper.ssl.enabled.protocols")
	ZooKeeperTLSVersion     = text("zookeeper.ssl.protocol")
	ZooKeeperVerifyHost     = text("zookeeper.ssl.endpoint.identification.algorithm")
	ZooKeeperKeystore       = text("zookeeper.ssl.keystore.location")
	ZooKeeperKeystoreType   = text("zookeeper.ssl.keystore.type")
	ZooKeeperTruststore     = text("zookeeper.ssl.truststore.location")
	ZooKeeperTruststoreType = text("zookeeper.ssl.truststore.type")
	ZooKeeperMaxInFlight    = integer("zookeeper.max.in.flight.requests")
	HighWatermarkCheckpoint = span("replica.high.watermark.checkpoint.interval.ms")
)

// The keys of the logs that are not defaults of topic keys (those are in TopicLog).
var (
	HTTPListener            = text("gregor.http.listener")
	RecoveryThreadsPerDir   = integer("num.recovery.threads.per.data.dir")
	InitialTaskDelay        = span("log.initial.task.delay.ms")
	RetentionCheckInterval  = span("log.retention.check.interval.ms")
	FlushCheckpointInterval = span("log.flush.offset.checkpoint.interval.ms")
	StartCheckpointInterval = span("log.flush.start.offset.checkpoint.interval.ms")
	CleanerEnable           = boolean("log.cleaner.enable")
	CleanerDedupeBytes      = longInteger("log.cleaner.dedupe.buffer.size")
	CleanerLoadFactor       = double("log.cleaner.io.buffer.load.factor")
	CleanerBytesPerSecond   = double("log.cleaner.io.max.bytes.per.second")
	CleanerBackoff          = span("log.cleaner.backoff.ms")
	ProducerIDExpiration    = span("producer.id.expiration.ms")
)

// The keys of transactions.
var (
	TxnVerification      = boolean("transaction.partition.verification.enable")
	TxnMaxTimeout        = span("transaction.max.timeout.ms")
	TxnAbortInterval     = span("transaction.abort.timed.out.transaction.cleanup.interval.ms")
	TxnIDExpiration      = span("transactional.id.expiration.ms")
	TxnExpiryInterval    = span("transaction.remove.expired.transaction.cleanup.interval.ms")
	TxnTopicMinISR       = integer("transaction.state.log.min.isr")
	TxnTopicPartitions   = integer("transaction.state.log.num.partitions")
	TxnTopicReplication  = integer("transaction.state.log.replication.factor")
	TxnTopicSegmentBytes = integer("transaction.state.log.segment.bytes")
	TxnAddBackoff        = span("add.partitions.to.txn.retry.backoff.ms")
	TxnAddRetryMax       = span("add.partitions.to.txn.retry.backoff.max.ms")
)

// TelemetryMaxBytes bounds a push of client metrics.
var TelemetryMaxBytes = integer("telemetry.max.bytes")

// The keys of consumer groups and their offsets.
var (
	GroupInitialRebalanceDelay = span("group.initial.rebalance.delay.ms")
	GroupMinSessionTimeout     = span("group.min.session.timeout.ms")
	GroupMaxSessionTimeout     = span("group.max.session.timeout.ms")
	GroupMaxSize               = integer("group.max.size")
	GroupProtocols             = list("group.coordinator.rebalance.protocols")
	ConsumerAssignors          = list("group.consumer.assignors")
	ConsumerRegexRefresh       = span("group.consumer.regex.refresh.interval.ms")
	ConsumerGroupMaxSize       = integer("group.consumer.max.size")
	ConsumerMigration          = text("group.consumer.migration.policy")
	OffsetMetadataMaxBytes     = integer("offset.metadata.max.bytes")
	OffsetsCommitTimeout       = span("offsets.commit.timeout.ms")
	OffsetsRetention           = span("offsets.retention.minutes")
	OffsetsRetentionCheck      = span("offsets.retention.check.interval.ms")
	OffsetsTopicCodec          = integer("offsets.topic.compression.codec") // record.Codec's numbers
	OffsetsTopicPartitions     = integer("offsets.topic.num.partitions")
	OffsetsTopicReplication    = integer("offsets.topic.replication.factor")
	OffsetsTopicSegmentBytes   = integer("offsets.topic.segment.bytes")
)
