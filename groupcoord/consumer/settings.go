package consumer

import (
	"math"
	"strings"
	"time"
)

// Policy says which way groups may turn from one protocol into the other while they have members
// (group.consumer.migration.policy).
type Policy int8

// The policies.
const (
	Bidirectional Policy = iota
	UpgradeOnly
	DowngradeOnly
	NoMigration
)

// ParsePolicy reads group.consumer.migration.policy.
func ParsePolicy(name string) Policy {
	switch strings.ToLower(name) {
	case "bidirectional":
		return Bidirectional
	case "upgrade":
		return UpgradeOnly
	case "downgrade":
		return DowngradeOnly
	}
	return NoMigration
}

// Upgrades reports whether a classic group may become one of the consumer protocol.
func (p Policy) Upgrades() bool { return p == Bidirectional || p == UpgradeOnly }

// Downgrades reports whether a group of the consumer protocol may become a classic one.
func (p Policy) Downgrades() bool { return p == Bidirectional || p == DowngradeOnly }

// Settings are the configuration values of groups of the consumer protocol, named as in Kafka's configuration.
type Settings struct {
	Times                              // of groups without a configuration of their own
	RegexRefreshInterval time.Duration // group.consumer.regex.refresh.interval.ms
	MaxSize              int           // group.consumer.max.size
	Assignors            []string      // group.consumer.assignors: the first is the default
	Migration            Policy
}

// DefaultSettings returns the defaults of Kafka 4.4.
func DefaultSettings() Settings {
	return Settings{
		Times:                Times{SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second, AssignmentInterval: time.Second},
		RegexRefreshInterval: 10 * time.Minute, MaxSize: math.MaxInt32, Assignors: []string{"uniform", "range"},
	}
}

// Times are what may be configured for each group.
type Times struct {
	SessionTimeout     time.Duration // consumer.session.timeout.ms, group.consumer.session.timeout.ms
	HeartbeatInterval  time.Duration // consumer.heartbeat.interval.ms, group.consumer.heartbeat.interval.ms
	AssignmentInterval time.Duration // consumer.assignment.interval.ms, group.consumer.assignment.interval.ms
}
