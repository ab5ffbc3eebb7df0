package config

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestTopicLog(t *testing.T) {
	embedded, _ := load(t)
	onZooKeeper, _ := load(t, zk)
	kafka := log.DefaultConfig()
	if got := TopicLog(onZooKeeper, nil); !reflect.DeepEqual(got.Rules(0), kafka.Rules(0)) || got.SegmentMs != kafka.SegmentMs ||
		got.RetentionMs != kafka.RetentionMs || got.FileDeleteDelayMs != kafka.FileDeleteDelayMs || !got.Delete || got.Compact {
		t.Errorf("%+v", got)
	}
	if got := TopicLog(embedded, nil).TimestampAfterMaxMs; got != 3_600_000 {
		t.Errorf("embedded: after %d", got)
	}
	for _, c := range []struct {
		broker    []string
		overrides map[string]string
		got       func(c *log.Config) any
		want      any
	}{
		{[]string{"log.retention.hours=1"}, nil, func(c *log.Config) any { return c.RetentionMs }, int64(3_600_000)},
		{[]string{"log.retention.hours=1", "log.retention.minutes=1"}, nil, func(c *log.Config) any { return c.RetentionMs }, int64(60_000)},
		{[]string{"log.retention.minutes=1", "log.retention.ms=5"}, nil, func(c *log.Config) any { return c.RetentionMs }, int64(5)},
		{[]string{"log.retention.ms=5"}, map[string]string{"retention.ms": "7"}, func(c *log.Config) any { return c.RetentionMs }, int64(7)},
		{[]string{"log.retention.hours=-1"}, nil, func(c *log.Config) any { return c.RetentionMs }, int64(-1)},
		{[]string{"log.roll.hours=2"}, nil, func(c *log.Config) any { return c.SegmentMs }, int64(7_200_000)},
		{[]string{"log.flush.scheduler.interval.ms=9"}, nil, func(c *log.Config) any { return c.FlushMs }, int64(9)},
		{[]string{"log.flush.interval.ms=8", "log.flush.scheduler.interval.ms=9"}, nil, func(c *log.Config) any { return c.FlushMs }, int64(8)},
		{nil, nil, func(c *log.Config) any { return c.FlushMs }, int64(math.MaxInt64)},
		{nil, map[string]string{"cleanup.policy": "compact,delete"}, func(c *log.Config) any { return c.Compact && c.Delete }, true},
		{nil, map[string]string{"cleanup.policy": ""}, func(c *log.Config) any { return c.Compact || c.Delete }, false},
		{nil, map[string]string{"compression.type": "gzip", "compression.gzip.level": "7"}, func(c *log.Config) any { return c.Compression },
			record.Compression{Fixed: true, Codec: record.Gzip, Level: 7}},
		{[]string{"compression.type=zstd", "compression.zstd.level=5"}, nil, func(c *log.Config) any { return c.Compression },
			record.Compression{Fixed: true, Codec: record.Zstd, Level: 5}},
		{nil, map[string]string{"compression.type": "uncompressed"}, func(c *log.Config) any { return c.Compression }, record.Compression{Fixed: true}},
		{nil, map[string]string{"message.timestamp.type": "LogAppendTime"}, func(c *log.Config) any { return c.TimestampType }, record.LogAppendTime},
		{nil, map[string]string{"internal.segment.bytes": "1000"}, func(c *log.Config) any { return c.SegmentBytes }, int32(1000)},
		{[]string{zk}, map[string]string{"segment.bytes": "14"}, func(c *log.Config) any { return c.SegmentBytes }, int32(14)},
		{nil, map[string]string{"segment.bytes": "14"}, func(c *log.Config) any { return c.SegmentBytes }, int32(1 << 30)}, // not allowed: the default
		{[]string{zk, "log.message.timestamp.difference.max.ms=4"}, nil, func(c *log.Config) any { return [2]int64{c.TimestampBeforeMaxMs, c.TimestampAfterMaxMs} }, [2]int64{4, 4}},
		{[]string{zk}, map[string]string{"message.timestamp.difference.max.ms": "4", "message.timestamp.before.max.ms": "5"},
			func(c *log.Config) any { return [2]int64{c.TimestampBeforeMaxMs, c.TimestampAfterMaxMs} }, [2]int64{5, 4}},
	} {
		s, _ := load(t, c.broker...)
		if got := c.got(TopicLog(s, c.overrides)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v %v: %v, want %v", c.broker, c.overrides, got, c.want)
		}
	}
	if TopicMinISR(embedded, map[string]string{"min.insync.replicas": "2"}) != 2 || !TopicDownconversion(embedded, nil) ||
		TopicUncleanElection(embedded, nil) {
		t.Error("min ISR, down-conversion or unclean election")
	}
}

// The messages were taken from Kafka 4.4.0's answers to IncrementalAlterConfigs.
func TestValidateTopic(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"retention.ms", "5", ""},
		{"retention.ms", " 7 ", ""},
		{"retention.ms", "+7", ""},
		{"preallocate", "TRUE", ""},
		{"min.cleanable.dirty.ratio", "1e-3", ""},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "compact, delete ,compact", ""},
		{"leader.replication.throttled.replicas", "*", ""},
		{"leader.replication.throttled.replicas", "0:1,1:2", ""},
		{"internal.segment.bytes", "1000", ""},
		{"foo.bar", "9", "Unknown topic config name: foo.bar"},
		{"Retention.ms", "9", "Unknown topic config name: Retention.ms"},
		{"", "9", "Unknown topic config name: "},
		{"message.format.version", "2.0", "Unknown topic config name: message.format.version"},
		{"retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", "99999999999999999999", "Invalid value 99999999999999999999 for configuration retention.ms: Not a number of type LONG"},
		{"segment.bytes", "99999999999", "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "14", "Invalid value 14 for configuration segment.bytes: Value must be at least 1048576"},
		{"min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "x", "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
		{"preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"compression.type", "GZIP", "Invalid value GZIP for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.gzip.level", "10", "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.lz4.level", "18", "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"},
		{"cleanup.policy", "DELETE", "Invalid value DELETE for configuration cleanup.policy: String must be one of: compact, delete"},
		{"message.timestamp.type", "createtime", "Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"},
		{"follower.replication.throttled.replicas", "none", "Invalid value [none] for configuration follower.replication.throttled.replicas: " +
			"follower.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."},
		{"remote.storage.enable", "true", "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."},
		{"segment.ms", "0", "Invalid value 0 for configuration segment.ms: Value must be at least 1"},
	} {
		s, _ := load(t)
		checkInvalid(t, c.name+"="+c.value, ValidateTopic(s, map[string]string{c.name: c.value}), c.want)
	}
	s, _ := load(t)
	checkInvalid(t, "lags", ValidateTopic(s, map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}),
		"conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)")
	old, _ := load(t, zk)
	checkInvalid(t, "3.9", ValidateTopic(old, map[string]string{"message.format.version": "2.0", "segment.bytes": "14"}), "")
	checkInvalid(t, "3.9", ValidateTopic(old, map[string]string{"message.format.version": "9.0"}),
		"Invalid value 9.0 for configuration message.format.version: Version 9.0 is not a valid version")
	checkInvalid(t, "3.9", ValidateTopic(old, map[string]string{"internal.segment.bytes": "1000"}),
		"Unknown topic config name: internal.segment.bytes")
}

func checkInvalid(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err == nil:
	case err == nil || err.Error() != want || errcode.Of(err) != kerr.InvalidConfig.Code:
		t.Errorf("%s:\n  got  %v\n  want %s", what, err, want)
	}
}

func TestDescribeTopicValues(t *testing.T) {
	s, _ := load(t, "log.retention.ms=50")
	overrides := map[string]string{"cleanup.policy": "compact, delete ,compact", "min.cleanable.dirty.ratio": "0.50",
		"retention.bytes": "007", "internal.segment.bytes": "1000", "preallocate": "TRUE"}
	rows := DescribeTopic(s, overrides, []string{"cleanup.policy", "min.cleanable.dirty.ratio", "retention.bytes", "retention.ms",
		"internal.segment.bytes", "preallocate", "none"})
	var got []string
	for _, r := range rows {
		got = append(got, showRow(r))
	}
	want := []string{
		"cleanup.policy=compact,delete DYNAMIC_TOPIC_CONFIG LIST DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete DEFAULT_CONFIG:log.cleanup.policy=delete",
		"internal.segment.bytes=1000 DYNAMIC_TOPIC_CONFIG INT DYNAMIC_TOPIC_CONFIG:internal.segment.bytes=1000",
		"min.cleanable.dirty.ratio=0.5 DYNAMIC_TOPIC_CONFIG DOUBLE DYNAMIC_TOPIC_CONFIG:min.cleanable.dirty.ratio=0.5 DEFAULT_CONFIG:log.cleaner.min.cleanable.ratio=0.5",
		"preallocate=true DYNAMIC_TOPIC_CONFIG BOOLEAN DYNAMIC_TOPIC_CONFIG:preallocate=true DEFAULT_CONFIG:log.preallocate=false",
		"retention.bytes=7 DYNAMIC_TOPIC_CONFIG LONG DYNAMIC_TOPIC_CONFIG:retention.bytes=7 DEFAULT_CONFIG:log.retention.bytes=-1",
		// As Kafka 3.9.2 and 4.4.0 answered where log.retention.ms was set: its own synonyms follow it.
		"retention.ms=50 STATIC_BROKER_CONFIG LONG STATIC_BROKER_CONFIG:log.retention.ms=50 DEFAULT_CONFIG:log.retention.hours=168",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Case A1 and its kin, with the answers of Kafka 4.4.0 (codes and messages of 3.9.2 are the same but for its prefix
// "Invalid config value for resource …").
func TestAlterTopic(t *testing.T) {
	s, _ := load(t)
	v := func(s string) *string { return &s }
	for _, c := range []struct {
		old     map[string]string
		changes []Change
		want    string // the overrides, or the error
		code    int16
	}{
		{map[string]string{"a": "x"}, nil, "Unknown topic config name: a", 40},
		{nil, []Change{{"cleanup.policy", Set, v("delete")}}, "cleanup.policy=delete", 0}, // kept although it is the default
		{map[string]string{"retention.ms": "5"}, []Change{{"cleanup.policy", Set, v("delete")}}, "cleanup.policy=delete retention.ms=5", 0},
		{map[string]string{"retention.ms": "5"}, []Change{{"retention.ms", Delete, nil}}, "", 0},
		{map[string]string{"retention.ms": "5"}, []Change{{"foo.bar", Delete, nil}}, "retention.ms=5", 0},
		{nil, []Change{{"foo.bar", Set, v("9")}}, "Unknown topic config name: foo.bar", 40},
		{nil, []Change{{"retention.ms", Set, nil}}, "Null value not supported for : retention.ms", 42},
		{nil, []Change{{"retention.ms", Set, nil}, {"cleanup.policy", Append, nil}}, "Null value not supported for : retention.ms,cleanup.policy", 42},
		{nil, []Change{{"retention.ms", Set, v("1")}, {"retention.ms", Set, v("2")}}, "Error due to duplicate config keys", 42},
		{nil, []Change{{"retention.ms", Set, v("1")}, {"retention.ms", Delete, nil}}, "Error due to duplicate config keys", 42},
		{nil, []Change{{"retention.ms", 9, v("1")}}, "Unknown operation type 9 for config key retention.ms", 42},
		{nil, []Change{{"cleanup.policy", Append, v("compact,delete")}}, "cleanup.policy=delete,compact", 0}, // from the default
		{map[string]string{"cleanup.policy": "delete,compact"}, []Change{{"cleanup.policy", Append, v("compact")}}, "cleanup.policy=delete,compact", 0},
		{map[string]string{"cleanup.policy": "delete,compact"}, []Change{{"cleanup.policy", Subtract, v("delete")}}, "cleanup.policy=compact", 0},
		{map[string]string{"cleanup.policy": "compact"}, []Change{{"cleanup.policy", Subtract, v("nope")}}, "cleanup.policy=compact", 0},
		{map[string]string{"cleanup.policy": "compact"}, []Change{{"cleanup.policy", Subtract, v("compact")}}, "cleanup.policy=", 0},
		{nil, []Change{{"cleanup.policy", Append, v("nope")}}, "Invalid value nope for configuration cleanup.policy: String must be one of: compact, delete", 40},
		{map[string]string{"cleanup.policy": "compact"}, []Change{{"cleanup.policy", Append, v("")}}, "Invalid value  for configuration cleanup.policy: String must be one of: compact, delete", 40},
		{map[string]string{"cleanup.policy": "compact"}, []Change{{"cleanup.policy", Append, v(",")}}, "cleanup.policy=compact", 0},
		{map[string]string{"cleanup.policy": "compact"}, []Change{{"cleanup.policy", Subtract, v("")}}, "cleanup.policy=compact", 0},
		{map[string]string{"leader.replication.throttled.replicas": ""}, []Change{{"leader.replication.throttled.replicas", Append, v("")}}, "leader.replication.throttled.replicas=", 0},
		{nil, []Change{{"retention.ms", Append, v("5")}}, "Can't APPEND to key retention.ms because its type is not LIST.", 40},
		{nil, []Change{{"retention.ms", Subtract, v("5")}}, "Can't SUBTRACT to key retention.ms because its type is not LIST.", 40},
		{nil, []Change{{"foo.bar", Append, v("5")}}, "Can't APPEND to key foo.bar because its type is not LIST.", 40},
	} {
		before := len(c.old)
		next, err := AlterTopic(s, c.old, c.changes)
		if got, code := outcome(next, err), errcode.Of(err); got != c.want || code != c.code {
			t.Errorf("%v %v: %q %d, want %q %d", c.old, c.changes, got, code, c.want, c.code)
		}
		if len(c.old) != before {
			t.Error("the old overrides changed")
		}
	}
}

func TestReplaceTopic(t *testing.T) {
	s, _ := load(t)
	v := func(s string) *string { return &s }
	for _, c := range []struct {
		values []Change
		want   string
		code   int16
	}{
		{nil, "", 0},
		{[]Change{{"retention.ms", Set, v("5")}}, "retention.ms=5", 0},
		{[]Change{{"foo", Set, v("5")}}, "Unknown topic config name: foo", 40},
		{[]Change{{"retention.ms", Set, nil}}, "Null value not supported for : retention.ms", 42},
		{[]Change{{"retention.ms", Set, v("1")}, {"retention.ms", Set, v("2")}}, "Error due to duplicate config keys", 42},
	} {
		next, err := ReplaceTopic(s, c.values)
		if got, code := outcome(next, err), errcode.Of(err); got != c.want || code != c.code {
			t.Errorf("%v: %q %d, want %q %d", c.values, got, code, c.want, c.code)
		}
	}
}

// outcome writes overrides as "a=1 b=2", or the error.
func outcome(overrides map[string]string, err error) string {
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, k := range topicTable.keys {
		if v, ok := overrides[k.Name]; ok {
			all = append(all, k.Name+"="+v)
		}
	}
	return strings.Join(all, " ")
}

func TestTopicThrottled(t *testing.T) {
	s, _ := load(t)
	for _, c := range []struct {
		value string
		want  Throttled
	}{
		{"", Throttled{}}, {"*", Throttled{All: true}}, {"0:1,1:2,7:1", Throttled{Partitions: []int32{0, 7}}}, {"0:2", Throttled{}},
		{"nonsense", Throttled{}},
	} {
		sent, fetched := TopicThrottled(s, map[string]string{"leader.replication.throttled.replicas": c.value}, 1)
		if !reflect.DeepEqual(sent, c.want) || !reflect.DeepEqual(fetched, Throttled{}) {
			t.Errorf("%q: %v, %v", c.value, sent, fetched)
		}
		if _, fetched := TopicThrottled(s, map[string]string{"follower.replication.throttled.replicas": c.value}, 1); !reflect.DeepEqual(fetched, c.want) {
			t.Errorf("%q: fetched %v", c.value, fetched)
		}
	}
}
