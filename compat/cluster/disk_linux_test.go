package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// disk is a file system that a test has to itself.
type disk struct{ dir string }

// mountDisk mounts a file system of that many bytes. An error says why that is not possible here.
func mountDisk(t *testing.T, size int64) (*disk, error) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		return nil, fmt.Errorf("no file system may be mounted here: %w", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return &disk{dir}, nil
}

// resize gives the file system another size, which must be enough for what is there.
func (d *disk) resize(size int64) error {
	return syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprint("size=", size))
}

// fill takes away the room that is left, but for a little.
func (d *disk) fill() error {
	const little = 64 << 10 // it may be written to meanwhile
	var room syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &room); err != nil {
		return err
	}
	return d.resize(int64(room.Blocks-room.Bfree)*room.Bsize + little)
}

// TestFullDisk: a broker whose only disk is full ends, as Kafka's does. The others go on without it, nothing acknowledged is lost, and it
// catches up when there is room.
func TestFullDisk(t *testing.T) {
	harness.NeedCluster(t)
	const size = 24 << 20
	disk, err := mountDisk(t, size)
	if err != nil {
		t.Skip("left out: ", err)
	}
	c := harness.StartCluster(t, harness.ClusterOptions{
		Props: map[string]string{"log.segment.bytes": "1048576", "log.index.size.max.bytes": "4096"}, // Kafka allots indexes
		PropsOf: func(id int) map[string]string {
			if id != 3 {
				return nil
			}
			return map[string]string{"log.dirs": filepath.Join(disk.dir, "data")}
		},
	})
	tools := &tools{harness.JavaTools(t, harness.V39), c}
	followed, led := name("followed"), name("led")
	createAt(t, c, tools, followed, "1:2:3,2:1:3")
	createAt(t, c, tools, led, "3:1:2")
	fill(t, c, led, 1, 50, 1000)
	if err := disk.fill(); err != nil {
		t.Fatal(err)
	}
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
	if err := disk.resize(size); err != nil {
		t.Fatal(err)
	}
	c.Restart(t, 3)
	c.AwaitInSync(t, limit)
	fill(t, c, followed, 2, 50, 1000)
	if n := count(t, c, followed, acked+200); n < acked+200 {
		t.Errorf("%d records, %d were acknowledged", n, acked+200)
	}
}
