package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// smallDisk mounts a file system of that many bytes, or leaves the test out where that is not permitted.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		t.Skipf("left out: no file system may be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fillUp writes a file until there is no room left.
func fillUp(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 64<<10); err == nil || len(block) > 1; {
		if _, err = file.Write(block); err != nil {
			block = block[:len(block)/2+len(block)%2]
			if len(block) == 1 {
				break
			}
			err = nil
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}

// TestFullDisk: a broker whose only disk is full ends, as Kafka's does. The others go on without it, nothing acknowledged is lost, and it
// catches up when there is room.
func TestFullDisk(t *testing.T) {
	harness.NeedCluster(t)
	disk := smallDisk(t, 24<<20)
	c := harness.StartCluster(t, harness.ClusterOptions{
		Props: map[string]string{"log.segment.bytes": "1048576", "log.index.size.max.bytes": "4096"}, // Kafka allots indexes
		PropsOf: func(id int) map[string]string {
			if id != 3 {
				return nil
			}
			return map[string]string{"log.dirs": filepath.Join(disk, "data")}
		},
	})
	tools := &tools{harness.JavaTools(t, harness.V39), c}
	followed, led := name("followed"), name("led")
	createAt(t, c, tools, followed, "1:2:3,2:1:3")
	createAt(t, c, tools, led, "3:1:2")
	fill(t, c, led, 1, 50, 1000)
	ballast := filepath.Join(disk, "ballast")
	fillUp(t, ballast)
	client := c.Client(t, kgo.DefaultProduceTopic(followed))
	acked := 0
	harness.Eventually(t, limit, func() error {
		if !slices.Contains(c.Alive(), 3) {
			return nil
		}
		// What fails while the broker ends is not promised.
		if err := client.ProduceSync(harness.Context(t, limit), &kgo.Record{Value: make([]byte, 10_000)}).FirstErr(); err == nil {
			acked++
		}
		return errors.New("broker 3 runs on")
	})
	if log := c.Broker(3).Log(); !strings.Contains(strings.ToLower(log), "no space left on device") {
		t.Errorf("its log does not say why:\n%.3000s", log)
	}
	for i, p := range c.Partitions(t, followed) {
		if p.Leader == 3 {
			t.Errorf("%s-%d: %+v", followed, i, p)
		}
	}
	fill(t, c, followed, 2, 50, 1000)
	if leader := c.Leader(t, led, 0); leader == 3 {
		t.Error("it still leads")
	}
	if n := count(t, c, led, 50); n != 50 {
		t.Errorf("%d records of the partition that it led", n)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	c.Restart(t, 3)
	c.AwaitInSync(t, limit)
	fill(t, c, followed, 2, 50, 1000)
	if n := count(t, c, followed, acked+200); n < acked+200 {
		t.Errorf("%d records, %d were acknowledged", n, acked+200)
	}
}
