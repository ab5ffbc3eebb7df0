package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// commitOld commits an offset of partitions 0, 1 … of a topic as clients before 0.8.2 do, and shows the codes.
func commitOld(c *raw.Conn, group, topic, metadata string, offsets ...int64) string {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group = group
	asked := kmsg.NewOffsetCommitRequestTopic()
	asked.Topic = topic
	for i, offset := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(i), offset, &metadata
		asked.Partitions = append(asked.Partitions, p)
	}
	r.Topics = append(r.Topics, asked)
	codes := map[int32]int16{}
	for _, t := range raw.Do[*kmsg.OffsetCommitResponse](c, raw.With(r, 0)).Topics {
		for _, p := range t.Partitions {
			codes[p.Partition] = p.ErrorCode
		}
	}
	return fmt.Sprint(codes)
}

// fetchOld asks for offsets in that way, and shows partition: offset, error.
func fetchOld(c *raw.Conn, group, topic string, partitions ...int32) string {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group = group
	r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: topic, Partitions: partitions})
	found := map[int32]string{}
	for _, t := range raw.Do[*kmsg.OffsetFetchResponse](c, raw.With(r, 0)).Topics {
		for _, p := range t.Partitions {
			text := fmt.Sprint(p.Offset, " ", p.ErrorCode)
			if p.Metadata != nil && *p.Metadata != "" {
				text += " " + *p.Metadata
			}
			found[p.Partition] = text
		}
	}
	return fmt.Sprint(found)
}

// TestOffsetsInZooKeeper: OffsetCommit and OffsetFetch v0 keep offsets where clients of that time look for them, on any broker.
func TestOffsetsInZooKeeper(t *testing.T) {
	c, tools := shared(t)
	topic := name("old")
	createAt(t, c, tools, topic, "1:2,2:3")
	group := name("old-group")
	one, two := raw.Dial(t, c.Broker(1).Addr), raw.Dial(t, c.Broker(2).Addr)
	for _, step := range []struct{ what, got, want string }{
		{"no offsets yet", fetchOld(one, group, topic, 0, 1, 2), "map[0:-1 3 1:-1 3 2:-1 3]"},
		{"a commit", commitOld(one, group, topic, "of old", 5, 6), "map[0:0 1:0]"},
		{"read on another broker", fetchOld(two, group, topic, 0, 1), "map[0:5 0 1:6 0]"},
		{"again, and back", commitOld(two, group, topic, "", 3), "map[0:0]"},
		{"read there", fetchOld(one, group, topic, 0), "map[0:3 0]"},
		{"a partition that does not exist", commitOld(one, group, topic, "", 1, 2, 3), "map[0:0 1:0 2:3]"},
		{"a topic that does not exist", commitOld(one, group, "no-"+topic, "", 1), "map[0:3]"},
		{"metadata that is too long", commitOld(one, group, topic, strings.Repeat("x", 4097), 9), "map[0:12]"},
		{"metadata that just fits", commitOld(one, group, topic, strings.Repeat("x", 4096), 8), "map[0:0]"},
		{"which is not kept", fetchOld(two, group, topic, 0, 1), "map[0:8 0 1:2 0]"},
		{"a group whose name makes no path", commitOld(one, "a//b", topic, "", 1), "map[0:-1]"},
		{"reading of such", fetchOld(one, "a//b", topic, 0), "map[0:-1 -1]"},
		{"a group whose name makes a deeper path", commitOld(one, group+"/x", topic, "", 4), "map[0:0]"},
		{"reading of that", fetchOld(one, group+"/x", topic, 0), "map[0:4 0]"},
	} {
		if step.got != step.want {
			t.Errorf("%s: %s, want %s", step.what, step.got, step.want)
		}
	}
	path := "/consumers/" + group + "/offsets/" + topic + "/0"
	if got := tools.zookeeper(t, "get", path); got != "8" {
		t.Errorf("%s is %q", path, got)
	}
	// A client of that time writes its offsets itself; a broker finds them.
	tools.zookeeper(t, "set", path, "77")
	if got := fetchOld(two, group, topic, 0); got != "map[0:77 0]" {
		t.Errorf("after an old client's own commit: %s", got)
	}
	// The group coordinator knows nothing of it.
	out := tools.try(t, "kafka-consumer-groups", "--describe", "--group", group)
	if strings.Contains(out.Stdout, topic) {
		t.Errorf("the coordinator has the offsets too:\n%s", out)
	}
}

// TestOldPythonClient: kafka-python as it spoke to Kafka 0.8.1.
func TestOldPythonClient(t *testing.T) {
	c, tools := shared(t)
	harness.Need(t, "python")
	topic, group := name("older"), name("older-group")
	createAt(t, c, tools, topic, "1:2,2:3")
	script := filepath.Join(harness.Root(), "compat", "cluster", "oldoffsets.py")
	out := harness.Command(t, limit, "", nil, filepath.Join(harness.Cache(), "venv", "bin", "python"), script, c.Broker(1).Addr, topic, group)
	if out.Code != 0 || out.Stdout != "committed 7\ncommitted None\n" {
		t.Errorf("it ends with %d:\n%s", out.Code, out)
	}
	if got := tools.zookeeper(t, "get", "/consumers/"+group+"/offsets/"+topic+"/0"); got != "7" {
		t.Errorf("in ZooKeeper there is %q", got)
	}
}
