package log

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
)

// maxNameBytes is the longest name that file systems take.
const maxNameBytes = 255

// deleteName is the name of a partition's directory on its way out: topic-partition.HEX32-delete, the topic cut to fit.
// Source: LocalLog.logDeleteDirName.
func deleteName(tp TopicPartition) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	suffix := "-" + strconv.Itoa(int(tp.Partition)) + "." + hex.EncodeToString(id[:]) + deleteDirSuffix
	return tp.Topic[:min(len(tp.Topic), maxNameBytes-len(suffix))] + suffix
}
