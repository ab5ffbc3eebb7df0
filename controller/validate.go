package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/controller/placement"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file holds the rules of CreateTopics. Words and order are those of kafka.server.ZkAdminManager and
// kafka.zk.AdminZkClient in 3.9; where 4.4 answers with another code, Settings.RefuseUnknownReplicas decides.

const (
	maxTopicName        = 249
	clusterMetadataName = "__cluster_metadata" // KRaft's log, never a topic of ours
)

// ValidTopicName says what is wrong with a topic's name; INVALID_TOPIC_EXCEPTION.
// After org.apache.kafka.common.internals.Topic.
func ValidTopicName(name string) error {
	var why string
	switch {
	case name == "":
		why = "the empty string is not allowed"
	case name == ".", name == "..":
		why = fmt.Sprintf("'%s' is not allowed", name)
	case len(name) > maxTopicName:
		why = fmt.Sprintf("the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	case strings.ContainsFunc(name, illegal):
		why = fmt.Sprintf("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	default:
		return nil
	}
	return errcode.New(kerr.InvalidTopicException, "Topic name is invalid: "+why)
}

func illegal(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
}

// fold makes names equal that collide in Kafka's metric names.
func fold(topic string) string { return strings.ReplaceAll(topic, ".", "_") }

func errExists(topic string) error {
	return errcode.Newf(kerr.TopicAlreadyExists, "Topic '%s' already exists.", topic)
}

// validateName says why a topic cannot get its name.
func (m *Machine) validateName(name string) error {
	r := m.reign
	if err := ValidTopicName(name); err != nil {
		return err
	}
	if t := r.topics[name]; t != nil && t.deletion != nil {
		return errcode.Newf(kerr.TopicAlreadyExists, "Topic '%s' is marked for deletion.", name)
	} else if t != nil || r.creating[name] != nil {
		return errExists(name)
	}
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	var colliding []string
	if r.folded[fold(name)] > 0 {
		for _, other := range r.topicNames() {
			if fold(other) == fold(name) {
				colliding = append(colliding, other)
			}
		}
	}
	for other := range r.creating {
		if fold(other) == fold(name) {
			colliding = append(colliding, other)
		}
	}
	if len(colliding) > 0 {
		slices.Sort(colliding)
		return errcode.Newf(kerr.InvalidTopicException, "Topic '%s' collides with existing topics: %s", name, strings.Join(colliding, ", "))
	}
	return nil
}

// duplicates returns the names that occur more than once.
func duplicates[T any](list []T, name func(*T) string) map[string]bool {
	seen, twice := map[string]bool{}, map[string]bool{}
	for i := range list {
		n := name(&list[i])
		if seen[n] {
			twice[n] = true
		}
		seen[n] = true
	}
	return twice
}

// once returns a list without what is named again: Kafka answers for it once.
func once[T any](list []T, name func(*T) string) []T {
	seen := map[string]bool{}
	var kept []T
	for i := range list {
		if n := name(&list[i]); !seen[n] {
			seen[n] = true
			kept = append(kept, list[i])
		}
	}
	return kept
}

// assignment returns the replicas that a new topic gets.
func (m *Machine) assignment(t *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	if len(t.ReplicaAssignment) > 0 {
		if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
			return nil, errcode.New(kerr.InvalidRequest, "Both numPartitions or replicationFactor and replicasAssignments were set. "+
				"Both cannot be used at the same time.")
		}
		return m.manualAssignment(t.ReplicaAssignment)
	}
	partitions, factor := t.NumPartitions, t.ReplicationFactor
	if partitions == -1 {
		partitions = m.o.Settings.NumPartitions
	}
	if factor == -1 {
		factor = m.o.Settings.DefaultReplicationFactor
	}
	if partitions > maxPartitions {
		return nil, errcode.Newf(kerr.InvalidPartitions, "%d partitions are more than the %d that one topic can have.", partitions, maxPartitions)
	}
	candidates := m.reign.candidates()
	n := max(1, len(candidates))
	return placement.Replicas(candidates, partitions, factor, placement.Start{First: m.rand.IntN(n), Shift: m.rand.IntN(n)}, 0)
}

// tooManyPartitions refuses a request as a whole that asks for more partitions than 4.4's controller makes at once
// (ReplicationControlManager.validateTotalNumberOfPartitions). 3.9 on ZooKeeper has no such limit.
func (m *Machine) tooManyPartitions(r *kmsg.CreateTopicsRequest) error {
	if !m.o.Settings.RefuseUnknownReplicas {
		return nil
	}
	total := 0
	for i := range r.Topics {
		switch t := &r.Topics[i]; {
		case len(t.ReplicaAssignment) > 0:
			total += len(t.ReplicaAssignment)
		case t.NumPartitions == -1:
			total += int(m.o.Settings.NumPartitions)
		case t.NumPartitions > 0:
			total += int(t.NumPartitions)
		}
	}
	if total > maxPartitionsAtOnce {
		return errcode.New(kerr.PolicyViolation, "Excessively large number of partitions per request.")
	}
	return nil
}

// maxPartitionsAtOnce is what one request can create beside 4.4 (QuorumController.MAX_RECORDS_PER_USER_OP).
const maxPartitionsAtOnce = 10_000

// maxPartitions bounds what one request can make us allocate; the topic's node would be more than a megabyte.
const maxPartitions = 100_000

func (m *Machine) manualAssignment(list []kmsg.CreateTopicsRequestTopicReplicaAssignment) ([][]int32, error) {
	refuse := func(format string, args ...any) ([][]int32, error) {
		return nil, errcode.Newf(kerr.InvalidReplicaAssignment, format, args...)
	}
	replicas := make([][]int32, len(list))
	for _, a := range list {
		if len(a.Replicas) != len(list[0].Replicas) {
			return refuse("All partitions should have the same number of replicas")
		}
	}
	for _, a := range list {
		if distinct := slices.Compact(slices.Sorted(slices.Values(a.Replicas))); len(distinct) != len(a.Replicas) {
			return refuse("Duplicate replica assignment found: partition %d has %v", a.Partition, a.Replicas)
		}
	}
	for _, a := range list {
		if a.Partition < 0 || int(a.Partition) >= len(list) || replicas[a.Partition] != nil {
			return refuse("partitions should be a consecutive 0-based integer sequence")
		}
		if len(a.Replicas) == 0 {
			return refuse("The manual partition assignment includes an empty replica list.")
		}
		for _, id := range a.Replicas {
			if m.o.Settings.RefuseUnknownReplicas && m.reign.brokers[id] == nil {
				return refuse("The manual partition assignment includes broker %d, but no such broker is registered.", id)
			}
		}
		replicas[a.Partition] = slices.Clone(a.Replicas)
	}
	return replicas, nil
}

// creationConfigs returns the overrides of a new topic.
func (m *Machine) creationConfigs(list []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	var null []string
	configs := map[string]string{}
	for _, c := range list {
		if c.Value == nil {
			null = append(null, c.Name)
			continue
		}
		configs[c.Name] = *c.Value
	}
	if len(null) > 0 {
		return nil, errcode.Newf(kerr.InvalidConfig, "Null value not supported for topic configs: %s", strings.Join(null, ","))
	}
	return configs, nil
}
