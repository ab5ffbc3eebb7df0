package config

import (
	"maps"
	"slices"
	"time"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// SourceGroup is the configuration of a group.
const SourceGroup Source = 8

// groupLimits are the keys of the broker that a group's key must lie between.
var groupLimits = map[string][2]string{
	"consumer.session.timeout.ms":     {"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	"consumer.heartbeat.interval.ms":  {"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	"consumer.assignment.interval.ms": {"group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
}

// AlterGroup returns the configuration of a group that changes make of old (IncrementalAlterConfigs), validated; old is not
// modified. Errors carry a code: INVALID_REQUEST, INVALID_CONFIG. After GroupConfig.validate.
func AlterGroup(s *Snapshot, old map[string]string, changes []Change) (map[string]string, error) {
	next, err := s.applyAll(groupTable, old, changes)
	if err != nil {
		return nil, err
	}
	return next, s.checkGroup(old, next)
}

// ReplaceGroup returns the configuration that AlterConfigs sets: exactly these values and no others.
func ReplaceGroup(s *Snapshot, values []Change) (map[string]string, error) {
	if err := wellFormed(values); err != nil {
		return nil, err
	}
	next := map[string]string{}
	for _, c := range values {
		next[c.Name] = *c.Value
	}
	return next, s.checkGroup(nil, next)
}

// checkGroup judges a group's configuration; what stands in old already may be without effect.
func (s *Snapshot) checkGroup(old, next map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(next)) {
		k := groupTable.byName[name]
		if k == nil {
			return errcode.Newf(kerr.InvalidConfig, "Unknown group config name: %s", name)
		}
		v, problem := k.parse(s.mode, next[name])
		if problem != nil {
			return errcode.New(kerr.InvalidConfig, problem.message(name))
		}
		if _, had := old[name]; k.Standing == Accepted && !had {
			return errcode.Newf(kerr.InvalidConfig, "%s is not changed, since it would have no effect: %s", name, k.Why)
		}
		if limits, ok := groupLimits[name]; ok {
			least, most := s.limit(limits[0]), s.limit(limits[1])
			if n, _ := v.(int64); n < least || n > most {
				return errcode.Newf(kerr.InvalidConfig, "%s must be in the range %d to %d inclusive.", name, least, most)
			}
		}
	}
	return s.checkSession(next)
}

func (s *Snapshot) limit(name string) int64 {
	n, _ := s.value(name).(int64)
	return n
}

// checkSession: a session lasts longer than the time between heartbeats.
func (s *Snapshot) checkSession(values map[string]string) error {
	const session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
	_, one := values[session]
	_, other := values[heartbeat]
	if (one || other) && s.groupLong(session, values) <= s.groupLong(heartbeat, values) {
		return errcode.Newf(kerr.InvalidConfig, "%s must be greater than %s", session, heartbeat)
	}
	return nil
}

func (s *Snapshot) groupLong(name string, values map[string]string) int64 {
	v, _ := s.topicValue(groupTable.byName[name], values)
	n, _ := v.(int64)
	return n
}

// GroupTimes are how often the members of a group of the consumer protocol send heartbeats, and the like.
type GroupTimes struct{ SessionTimeout, HeartbeatInterval, AssignmentInterval time.Duration }

// GroupTimesOf returns the times of a group with that configuration. Stored values that the broker's limits do not allow any
// more are brought within them, as GroupConfig.evaluate does.
func GroupTimesOf(s *Snapshot, values map[string]string) GroupTimes {
	get := func(name string) time.Duration {
		n := s.groupLong(name, values)
		if _, own := values[name]; own {
			n = min(max(n, s.limit(groupLimits[name][0])), s.limit(groupLimits[name][1]))
		}
		return time.Duration(n) * time.Millisecond
	}
	return GroupTimes{get("consumer.session.timeout.ms"), get("consumer.heartbeat.interval.ms"), get("consumer.assignment.interval.ms")}
}

// DescribeGroup returns the rows of a group with that configuration, by name: all, or (names not nil) those named.
func DescribeGroup(s *Snapshot, values map[string]string, names []string) []Row {
	var rows []Row
	for i := range groupTable.keys {
		k := &groupTable.keys[i]
		_, set := values[k.Name]
		if !set && k.internalIn(s.mode) || !wanted(names, k.Name) {
			continue
		}
		row := s.topicRow(k, values)
		for j := range row.Synonyms {
			if row.Synonyms[j].Source == SourceTopic {
				row.Synonyms[j].Source = SourceGroup
			}
		}
		if len(k.synonyms) == 0 { // no key of the broker stands behind it
			if def := k.defaults[s.mode-1]; def != nil {
				row.Synonyms = append(row.Synonyms, Synonym{Name: k.Name, Value: pointer(format(def)), Source: SourceDefault})
			}
		}
		row.Source = firstSource(row.Synonyms)
		rows = append(rows, row)
	}
	return rows
}
