package log

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxTopicBytes is the longest topic name (org.apache.kafka.common.internals.Topic).
const maxTopicBytes = 249

// fit says whether a partition can have a directory and lines in the checkpoints: whoever gives orders is believed in much, but not in a
// name that leads elsewhere, or that no start could read again.
func fit(tp TopicPartition) bool {
	other := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	return tp.Topic != "" && len(tp.Topic) <= maxTopicBytes && !strings.ContainsFunc(tp.Topic, other) && tp.Partition >= 0
}

// maxNameBytes is the longest name that file systems take.
const maxNameBytes = 255

// deleteName is the name of a partition's directory on its way out: topic-partition.HEX32-delete, the topic cut to fit.
// Source: LocalLog.logDeleteDirName.
func deleteName(tp TopicPartition) string { return uniqueName(tp, deleteDirSuffix) }

// strayName is the name of a partition's directory that is kept and not used: topic-partition.HEX32-stray. Source: LocalLog.logStrayDirName.
func strayName(tp TopicPartition) string { return uniqueName(tp, strayDirSuffix) }

func uniqueName(tp TopicPartition, kind string) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	suffix := "-" + strconv.Itoa(int(tp.Partition)) + "." + hex.EncodeToString(id[:]) + kind
	return tp.Topic[:min(len(tp.Topic), maxNameBytes-len(suffix))] + suffix
}
