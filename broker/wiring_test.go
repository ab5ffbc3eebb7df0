package broker

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/store/zk"
	"github.com/gregor-broker/gregor/groupcoord"
	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/txn"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/cleaner"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/ibp"
)

// given is what the parts of a broker are given of a configuration.
type given struct {
	c       *config.Snapshot
	notices []config.Notice
}

func (g given) logs() log.Options               { return logSettings(g.c) }
func (g given) topic() *log.Config              { return effective(g.c, nil).log }
func (g given) network() wire.Config            { return networkSettings(g.c) }
func (g given) replicas() replica.Options       { return replicaSettings(g.c, ibp.Latest) }
func (g given) groups() groupcoord.Settings     { return groupSettings(g.c) }
func (g given) txn() txn.Settings               { return transactionSettings(g.c) }
func (g given) controller() controller.Settings { return controllerSettings(g.c, ibp.Latest) }
func (g given) cleaner() cleaner.Settings       { return cleanerSettings(g.c) }
func (g given) session() zk.Options             { return sessionSettings(g.c) }
func (g given) broker() *Broker                 { return &Broker{config: g.c, live: config.NewLive(g.c)} }

func (g given) offsetsTopic() controller.InternalTopic {
	return g.controller().InternalTopics[metadata.ConsumerOffsets]
}

func (g given) transactionsTopic() controller.InternalTopic {
	return g.controller().InternalTopics[metadata.TransactionState]
}

// asks are the times of a group whose own configuration has that value.
func (g given) asks(key, value string) config.GroupTimes {
	return config.GroupTimesOf(g.c, map[string]string{key: value})
}

func (g given) windows() []quota.Windows {
	clients, mutations := quotaWindows(g.c)
	return []quota.Windows{clients, mutations, replicationWindows(g.c)}
}

// fetchVersion is the version in which followers fetch.
func (g given) fetchVersion() int16 {
	b := New(Options{Config: g.c, Logger: zap.NewNop()})
	if err := b.checkProtocol(); err != nil {
		return -1
	}
	return replicaSettings(g.c, b.protocol).Fetch.Version
}

// generatedID is the id that a broker gets that has none, -1 if it gets none.
func (g given) generatedID() int32 {
	b := New(Options{Config: g.c, Logger: zap.NewNop()})
	b.store = storetest.NewFake(clock.System).Client()
	defer b.store.Close()
	id, err := b.generatedID(context.Background())
	if err != nil {
		return -1
	}
	return id
}

// exceeded says whether a throttle of a configuration lets no hundred bytes at once pass.
func (g given) exceeded(which func(*throttles) *quota.Replication) bool {
	t := newThrottles(g.c, clock.System)
	t.limits(g.c)
	return full(which(t))
}

// full says whether a hundred bytes at once are more than a throttle lets pass.
func full(throttle *quota.Replication) bool {
	throttle.Record(100)
	return throttle.Exceeded()
}

// heldUp says whether any of a hundred connections at once has to wait.
func heldUp(q *clientQuotas) bool {
	for range 100 {
		if q.connections.Pace("PLAINTEXT") > 0 {
			return true
		}
	}
	return false
}

// wired are the keys whose values are seen to arrive at the part of the broker that they govern: the same question is answered otherwise
// without the setting.
var wired = []struct {
	name  string
	with  []string // what else is set
	store bool     // the settings are in the metadata store
	rows  []wiredKey
}{
	{"alone", nil, false, wiredAlone},
	{"on ZooKeeper", []string{"zookeeper.connect=host:1"}, false, wiredOnZooKeeper},
	{"with TLS to ZooKeeper", []string{"zookeeper.connect=host:1", "zookeeper.ssl.client.enable=true"}, false, wiredWithTLS},
	{"two listeners", []string{"listeners=A://h:1,B://h:2", "inter.broker.listener.name=A", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"}, false, wiredWithListeners},
	{"dynamic", nil, true, wiredStored},
}

type wiredKey struct {
	set  string
	at   func(g given) any
	want any
}

const ms = time.Millisecond

var wiredAlone = []wiredKey{
	{"log.dir=/d", func(g given) any { return g.logs().Dirs }, []string{"/d"}},
	{"log.dirs=/d,/e", func(g given) any { return g.logs().Dirs }, []string{"/d", "/e"}},
	{"num.recovery.threads.per.data.dir=7", func(g given) any { return g.logs().RecoveryThreadsPerDir }, 7},
	{"log.initial.task.delay.ms=11", func(g given) any { return g.logs().InitialTaskDelay }, 11 * ms},
	{"log.retention.check.interval.ms=12", func(g given) any { return g.logs().RetentionCheckInterval }, 12 * ms},
	{"log.flush.offset.checkpoint.interval.ms=13", func(g given) any { return g.logs().FlushCheckpointInterval }, 13 * ms},
	{"log.flush.start.offset.checkpoint.interval.ms=14", func(g given) any { return g.logs().StartOffsetCheckpointInterval }, 14 * ms},
	{"replica.high.watermark.checkpoint.interval.ms=15", func(g given) any { return g.logs().HWCheckpointInterval }, 15 * ms},
	{"producer.id.expiration.ms=16", func(g given) any { return g.logs().ProducerIDExpiration }, 16 * ms},

	{"log.segment.bytes=2000000", func(g given) any { return g.topic().SegmentBytes }, int32(2_000_000)},
	{"log.roll.ms=21", func(g given) any { return g.topic().SegmentMs }, int64(21)},
	{"log.roll.hours=2", func(g given) any { return g.topic().SegmentMs }, int64(7_200_000)},
	{"log.roll.jitter.ms=22", func(g given) any { return g.topic().SegmentJitterMs }, int64(22)},
	{"log.roll.jitter.hours=3", func(g given) any { return g.topic().SegmentJitterMs }, int64(10_800_000)},
	{"log.index.interval.bytes=23", func(g given) any { return g.topic().IndexIntervalBytes }, int32(23)},
	{"log.index.size.max.bytes=24", func(g given) any { return g.topic().SegmentIndexBytes }, int32(24)},
	{"log.flush.interval.messages=25", func(g given) any { return g.topic().FlushMessages }, int64(25)},
	{"log.flush.interval.ms=26", func(g given) any { return g.topic().FlushMs }, int64(26)},
	{"log.flush.scheduler.interval.ms=27", func(g given) any { return g.topic().FlushMs }, int64(27)},
	{"log.retention.bytes=28", func(g given) any { return g.topic().RetentionBytes }, int64(28)},
	{"log.retention.ms=29", func(g given) any { return g.topic().RetentionMs }, int64(29)},
	{"log.retention.minutes=2", func(g given) any { return g.topic().RetentionMs }, int64(120_000)},
	{"log.retention.hours=3", func(g given) any { return g.topic().RetentionMs }, int64(10_800_000)},
	{"log.cleanup.policy=compact", func(g given) any { return [2]bool{g.topic().Compact, g.topic().Delete} }, [2]bool{true, false}},
	{"message.max.bytes=30", func(g given) any { return g.topic().MaxMessageBytes }, int32(30)},
	{"log.message.timestamp.before.max.ms=31", func(g given) any { return g.topic().TimestampBeforeMaxMs }, int64(31)},
	{"log.message.timestamp.after.max.ms=32", func(g given) any { return g.topic().TimestampAfterMaxMs }, int64(32)},
	{"log.message.timestamp.type=LogAppendTime", func(g given) any { return g.topic().TimestampType }, record.LogAppendTime},
	{"compression.type=snappy", func(g given) any { return g.topic().Compression.Codec }, record.Snappy},
	{"compression.gzip.level=4", func(g given) any { return g.codec("gzip").Level }, 4},
	{"compression.lz4.level=5", func(g given) any { return g.codec("lz4").Level }, 5},
	{"compression.zstd.level=6", func(g given) any { return g.codec("zstd").Level }, 6},
	{"log.segment.delete.delay.ms=33", func(g given) any { return g.topic().FileDeleteDelayMs }, int64(33)},
	{"log.cleaner.min.cleanable.ratio=0.25", func(g given) any { return g.topic().MinCleanableDirtyRatio }, 0.25},
	{"log.cleaner.min.compaction.lag.ms=34", func(g given) any { return g.topic().MinCompactionLagMs }, int64(34)},
	{"log.cleaner.max.compaction.lag.ms=35", func(g given) any { return g.topic().MaxCompactionLagMs }, int64(35)},
	{"log.cleaner.delete.retention.ms=36", func(g given) any { return g.topic().DeleteRetentionMs }, int64(36)},
	{"min.insync.replicas=2", func(g given) any { return effective(g.c, nil).minISR }, 2},
	{"unclean.leader.election.enable=true", func(g given) any { return (&topicConfigs{live: g.broker().live}).UncleanElection(nil) }, true},

	{"log.cleaner.backoff.ms=41", func(g given) any { return g.cleaner().Backoff }, 41 * ms},
	{"log.cleaner.dedupe.buffer.size=2000000", func(g given) any { return g.cleaner().DedupeBytes }, int64(2_000_000)},
	{"log.cleaner.io.buffer.load.factor=0.5", func(g given) any { return g.cleaner().LoadFactor }, 0.5},
	{"log.cleaner.io.max.bytes.per.second=42.5", func(g given) any { return g.cleaner().BytesPerSecond }, 42.5},

	{"num.network.threads=51", func(g given) any { return g.network().Processors }, 51},
	{"num.io.threads=52", func(g given) any { return g.network().Handlers }, 52},
	{"queued.max.requests=53", func(g given) any { return g.network().QueuedMaxRequests }, 53},
	{"queued.max.request.bytes=1000000054", func(g given) any { return g.network().QueuedMaxRequestBytes }, int64(1_000_000_054)},
	{"socket.request.max.bytes=55", func(g given) any { return g.network().MaxRequestBytes }, int32(55)},
	{"connections.max.idle.ms=56", func(g given) any { return g.network().IdleTimeout }, 56 * ms},
	{"socket.send.buffer.bytes=57", func(g given) any { return g.network().SendBuffer }, 57},
	{"socket.receive.buffer.bytes=58", func(g given) any { return g.network().ReceiveBuffer }, 58},
	{"socket.listen.backlog.size=59", func(g given) any { return g.network().Backlog }, 59},
	{"max.connections=60", func(g given) any { return g.network().MaxConnections }, 60},
	{"max.connections.per.ip=61", func(g given) any { return g.network().MaxConnectionsPerIP }, 61},
	{"max.connections.per.ip.overrides=127.0.0.9:62", func(g given) any { return g.network().PerIPOverrides }, map[string]int{"127.0.0.9": 62}},
	{"max.connection.creation.rate=1", func(g given) any { return heldUp(newClientQuotas(g.c, clock.System, zap.NewNop())) }, true},
	{"quota.window.num=63", func(g given) any { return g.windows()[0].Num }, 63},
	{"quota.window.size.seconds=64", func(g given) any { return g.windows()[0].Size }, 64 * time.Second},
	{"controller.quota.window.num=65", func(g given) any { return g.windows()[1].Num }, 65},
	{"controller.quota.window.size.seconds=66", func(g given) any { return g.windows()[1].Size }, 66 * time.Second},

	{"group.min.session.timeout.ms=7001", func(g given) any { return g.groups().Group.MinSessionTimeout }, 7001 * ms},
	{"group.max.session.timeout.ms=900001", func(g given) any { return g.groups().Group.MaxSessionTimeout }, 900001 * ms},
	{"group.initial.rebalance.delay.ms=71", func(g given) any { return g.groups().Group.InitialRebalanceDelay }, 71 * ms},
	{"group.max.size=72", func(g given) any { return g.groups().Group.MaxSize }, 72},
	{"offset.metadata.max.bytes=73", func(g given) any { return g.groups().OffsetMetadataMaxBytes }, 73},
	{"offsets.retention.minutes=74", func(g given) any { return g.groups().OffsetsRetention }, 74 * time.Minute},
	{"offsets.retention.check.interval.ms=75", func(g given) any { return g.groups().OffsetsRetentionCheckInterval }, 75 * ms},
	{"offsets.commit.timeout.ms=76", func(g given) any { return g.groups().OffsetsCommitTimeout }, 76 * ms},
	{"offsets.topic.compression.codec=2", func(g given) any { return g.groups().OffsetsTopicCodec }, record.Snappy},
	{"group.consumer.session.timeout.ms=50001", func(g given) any { return g.groups().Consumer.SessionTimeout }, 50001 * ms},
	{"group.consumer.heartbeat.interval.ms=5001", func(g given) any { return g.groups().Consumer.HeartbeatInterval }, 5001 * ms},
	{"group.consumer.assignment.interval.ms=77", func(g given) any { return g.groups().Consumer.AssignmentInterval }, 77 * ms},
	{"group.consumer.regex.refresh.interval.ms=11111", func(g given) any { return g.groups().Consumer.RegexRefreshInterval }, 11111 * ms},
	{"group.consumer.max.size=78", func(g given) any { return g.groups().Consumer.MaxSize }, 78},
	{"group.consumer.migration.policy=upgrade", func(g given) any { return g.groups().Consumer.Migration }, consumer.UpgradeOnly},
	{"group.consumer.assignors=range,org.apache.kafka.coordinator.group.assignor.UniformAssignor",
		func(g given) any { return g.groups().Consumer.Assignors }, []string{"range", "uniform"}},
	{"group.consumer.min.session.timeout.ms=40000", func(g given) any { return g.asks("consumer.session.timeout.ms", "1").SessionTimeout }, 40 * time.Second},
	{"group.consumer.max.session.timeout.ms=70000", func(g given) any { return g.asks("consumer.session.timeout.ms", "99999").SessionTimeout }, 70 * time.Second},
	{"group.consumer.min.heartbeat.interval.ms=4000", func(g given) any { return g.asks("consumer.heartbeat.interval.ms", "1").HeartbeatInterval }, 4 * time.Second},
	{"group.consumer.max.heartbeat.interval.ms=9000", func(g given) any { return g.asks("consumer.heartbeat.interval.ms", "99999").HeartbeatInterval }, 9 * time.Second},
	{"group.consumer.min.assignment.interval.ms=500", func(g given) any { return g.asks("consumer.assignment.interval.ms", "1").AssignmentInterval }, 500 * ms},
	{"group.consumer.max.assignment.interval.ms=9000", func(g given) any { return g.asks("consumer.assignment.interval.ms", "99999").AssignmentInterval }, 9 * time.Second},

	{"transaction.max.timeout.ms=88001", func(g given) any { return g.txn().MaxTimeout }, 88001 * ms},
	{"transaction.abort.timed.out.transaction.cleanup.interval.ms=88002", func(g given) any { return g.txn().AbortTimedOutInterval }, 88002 * ms},
	{"transactional.id.expiration.ms=88003", func(g given) any { return g.txn().IDExpiration }, 88003 * ms},
	{"transaction.remove.expired.transaction.cleanup.interval.ms=88004", func(g given) any { return g.txn().RemoveExpiredInterval }, 88004 * ms},
	{"transaction.partition.verification.enable=false", func(g given) any { return g.broker().verifyTransactions() }, false},
	{"add.partitions.to.txn.retry.backoff.ms=91", func(g given) any { return joinSettings(g.c).RetryBackoff }, 91 * ms},
	{"add.partitions.to.txn.retry.backoff.max.ms=92", func(g given) any { return joinSettings(g.c).RetryMax }, 92 * ms},

	{"delete.topic.enable=false", func(g given) any { return g.controller().DeleteTopicEnable }, false},
	{"num.partitions=101", func(g given) any { return g.controller().NumPartitions }, int32(101)},
	{"default.replication.factor=102", func(g given) any { return g.controller().DefaultReplicationFactor }, int16(102)},
	{"offsets.topic.num.partitions=103", func(g given) any { return g.offsetsTopic().Partitions }, int32(103)},
	{"offsets.topic.replication.factor=104", func(g given) any { return g.offsetsTopic().ReplicationFactor }, int16(104)},
	{"offsets.topic.segment.bytes=105", func(g given) any { return g.offsetsTopic().Configs["segment.bytes"] }, "105"},
	{"transaction.state.log.num.partitions=106", func(g given) any { return g.transactionsTopic().Partitions }, int32(106)},
	{"transaction.state.log.replication.factor=107", func(g given) any { return g.transactionsTopic().ReplicationFactor }, int16(107)},
	{"transaction.state.log.segment.bytes=108", func(g given) any { return g.transactionsTopic().Configs["segment.bytes"] }, "108"},
	{"transaction.state.log.min.isr=109", func(g given) any { return g.transactionsTopic().Configs["min.insync.replicas"] }, "109"},
	{"gregor.http.listener=127.0.0.1:0", func(g given) any { return New(Options{Config: g.c, Logger: zap.NewNop()}).meter != nil }, true},
	{"process.roles=broker", func(g given) any { return len(g.notices) }, 1}, // it is told that the broker is a controller, too
}

var wiredOnZooKeeper = []wiredKey{
	{"log.message.timestamp.difference.max.ms=111", func(g given) any { return g.topic().TimestampBeforeMaxMs }, int64(111)},
	{"log.message.downconversion.enable=false", func(g given) any { return config.TopicDownconversion(g.c, nil) }, false},
	{"auto.leader.rebalance.enable=false", func(g given) any { return g.controller().AutoLeaderRebalance }, false},
	{"leader.imbalance.check.interval.seconds=112", func(g given) any { return g.controller().LeaderImbalanceCheckInterval }, 112 * time.Second},
	{"leader.imbalance.per.broker.percentage=113", func(g given) any { return g.controller().LeaderImbalancePercent }, 113},
	{"replication.quota.window.num=114", func(g given) any { return g.windows()[2].Num }, 114},
	{"replication.quota.window.size.seconds=115", func(g given) any { return g.windows()[2].Size }, 115 * time.Second},
	{"num.replica.fetchers=119", func(g given) any { return g.replicas().Fetchers }, 119},
	{"replica.lag.time.max.ms=1200", func(g given) any { return g.replicas().ReplicaLagMax }, 1200 * ms},
	{"replica.selector.class=" + rackAware, func(g given) any { return g.broker().nearReplica() != nil }, true},
	{"replica.socket.timeout.ms=1250", func(g given) any { return g.broker().leaderTimeout() }, 1250 * ms},
	{"inter.broker.protocol.version=2.8", func(g given) any { return g.fetchVersion() }, int16(12)},
	{"reserved.broker.max.id=2000", func(g given) any { return g.generatedID() }, int32(2001)},
	{"broker.id.generation.enable=false", func(g given) any { return g.generatedID() }, int32(-1)},
	{"controller.socket.timeout.ms=116", func(g given) any { return g.broker().controllerTimeout() }, 116 * ms},
	{"request.timeout.ms=117", func(g given) any { return g.broker().peerTimeout() }, 117 * ms},
	{"request.timeout.ms=118", func(g given) any { return g.txn().RequestTimeout }, 118 * ms},
	{"zookeeper.connect=other:2/root", func(g given) any { return g.session().Connect }, "other:2/root"},
	{"zookeeper.session.timeout.ms=121", func(g given) any { return g.session().SessionTimeout }, 121 * ms},
	{"zookeeper.session.timeout.ms=122", func(g given) any { return g.controller().SessionTimeout }, 122 * ms},
	{"zookeeper.connection.timeout.ms=123", func(g given) any { return g.session().ConnectionTimeout }, 123 * ms},
	{"zookeeper.max.in.flight.requests=124", func(g given) any { return g.session().MaxInFlight }, 124},
	{"zookeeper.set.acl=true", func(g given) any { return g.session().SetACL }, true},
	{"zookeeper.ssl.client.enable=true", func(g given) any { return g.session().TLS != nil }, true},
}

var wiredWithTLS = []wiredKey{
	{"zookeeper.ssl.keystore.location=/k", func(g given) any { return g.session().TLS.Keystore }, "/k"},
	{"zookeeper.ssl.keystore.type=PEM", func(g given) any { return g.session().TLS.KeystoreType }, "PEM"},
	{"zookeeper.ssl.truststore.location=/t", func(g given) any { return g.session().TLS.Truststore }, "/t"},
	{"zookeeper.ssl.truststore.type=PEM", func(g given) any { return g.session().TLS.TruststoreType }, "PEM"},
	{"zookeeper.ssl.protocol=TLSv1.3", func(g given) any { return g.session().TLS.Protocols }, []string{"TLSv1.3"}},
	{"zookeeper.ssl.enabled.protocols=TLSv1.2,TLSv1.3", func(g given) any { return g.session().TLS.Protocols }, []string{"TLSv1.2", "TLSv1.3"}},
	{"zookeeper.ssl.cipher.suites=A,B", func(g given) any { return g.session().TLS.CipherSuites }, []string{"A", "B"}},
	{"zookeeper.ssl.endpoint.identification.algorithm=", func(g given) any { return g.session().TLS.VerifyHostname }, false},
}

var wiredWithListeners = []wiredKey{
	{"listeners=A://h:1,B://h:3", func(g given) any { return g.c.Listeners()[1].Port }, 3},
	{"inter.broker.listener.name=B", func(g given) any { return g.controller().InterBrokerListener }, "B"},
	{"controller.listener.names=B", func(g given) any { return len(g.network().PerListener) }, 1},
}

// wiredStored are the keys that Kafka reads from the metadata store alone.
var wiredStored = []wiredKey{
	{"leader.replication.throttled.rate=1", func(g given) any { return g.exceeded(func(t *throttles) *quota.Replication { return t.send }) }, true},
	{"follower.replication.throttled.rate=1", func(g given) any { return g.exceeded(func(t *throttles) *quota.Replication { return t.fetch }) }, true},
}

// codec is how topics compress that are compressed so.
func (g given) codec(name string) record.Compression {
	c, _, err := g.c.WithDynamic(map[string]string{"compression.type": name}, nil)
	if err != nil {
		return record.Compression{Level: math.MinInt}
	}
	return effective(c, nil).log.Compression
}

// load reads a configuration.
func load(t *testing.T, stored bool, settings ...string) given {
	t.Helper()
	dynamic := map[string]string{}
	if stored {
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			dynamic[name] = value
		}
		settings = nil
	}
	c, notices, err := config.Load(config.Sources{Overrides: settings})
	if err != nil {
		t.Fatal(err)
	}
	c, more, err := c.WithDynamic(dynamic, nil)
	if err != nil || len(more) > 0 {
		t.Fatal(more, err)
	}
	return given{c, notices}
}

func TestWiring(t *testing.T) {
	for _, part := range wired {
		for _, row := range part.rows {
			t.Run(row.set, func(t *testing.T) {
				if got := row.at(load(t, part.store, append(slices.Clone(part.with), row.set)...)); !reflect.DeepEqual(got, row.want) {
					t.Errorf("%v arrives, want %v", got, row.want)
				}
				if got := row.at(load(t, false, part.with...)); reflect.DeepEqual(got, row.want) {
					t.Errorf("%v arrives without the setting, too", got)
				}
			})
		}
	}
}

// TestIntervalsOfNothing: an interval of 0 is not taken for one that is not given.
func TestIntervalsOfNothing(t *testing.T) {
	g := load(t, false, "log.flush.offset.checkpoint.interval.ms=0", "log.flush.start.offset.checkpoint.interval.ms=0",
		"replica.high.watermark.checkpoint.interval.ms=0", "log.initial.task.delay.ms=0", "log.cleaner.backoff.ms=0")
	o := g.logs()
	if o.FlushCheckpointInterval != -1 || o.StartOffsetCheckpointInterval != -1 || o.HWCheckpointInterval != -1 {
		t.Errorf("%v %v %v, want never", o.FlushCheckpointInterval, o.StartOffsetCheckpointInterval, o.HWCheckpointInterval)
	}
	if o.InitialTaskDelay != 1 || g.cleaner().Backoff != ms {
		t.Errorf("%v %v, want next to nothing", o.InitialTaskDelay, g.cleaner().Backoff)
	}
}
