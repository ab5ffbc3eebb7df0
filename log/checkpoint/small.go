package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/gregor-broker/gregor/log/vfs"
)

// CleanShutdownName is the marker that everything in a log directory was synced at its end. It goes when the directory
// is used again.
const CleanShutdownName = ".kafka_cleanshutdown"

// WriteCleanShutdown puts the marker into dir, durably.
func WriteCleanShutdown(fsys vfs.FS, dir string) error {
	return Write(fsys, path.Join(dir, CleanShutdownName), []byte(`{"version":0,"brokerEpoch":-1}`))
}

// TakeCleanShutdown says whether the marker is in dir, whatever its content, and removes it durably.
func TakeCleanShutdown(fsys vfs.FS, dir string) (bool, error) {
	err := fsys.Remove(path.Join(dir, CleanShutdownName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, fsys.SyncDir(dir)
}

// PartitionMetadataName is the file with a topic's id in a partition's directory (KIP-516).
const PartitionMetadataName = "partition.metadata"

const maxPartitionMetadataBytes = 4 << 10

// FormatPartitionMetadata is the content of the file.
func FormatPartitionMetadata(id [16]byte) []byte {
	return []byte("version: 0\ntopic_id: " + base64.RawURLEncoding.EncodeToString(id[:]))
}

// ParsePartitionMetadata reads the topic id.
func ParsePartitionMetadata(raw []byte) (id [16]byte, err error) {
	version, rest, _ := strings.Cut(strings.TrimRight(string(raw), "\n"), "\n")
	if version != "version: 0" {
		return id, fmt.Errorf("%q is not \"version: 0\"", version)
	}
	text, ok := strings.CutPrefix(rest, "topic_id: ")
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || len(decoded) != len(id) {
		return id, fmt.Errorf("%q is not a topic id", rest)
	}
	return [16]byte(decoded), nil
}

// ReadPartitionMetadata reads the topic id of the partition in dir, zero if there is no file or an empty one.
func ReadPartitionMetadata(fsys vfs.FS, dir string) (id [16]byte, err error) {
	raw, err := fsys.ReadFile(dir+"/"+PartitionMetadataName, maxPartitionMetadataBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(raw) == 0 {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	if id, err = ParsePartitionMetadata(raw); err != nil {
		return id, fmt.Errorf("%s/%s: %w", dir, PartitionMetadataName, err)
	}
	return id, nil
}
