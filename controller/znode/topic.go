package znode

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Topic is the data of /brokers/topics/T. Replicas, and the other two where a partition is being reassigned, are by partition.
type Topic struct {
	ID       [16]byte // zero: the node has none (before version 3)
	Replicas [][]int32
	Adding   map[int32][]int32
	Removing map[int32][]int32
}

// Encode writes version 3 with the partitions in order.
func (t Topic) Encode() []byte {
	b := make([]byte, 0, 128+16*len(t.Replicas))
	b = append(b, `{"partitions":{`...)
	for p, replicas := range t.Replicas {
		if p > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = strconv.AppendInt(b, int64(p), 10)
		b = append(b, `":`...)
		b = appendIDs(b, replicas)
	}
	b = append(b, `},"topic_id":"`...)
	b = append(b, FormatID(t.ID)...)
	b = append(b, `","adding_replicas":`...)
	b = append(b, encode(byText(t.Adding))...)
	b = append(b, `,"removing_replicas":`...)
	b = append(b, encode(byText(t.Removing))...)
	return append(b, `,"version":3}`...)
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

func byText(m map[int32][]int32) map[string][]int32 {
	out := make(map[string][]int32, len(m))
	for p, replicas := range m {
		out[strconv.Itoa(int(p))] = replicas
	}
	return out
}

// DecodeTopic reads versions 1 to 3. Partitions must be numbered from 0 without gaps and have replicas; those that come or go must be
// among them.
func DecodeTopic(data []byte) (Topic, error) {
	var v struct {
		Partitions map[string][]int32 `json:"partitions"`
		ID         string             `json:"topic_id"`
		Adding     map[string][]int32 `json:"adding_replicas"`
		Removing   map[string][]int32 `json:"removing_replicas"`
	}
	if err := decode("a topic", data, &v); err != nil {
		return Topic{}, err
	}
	t := Topic{Replicas: make([][]int32, len(v.Partitions))}
	for text, replicas := range v.Partitions {
		p, err := strconv.Atoi(text)
		if err != nil || p < 0 || p >= len(t.Replicas) || strconv.Itoa(p) != text {
			return Topic{}, fmt.Errorf("not a topic: partition %q of %d", text, len(t.Replicas))
		}
		if !distinct(replicas) {
			return Topic{}, fmt.Errorf("not a topic: replicas %v of partition %d", replicas, p)
		}
		t.Replicas[p] = replicas
	}
	if len(t.Replicas) == 0 {
		return Topic{}, errors.New("not a topic: it has no partitions")
	}
	var err error
	if v.ID != "" {
		if t.ID, err = ParseID(v.ID); err != nil {
			return Topic{}, fmt.Errorf("not a topic: %w", err)
		}
	}
	if t.Adding, err = byNumber(v.Adding); err != nil {
		return Topic{}, err
	}
	if t.Removing, err = byNumber(v.Removing); err != nil {
		return Topic{}, err
	}
	return t, t.checkMoves()
}

// distinct says whether a list of replicas can be one: there are some, each is named once, and their ids are ids.
func distinct(replicas []int32) bool {
	for i, id := range replicas {
		if id < 0 || slices.Contains(replicas[:i], id) {
			return false
		}
	}
	return len(replicas) > 0
}

// checkMoves looks whether what is added and removed are replicas, and not all of them.
func (t *Topic) checkMoves() error {
	for _, part := range []map[int32][]int32{t.Adding, t.Removing} {
		for p, ids := range part {
			if len(ids) == 0 {
				continue
			}
			if p < 0 || int(p) >= len(t.Replicas) || !distinct(ids) || len(ids) >= len(t.Replicas[p]) || !subset(ids, t.Replicas[p]) {
				return fmt.Errorf("not a topic: %v as added or removed replicas of partition %d", ids, p)
			}
		}
	}
	return nil
}

func subset(ids, of []int32) bool {
	return !slices.ContainsFunc(ids, func(id int32) bool { return !slices.Contains(of, id) })
}

func byNumber(m map[string][]int32) (map[int32][]int32, error) {
	if len(m) == 0 {
		return nil, nil
	}
	out := make(map[int32][]int32, len(m))
	for text, replicas := range m {
		p, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("not a topic: partition %q", text)
		}
		out[int32(p)] = replicas
	}
	return out, nil
}

// State is the data of /brokers/topics/T/partitions/P/state. Leader is -1 when there is none.
type State struct {
	ControllerEpoch int32
	Leader          int32
	LeaderEpoch     int32
	ISR             []int32
	Recovering      bool // after an unclean election
}

// Encode writes version 1.
func (s State) Encode() []byte {
	b := make([]byte, 0, 96)
	b = append(b, `{"controller_epoch":`...)
	b = strconv.AppendInt(b, int64(s.ControllerEpoch), 10)
	b = append(b, `,"leader":`...)
	b = strconv.AppendInt(b, int64(s.Leader), 10)
	b = append(b, `,"version":1,"leader_epoch":`...)
	b = strconv.AppendInt(b, int64(s.LeaderEpoch), 10)
	b = append(b, `,"isr":`...)
	b = appendIDs(b, s.ISR)
	if s.Recovering {
		b = append(b, `,"leader_recovery_state":1`...)
	}
	return append(b, '}')
}

// DecodeState reads a partition's state.
func DecodeState(data []byte) (State, error) {
	v := struct {
		ControllerEpoch int32   `json:"controller_epoch"`
		Leader          *int32  `json:"leader"`
		LeaderEpoch     *int32  `json:"leader_epoch"`
		ISR             []int32 `json:"isr"`
		Recovery        int32   `json:"leader_recovery_state"`
	}{}
	if err := decode("a partition state", data, &v); err != nil {
		return State{}, err
	}
	if v.Leader == nil || v.LeaderEpoch == nil {
		return State{}, fmt.Errorf("not a partition state: %s", data)
	}
	return State{v.ControllerEpoch, *v.Leader, *v.LeaderEpoch, v.ISR, v.Recovery == 1}, nil
}

// Partition names a partition in the nodes that list some.
type Partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type partitionList struct {
	Version    int32       `json:"version"`
	Partitions []Partition `json:"partitions"`
}

// EncodePartitions is the data of /admin/preferred_replica_election and of an isr_change node.
func EncodePartitions(list []Partition) []byte { return encode(partitionList{1, list}) }

// DecodePartitions reads what EncodePartitions wrote.
func DecodePartitions(data []byte) ([]Partition, error) {
	var v partitionList
	err := decode("a list of partitions", data, &v)
	return v.Partitions, err
}

// Reassignment is one entry of /admin/reassign_partitions.
type Reassignment struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
}

type reassignmentList struct {
	Version    int32          `json:"version"`
	Partitions []Reassignment `json:"partitions"`
}

// EncodeReassignments is the data of /admin/reassign_partitions.
func EncodeReassignments(list []Reassignment) []byte { return encode(reassignmentList{1, list}) }

// DecodeReassignments reads /admin/reassign_partitions.
func DecodeReassignments(data []byte) ([]Reassignment, error) {
	var v reassignmentList
	err := decode("reassignments", data, &v)
	return v.Partitions, err
}

// EncodeLogDirEvent is the data of a log_dir_event node: a log directory of the broker has failed.
func EncodeLogDirEvent(broker int32) []byte {
	return encode(struct {
		Version int32 `json:"version"`
		Broker  int32 `json:"broker"`
		Event   int32 `json:"event"`
	}{1, broker, 1})
}

// DecodeLogDirEvent returns the broker of a log_dir_event node.
func DecodeLogDirEvent(data []byte) (int32, error) {
	v := struct {
		Broker *int32 `json:"broker"`
	}{}
	if err := decode("a log directory event", data, &v); err != nil {
		return -1, err
	}
	if v.Broker == nil {
		return -1, fmt.Errorf("not a log directory event: %s", data)
	}
	return *v.Broker, nil
}
