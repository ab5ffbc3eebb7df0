package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is the name of the partition's directory: topic-partition.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// ParseTopicPartition reads the form that String prints: the number is what follows the last dash.
func ParseTopicPartition(name string) (TopicPartition, error) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return TopicPartition{}, fmt.Errorf("%q is not topic-partition", name)
	}
	n, err := strconv.ParseUint(name[dash+1:], 10, 31)
	if err != nil {
		return TopicPartition{}, fmt.Errorf("%q is not topic-partition", name)
	}
	return TopicPartition{name[:dash], int32(n)}, nil
}
