// Package ibp is what brokers send each other under inter.broker.protocol.version: the one table from that setting to the
// versions of requests and forms of nodes, as Apache Kafka 3.9 has them in ZooKeeper mode. A broker answers every version that
// its ApiVersions names, whatever the setting.
package ibp

import (
	"fmt"
	"regexp"
	"strconv"
)

// Protocol is a row of the table. What does not change from 2.8 to 3.9 is not in it: ControlledShutdown 3, AllocateProducerIds 0,
// WriteTxnMarkers 1, truncation by the diverging epoch of Fetch (so no OffsetForLeaderEpoch), topic ids in orders and nodes,
// version 5 of the registration, version 3 of a topic's node.
type Protocol struct {
	LeaderAndISR, UpdateMetadata, StopReplica int16
	Fetch, ListOffsets                        int16
	// AlterPartition is the newest version that every broker has which may take part. 3.9 asks the controller for its versions
	// instead, and so speaks 3 with another 3.9.
	AlterPartition int16
	LeaderRecovery bool // an unclean election marks its leader as one that recovers (KIP-704)
	FeatureNode    int32
}

// table begins with the oldest version. An entry is valid up to the next one. After MetadataVersion, ControllerChannelManager,
// PartitionStateMachine and FeatureZNode.
var table = []struct {
	major, minor, iv int
	Protocol
}{
	{2, 8, 1, Protocol{LeaderAndISR: 5, UpdateMetadata: 7, StopReplica: 3, Fetch: 12, ListOffsets: 6, FeatureNode: 1}},
	{3, 0, 1, Protocol{LeaderAndISR: 5, UpdateMetadata: 7, StopReplica: 3, Fetch: 12, ListOffsets: 7, FeatureNode: 1}},
	{3, 1, 0, Protocol{LeaderAndISR: 5, UpdateMetadata: 7, StopReplica: 3, Fetch: 13, ListOffsets: 7, FeatureNode: 1}},
	{3, 2, 0, Protocol{LeaderAndISR: 6, UpdateMetadata: 7, StopReplica: 3, Fetch: 13, ListOffsets: 7, AlterPartition: 1,
		LeaderRecovery: true, FeatureNode: 1}},
	{3, 3, 0, Protocol{LeaderAndISR: 6, UpdateMetadata: 7, StopReplica: 3, Fetch: 13, ListOffsets: 7, AlterPartition: 2,
		LeaderRecovery: true, FeatureNode: 2}},
	{3, 4, 0, Protocol{LeaderAndISR: 7, UpdateMetadata: 8, StopReplica: 4, Fetch: 13, ListOffsets: 7, AlterPartition: 2,
		LeaderRecovery: true, FeatureNode: 2}},
	{3, 5, 0, Protocol{LeaderAndISR: 7, UpdateMetadata: 8, StopReplica: 4, Fetch: 14, ListOffsets: 8, AlterPartition: 2,
		LeaderRecovery: true, FeatureNode: 2}},
	{3, 5, 1, Protocol{LeaderAndISR: 7, UpdateMetadata: 8, StopReplica: 4, Fetch: 15, ListOffsets: 8, AlterPartition: 3,
		LeaderRecovery: true, FeatureNode: 2}},
	{3, 7, 4, Protocol{LeaderAndISR: 7, UpdateMetadata: 8, StopReplica: 4, Fetch: 16, ListOffsets: 8, AlterPartition: 3,
		LeaderRecovery: true, FeatureNode: 2}},
	{3, 9, 0, Protocol{LeaderAndISR: 7, UpdateMetadata: 8, StopReplica: 4, Fetch: 17, ListOffsets: 9, AlterPartition: 3,
		LeaderRecovery: true, FeatureNode: 2}},
}

// Latest is 3.9's own.
var Latest = table[len(table)-1].Protocol

// lastIV is the number of the last internal version of each release, which is meant where none is named.
var lastIV = map[int]int{208: 1, 300: 1, 301: 0, 302: 0, 303: 3, 304: 0, 305: 2, 306: 2, 307: 4, 308: 0, 309: 0}

var form = regexp.MustCompile(`^(\d)\.(\d+)(?:-IV(\d+))?(?:\.\d+)*$`)

// Of returns what the value of inter.broker.protocol.version stands for: "3.4", "3.4-IV0" or "3.4.1".
func Of(version string) (Protocol, error) {
	major, minor, iv, ok := parse(version)
	if !ok {
		return Protocol{}, fmt.Errorf("%q given; allowed: 2.8 to 3.9", version)
	}
	found := -1
	for i, row := range table {
		if compare(row.major, major, row.minor, minor, row.iv, iv) <= 0 {
			found = i
		}
	}
	if found < 0 {
		return Protocol{}, fmt.Errorf("%q given; allowed: 2.8 to 3.9 (bring the other brokers to 2.8 first)", version)
	}
	return table[found].Protocol, nil
}

func parse(version string) (major, minor, iv int, ok bool) {
	parts := form.FindStringSubmatch(version)
	if parts == nil {
		return 0, 0, 0, false
	}
	major, _ = strconv.Atoi(parts[1])
	minor, _ = strconv.Atoi(parts[2])
	last, known := lastIV[major*100+minor]
	if iv = last; parts[3] != "" {
		iv, _ = strconv.Atoi(parts[3])
	}
	old := major < 2 || major == 2 && minor < 8
	return major, minor, iv, old || known && iv <= last
}

// compare compares pairs, the first that differ.
func compare(pairs ...int) int {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] != pairs[i+1] {
			return pairs[i] - pairs[i+1]
		}
	}
	return 0
}
