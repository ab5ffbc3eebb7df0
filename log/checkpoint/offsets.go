package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/log/vfs"
)

// Names of the offset checkpoints in a log directory.
const (
	RecoveryPoints  = "recovery-point-offset-checkpoint"
	HighWatermarks  = "replication-offset-checkpoint"
	LogStartOffsets = "log-start-offset-checkpoint"
	CleanerOffsets  = "cleaner-offset-checkpoint"
)

// maxOffsetsBytes bounds an offset checkpoint that is read: a million partitions with long names.
const maxOffsetsBytes = 256 << 20

// Offsets is an offset per partition.
type Offsets map[TopicPartition]int64

// ReadOffsets reads a checkpoint of dir. A file that is missing or empty has no entries.
func ReadOffsets(fsys vfs.FS, dir, name string) (Offsets, error) {
	raw, err := fsys.ReadFile(path.Join(dir, name), maxOffsetsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Offsets{}, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := ParseOffsets(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join(dir, name), err)
	}
	return o, nil
}

// WriteOffsets replaces a checkpoint of dir durably.
func WriteOffsets(fsys vfs.FS, dir, name string, o Offsets) error {
	return Write(fsys, path.Join(dir, name), o.Format())
}

// Format is the content of the file: version, count, and lines of topic, partition, offset, here in the order of names.
func (o Offsets) Format() []byte {
	keys := make([]TopicPartition, 0, len(o))
	for tp := range o {
		keys = append(keys, tp)
	}
	sort.Slice(keys, func(i, j int) bool {
		if keys[i].Topic != keys[j].Topic {
			return keys[i].Topic < keys[j].Topic
		}
		return keys[i].Partition < keys[j].Partition
	})
	b := make([]byte, 0, 16+48*len(o))
	b = append(b, "0\n"...)
	b = strconv.AppendInt(b, int64(len(o)), 10)
	b = append(b, '\n')
	for _, tp := range keys {
		b = append(b, tp.Topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(tp.Partition), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, o[tp], 10)
		b = append(b, '\n')
	}
	return b
}

// ParseOffsets reads what Format wrote.
func ParseOffsets(raw []byte) (Offsets, error) {
	if len(raw) == 0 {
		return Offsets{}, nil
	}
	text := string(bytes.TrimSuffix(raw, []byte("\n")))
	version, text, _ := strings.Cut(text, "\n")
	if version != "0" {
		return nil, fmt.Errorf("version %q of an offset checkpoint is not 0", version)
	}
	countLine, text, _ := strings.Cut(text, "\n")
	count, err := strconv.ParseUint(countLine, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number of entries", countLine)
	}
	if lines := strings.Count(text, "\n") + 1; uint64(lines) != max(count, 1) || count == 0 && text != "" {
		return nil, fmt.Errorf("there are %d lines for %d entries", lines, count)
	}
	o := make(Offsets, count)
	for line := range strings.SplitSeq(text, "\n") {
		if count == 0 {
			break
		}
		if err := o.parseLine(line); err != nil {
			return nil, err
		}
	}
	if uint64(len(o)) != count {
		return nil, errors.New("a partition is named twice")
	}
	return o, nil
}

func (o Offsets) parseLine(line string) error {
	topic, rest, ok1 := strings.Cut(line, " ")
	number, offsetText, ok2 := strings.Cut(rest, " ")
	partition, err1 := strconv.ParseUint(number, 10, 31)
	offset, err2 := strconv.ParseInt(offsetText, 10, 64)
	if !ok1 || !ok2 || topic == "" || err1 != nil || err2 != nil || offset < 0 {
		return fmt.Errorf("%q is not a topic, a partition and an offset", line)
	}
	o[TopicPartition{topic, int32(partition)}] = offset
	return nil
}
