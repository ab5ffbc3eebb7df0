package api

import (
	"fmt"
	"io"
	"slices"

	"github.com/gregor-broker/gregor/controller"
)

// entries is the table, in the order of the keys.
var entries = []*Entry{
	&produce,
	&fetch,
	&listOffsets,
	&metadataAPI,
	&leaderAndISR,
	&stopReplica,
	&updateMetadata,
	&controlledShutdown,
	&offsetCommit,
	&offsetFetch,
	&findCoordinator,
	&joinGroup,
	&heartbeat,
	&leaveGroup,
	&syncGroup,
	&describeGroups,
	&listGroups,
	&apiVersions,
	&createTopics,
	&deleteTopics,
	&deleteRecords,
	&initProducerID,
	&offsetForLeaderEpoch,
	&addPartitionsToTxn,
	&addOffsetsToTxn,
	&endTxnAPI,
	&writeTxnMarkers,
	&txnOffsetCommit,
	&describeConfigs,
	&alterConfigs,
	&describeLogDirs,
	&createPartitions,
	&deleteGroups,
	&electLeaders,
	&incrementalAlterConfigs,
	&alterPartitionReassignments,
	&listPartitionReassignments,
	&offsetDelete,
	&describeClientQuotas,
	&alterClientQuotas,
	&describeUserSCRAM,
	&describeQuorum,
	&alterPartition,
	&updateFeatures,
	&describeCluster,
	&describeProducers,
	&describeTransactions,
	&listTransactions,
	&allocateProducerIDs,
	&consumerGroupHeartbeat,
	&consumerGroupDescribe,
	&getTelemetrySubscriptions,
	&pushTelemetry,
	&listConfigResources,
	&describeTopicPartitions,
}

// Table is what a broker serves in its mode. Immutable.
type Table struct {
	mode  Mode
	byKey []*Entry // index is the key; nil where nothing is served
}

// tables are those of all modes.
var tables [Extended + 1]*Table

func init() {
	for mode := range tables {
		tables[mode] = NewTable(Mode(mode))
	}
}

// APIs is what the broker serves right now.
func (s *Services) APIs() *Table {
	switch {
	case s.Embedded:
		return tables[Embedded]
	case s.extended():
		return tables[Extended]
	}
	return tables[ZooKeeper]
}

// extended says whether this is a cluster on ZooKeeper in which gregor.extensions is on.
func (s *Services) extended() bool {
	return !s.Embedded && s.Features().Level(controller.Extensions) > 0
}

// NewTable returns the table of a mode.
func NewTable(mode Mode) *Table {
	t := &Table{mode: mode}
	for _, e := range entries {
		if e.Served(mode).Empty() {
			continue
		}
		for len(t.byKey) <= int(e.Key) {
			t.byKey = append(t.byKey, nil)
		}
		t.byKey[e.Key] = e
	}
	return t
}

func (t *Table) entry(key int16) *Entry {
	if key < 0 || int(key) >= len(t.byKey) {
		return nil
	}
	return t.byKey[key]
}

// Versions is what is served of a key; empty when it is not served.
func (t *Table) Versions(key int16) Versions {
	if e := t.entry(key); e != nil {
		return e.Served(t.mode)
	}
	return none
}

// Entries returns the served entries in the order of the keys.
func (t *Table) Entries() []*Entry {
	return slices.DeleteFunc(slices.Clone(t.byKey), func(e *Entry) bool { return e == nil })
}

// WriteDocs writes the table as Markdown, for docs/compatibility.md.
func WriteDocs(w io.Writer) error {
	if _, err := fmt.Fprint(w, "| key | API | embedded | on ZooKeeper | with gregor.extensions | 3.9 | 4.4 | needs | runs |\n"+
		"|---|---|---|---|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, e := range entries {
		runs := "handler"
		if e.Runs == onProcessor {
			runs = "processor"
		}
		if e.Controller {
			runs += ", controller"
		}
		_, err := fmt.Fprintf(w, "| %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", e.Key, Name(e.Key.Int16()),
			e.Served(Embedded), e.Served(ZooKeeper), e.Served(Extended), e.ZooKeeper, e.Kafka4, e.Access, runs)
		if err != nil {
			return err
		}
	}
	return writeMissing(w)
}

// writeMissing writes what is not served.
func writeMissing(w io.Writer) error {
	if _, err := fmt.Fprint(w, "\nWhat brokers of Kafka serve besides, and this one does not; what only KRaft's controllers and brokers say to each other is left out.\n\n"+
		"| key | API | 3.9 | 4.4 | why not |\n|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, m := range missing {
		if _, err := fmt.Fprintf(w, "| %d | %s | %s | %s | %s |\n", m.key, Name(m.key.Int16()), m.zooKeeper, m.kafka4, m.why); err != nil {
			return err
		}
	}
	return nil
}
