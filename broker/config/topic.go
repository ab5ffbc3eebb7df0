package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// topicValue is the effective value of a topic key and whether the topic's own overrides give it. An override that is
// not allowed (it was stored by something else) does not count.
func (s *Snapshot) topicValue(k *Key, overrides map[string]string) (v parsed, own bool) {
	if written, ok := overrides[k.Name]; ok {
		if v, problem := k.parse(s.mode, written); problem == nil {
			return v, true
		}
	}
	for _, synonym := range k.synonyms {
		if v := s.values[synonym.index]; v != nil {
			return normalize(k, convert(v, synonym.Name, k.Name)), false
		}
	}
	return k.defaults[s.mode-1], false
}

// normalize makes -1 of every negative retention, as Kafka does with the broker's.
func normalize(k *Key, v parsed) parsed {
	if n, ok := v.(int64); ok && n < 0 && k.Name == "retention.ms" {
		return int64(-1)
	}
	return v
}

// topic reads the values of one topic by name.
type topic struct {
	s         *Snapshot
	overrides map[string]string
}

func (t topic) value(name string) parsed {
	k := topicTable.byName[name]
	if k == nil {
		panic("config: no such topic key: " + name)
	}
	v, _ := t.s.topicValue(k, t.overrides)
	return v
}

func (t topic) long(name string) int64    { n, _ := t.value(name).(int64); return n }
func (t topic) int(name string) int32     { return int32(t.long(name)) }
func (t topic) bool(name string) bool     { b, _ := t.value(name).(bool); return b }
func (t topic) text(name string) string   { s, _ := t.value(name).(string); return s }
func (t topic) has(name, v string) bool   { return slices.Contains(asList(t.value(name)), v) }
func (t topic) ratio(name string) float64 { f, _ := t.value(name).(float64); return f }

// TopicLog returns the configuration of the logs of a topic with these overrides.
func TopicLog(s *Snapshot, overrides map[string]string) *log.Config {
	t := topic{s, overrides}
	c := &log.Config{
		SegmentBytes: t.segmentBytes(), SegmentMs: t.long("segment.ms"), SegmentJitterMs: t.long("segment.jitter.ms"),
		IndexIntervalBytes: t.int("index.interval.bytes"), SegmentIndexBytes: t.int("segment.index.bytes"),
		FlushMessages: t.long("flush.messages"), FlushMs: t.long("flush.ms"),
		RetentionBytes: t.long("retention.bytes"), RetentionMs: t.long("retention.ms"),
		Compact: t.has("cleanup.policy", "compact"), Delete: t.has("cleanup.policy", "delete"),
		MaxMessageBytes: t.int("max.message.bytes"), TimestampBeforeMaxMs: t.timestampLimit("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs: t.timestampLimit("message.timestamp.after.max.ms"), Compression: t.compression(),
		FileDeleteDelayMs:      t.long("file.delete.delay.ms"),
		MinCleanableDirtyRatio: t.ratio("min.cleanable.dirty.ratio"), MinCompactionLagMs: t.long("min.compaction.lag.ms"),
		MaxCompactionLagMs: t.long("max.compaction.lag.ms"), DeleteRetentionMs: t.long("delete.retention.ms"),
	}
	if t.text("message.timestamp.type") == "LogAppendTime" {
		c.TimestampType = record.LogAppendTime
	}
	return c
}

func (t topic) segmentBytes() int32 {
	if n, ok := t.value("internal.segment.bytes").(int64); ok && t.s.mode == Kafka44 {
		return int32(n)
	}
	return t.int("segment.bytes")
}

// timestampLimit is a limit of record timestamps. In Kafka 3.9 the older key gives both where they have their defaults.
func (t topic) timestampLimit(name string) int64 {
	n := t.long(name)
	const older = "message.timestamp.difference.max.ms"
	if t.s.mode == Kafka39 && n == topicTable.byName[name].defaults[Kafka39-1].(int64) {
		return t.long(older)
	}
	return n
}

func (t topic) compression() record.Compression {
	name := t.text("compression.type")
	level := 0
	switch name {
	case "gzip", "lz4", "zstd":
		level = int(t.long("compression." + name + ".level"))
	}
	c, err := record.ParseCompression(name, level)
	if err != nil {
		return record.Compression{} // cannot be: the table allows the codecs' names only
	}
	return c
}

// TopicMinISR returns a topic's min.insync.replicas.
func TopicMinISR(s *Snapshot, overrides map[string]string) int {
	return int(topic{s, overrides}.long("min.insync.replicas"))
}

// TopicUncleanElection returns a topic's unclean.leader.election.enable.
func TopicUncleanElection(s *Snapshot, overrides map[string]string) bool {
	return topic{s, overrides}.bool("unclean.leader.election.enable")
}

// TopicDownconversion says whether a topic's records are converted for consumers that know only older formats.
func TopicDownconversion(s *Snapshot, overrides map[string]string) bool {
	return topic{s, overrides}.bool("message.downconversion.enable")
}

// Throttled is which of a topic's replicas on a broker are throttled.
type Throttled struct {
	All        bool
	Partitions []int32
}

// TopicThrottled returns what of a topic a broker sends to followers, and fetches itself, within the replication throttles
// (leader. and follower.replication.throttled.replicas).
func TopicThrottled(s *Snapshot, overrides map[string]string, broker int32) (sent, fetched Throttled) {
	t := topic{s, overrides}
	return throttledOn(t.value("leader.replication.throttled.replicas"), broker),
		throttledOn(t.value("follower.replication.throttled.replicas"), broker)
}

// throttledOn reads a list of partition:broker, or "*".
func throttledOn(v parsed, broker int32) (t Throttled) {
	for _, item := range asList(v) {
		partition, on, _ := strings.Cut(item, ":")
		p, bad := strconv.ParseInt(partition, 10, 32)
		switch id, err := strconv.ParseInt(on, 10, 32); {
		case item == "*":
			t.All = true
		case err == nil && bad == nil && int32(id) == broker:
			t.Partitions = append(t.Partitions, int32(p))
		}
	}
	return t
}

// ValidateTopic returns nil or an error with code INVALID_CONFIG and Kafka's message.
func ValidateTopic(s *Snapshot, overrides map[string]string) error {
	names := slices.Sorted(maps.Keys(overrides))
	for _, name := range names {
		if k := topicTable.byName[name]; k == nil || !k.in(s.mode) {
			return errcode.Newf(kerr.InvalidConfig, "Unknown topic config name: %s", name)
		}
	}
	for _, name := range names {
		k := topicTable.byName[name]
		if _, problem := k.parse(s.mode, overrides[name]); problem != nil {
			return errcode.New(kerr.InvalidConfig, problem.message(name))
		}
	}
	t := topic{s, overrides}
	if low, high := t.long("min.compaction.lag.ms"), t.long("max.compaction.lag.ms"); low > high {
		return errcode.Newf(kerr.InvalidConfig,
			"conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", low, high)
	}
	if t.bool("remote.storage.enable") {
		return errcode.New(kerr.InvalidConfig, "Tiered Storage functionality is disabled in the broker. "+
			"Topic cannot be configured with remote log storage.")
	}
	return nil
}

// NullTopicConfigs is the error of CreateTopics for keys without value.
func NullTopicConfigs(names string) error {
	return errcode.New(kerr.InvalidConfig, fmt.Sprintf("Null value not supported for topic configs: %s", names))
}
