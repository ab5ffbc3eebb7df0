package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// move is one partition's change of replicas, preferred leader first.
type move struct {
	partition
	from, to []int32 // from is nil when it is not known
}

// adding is the replicas that have to be copied.
func (m move) adding() []int32 {
	return slices.DeleteFunc(slices.Clone(m.to), func(broker int32) bool { return slices.Contains(m.from, broker) })
}

func sortMoves(moves []move) {
	slices.SortFunc(moves, func(a, b move) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id))
	})
}

// planFile is a reassignment as kafka-reassign-partitions reads and writes it.
type planFile struct {
	Version    int             `json:"version"`
	Partitions []planPartition `json:"partitions"`
}

type planPartition struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Replicas  []int32  `json:"replicas"`
	LogDirs   []string `json:"log_dirs,omitempty"`
}

// readPlan reads such a file. What is in it is checked only for sense; whether the brokers exist is for the controller to say.
func readPlan(r io.Reader) ([]move, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var file planFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	if file.Version != 1 {
		return nil, fmt.Errorf("it has version %d, not 1", file.Version)
	}
	if len(file.Partitions) == 0 {
		return nil, fmt.Errorf("it names no partitions")
	}
	seen := map[partition]bool{}
	var moves []move
	for _, p := range file.Partitions {
		name := partition{p.Topic, p.Partition}
		switch {
		case p.Topic == "" || p.Partition < 0:
			return nil, fmt.Errorf("it has a partition %q of topic %q", fmt.Sprint(p.Partition), p.Topic)
		case seen[name]:
			return nil, fmt.Errorf("%s is named twice", name)
		case len(p.Replicas) == 0:
			return nil, fmt.Errorf("%s has no replicas", name)
		case slices.ContainsFunc(p.LogDirs, func(dir string) bool { return dir != "any" }):
			return nil, fmt.Errorf("%s: only the log directory \"any\" can be asked for", name)
		}
		for i, broker := range p.Replicas {
			if broker < 0 || slices.Contains(p.Replicas[:i], broker) {
				return nil, fmt.Errorf("%s: replicas %v", name, p.Replicas)
			}
		}
		seen[name] = true
		moves = append(moves, move{partition: name, to: p.Replicas})
	}
	sortMoves(moves)
	return moves, nil
}

func writePlan(w io.Writer, moves []move) error {
	file := planFile{Version: 1, Partitions: []planPartition{}}
	for _, m := range moves {
		file.Partitions = append(file.Partitions, planPartition{Topic: m.topic, Partition: m.id, Replicas: m.to})
	}
	return json.NewEncoder(w).Encode(file)
}
