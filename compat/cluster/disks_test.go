package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestOneOfTwoDisks: a broker that loses one of its disks, at work or before its start, goes on with the other. What lay on the one is led
// by others, what is new lies on the other, and the tools say which is which.
func TestOneOfTwoDisks(t *testing.T) {
	harness.NeedCluster(t)
	disks := []string{filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")}
	c := harness.StartCluster(t, harness.ClusterOptions{
		Props: map[string]string{"log.segment.bytes": "100000", "log.index.size.max.bytes": "4096"},
		PropsOf: func(id int) map[string]string {
			if id != 3 {
				return nil
			}
			return map[string]string{"log.dirs": disks[0] + "," + disks[1]}
		},
	})
	tools := &tools{harness.JavaTools(t, harness.V39), c}
	topic := name("disks")
	createAt(t, c, tools, topic, "3:1:2,3:1:2,3:1:2,3:1:2")
	fill(t, c, topic, 4, 20, 1000)
	on := func(disk, topic string, partition int) bool {
		_, err := os.Stat(filepath.Join(disk, fmt.Sprintf("%s-%d", topic, partition)))
		return err == nil
	}
	var lost []int
	for p := range 4 {
		if on(disks[1], topic, p) {
			lost = append(lost, p)
		}
	}
	if len(lost) != 2 {
		t.Fatalf("%v of 4 partitions are on the second disk", lost)
	}
	settled := func(topic string) {
		t.Helper()
		harness.Eventually(t, limit, func() error {
			for i, p := range c.Partitions(t, topic) {
				gone := slices.Contains(lost, i)
				if gone == slices.Contains(p.ISR, 3) || gone && p.Leader == 3 || p.Leader == 0 {
					return fmt.Errorf("%s-%d, lost %v: %+v", topic, i, lost, p)
				}
			}
			return nil
		})
	}

	away := disks[1] + ".away"
	if err := os.Rename(disks[1], away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disks[1], nil, 0o644); err != nil {
		t.Fatal(err)
	}
	client := c.Client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	acked := 80
	for _, p := range lost { // until its segment is full
		harness.Eventually(t, limit, func() error {
			if err := client.ProduceSync(harness.Context(t, limit), &kgo.Record{Partition: int32(p), Value: make([]byte, 20_000)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if acked++; c.Partitions(t, topic)[p].Leader == 3 {
				return errors.New("broker 3 still leads")
			}
			return nil
		})
	}
	settled(topic)
	told := func() {
		t.Helper()
		wantMatch(t, tools.run(t, "kafka-log-dirs", "--describe", "--broker-list", "3"), `"error":"[\w.]*KafkaStorageException","logDir":"`+disks[1]+`"|`+
			`"logDir":"`+disks[1]+`","error":"[\w.]*KafkaStorageException"`)
	}
	told()
	fresh := name("fresh")
	createAt(t, c, tools, fresh, "3:1:2,1:3:2,2:1:3")
	for p := range 3 {
		if !on(disks[0], fresh, p) {
			t.Errorf("%s-%d is not on the first disk", fresh, p)
		}
	}

	c.Kill(3)
	c.Restart(t, 3)
	settled(topic)
	c.AwaitInSync(t, limit, fresh)
	told()
	fill(t, c, topic, 4, 5, 1000)

	c.Stop(t, 3)
	if err := os.Remove(disks[1]); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, disks[1]); err != nil {
		t.Fatal(err)
	}
	c.Restart(t, 3)
	c.AwaitInSync(t, limit)
	if n := count(t, c, topic, acked+20); n != acked+20 {
		t.Errorf("%d records, %d were acknowledged", n, acked+20)
	}
}
