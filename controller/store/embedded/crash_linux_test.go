package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
	"golang.org/x/sys/unix"
)

// crashes follows what a store does to its file and makes of it what a power failure could leave at each moment. Writes are
// seen where bbolt makes them; syncs are seen by their effect, that the kernel has no page of the file left to write.
type crashes struct {
	t      *testing.T
	path   string
	fd     int
	random *rand.Rand
	disk   *vfs.Mem // holds the file as far as it is written, and knows what of that is synced
	file   vfs.File
	end    int64 // of the writes
	dirty  bool  // there are writes that no sync was seen of

	answered int // commits that were
	images   int
	found    map[int]int // how many images had the state after that many commits
}

const imageName = "/d/metadata"

func follow(t *testing.T, s *Store, path string) *crashes {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	c := &crashes{t: t, path: path, fd: int(opened.Fd()), random: rand.New(rand.NewPCG(1, 2)), disk: vfs.NewMem(0, time.Now), found: map[int]int{}, end: int64(len(bytes.TrimRight(raw, "\x00")))}
	err = c.disk.MkdirAll("/d")
	if err == nil {
		c.file, err = c.disk.Create(imageName)
	}
	if err == nil {
		_, err = c.file.WriteAt(raw, 0)
	}
	if err = errors.Join(err, c.file.Sync(), c.disk.SyncDir("/d"), c.disk.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	hook := reflect.ValueOf(s.db).Elem().FieldByName("ops").FieldByName("writeAt")
	writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(hook.UnsafeAddr()))
	real := *writeAt
	*writeAt = func(b []byte, at int64) (int, error) {
		c.look()
		n, err := real(b, at)
		if _, werr := c.file.WriteAt(b[:n], at); werr != nil {
			t.Error(werr)
		}
		c.dirty, c.end = true, max(c.end, at+int64(n))
		c.crash()
		return n, err
	}
	return c
}

// unwritten is how many pages of a file are only in memory.
func unwritten(t *testing.T, fd int) uint64 {
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(fd), &unix.CachestatRange{}, &stat, 0); err != nil {
		t.Fatal(err)
	}
	return stat.Dirty + stat.Writeback
}

// look takes over a sync that happened since the last write, and the size that bbolt has given the file.
func (c *crashes) look() {
	info, err := os.Stat(c.path)
	if err != nil {
		c.t.Fatal(err)
	}
	if size, err := c.file.Size(); err != nil || size < info.Size() {
		if err := errors.Join(err, c.file.Truncate(info.Size())); err != nil {
			c.t.Fatal(err)
		}
	}
	if c.dirty && unwritten(c.t, c.fd) == 0 {
		c.dirty = false
		if err := c.file.Sync(); err != nil {
			c.t.Fatal(err)
		}
		c.crash()
	}
}

// crash opens what a power failure now would leave: all that was synced, and of the rest nothing, some pages, or all.
func (c *crashes) crash() {
	for _, disk := range []*vfs.Mem{c.disk.Crash(), c.disk.CrashSome(c.random), c.disk.Kill()} {
		size, raw := c.left(disk)
		fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC)
		if err != nil {
			c.t.Fatal(err)
		}
		image := os.NewFile(uintptr(fd), "image")
		_, err = image.Write(raw)
		if err = errors.Join(err, image.Truncate(size)); err != nil {
			c.t.Fatal(err)
		}
		c.images++
		c.check(fmt.Sprint("/proc/self/fd/", fd))
		if err := image.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// left is the file of a disk: its size, and its content as far as anything was ever written.
func (c *crashes) left(disk *vfs.Mem) (size int64, content []byte) {
	f, err := disk.Open(imageName)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if size, err = f.Size(); err != nil {
		c.t.Fatal(err)
	}
	content = make([]byte, min(size, c.end))
	if _, err := f.ReadAt(content, 0); err != nil {
		c.t.Fatal(err)
	}
	return size, content
}

// check demands the state after some commit, and not of one before the last that was answered.
func (c *crashes) check(image string) {
	s, err := Open(image, Options{Clock: clock.System})
	if err != nil {
		c.t.Errorf("after %d answers: %v", c.answered, err)
		return
	}
	defer s.Close()
	n := 0
	for ; ; n++ {
		nodes, err := s.Read(context.Background(), store.Req{Path: fmt.Sprintf("/n%d", n)}, store.Req{Path: fmt.Sprintf("/m%d", n)})
		if err != nil {
			c.t.Error(err)
			return
		}
		if nodes[0].Exists != nodes[1].Exists {
			c.t.Errorf("half of commit %d is there", n)
		}
		if !nodes[0].Exists {
			break
		}
		if !bytes.Equal(nodes[0].Data, content(n)) {
			c.t.Errorf("node %d holds %d bytes, not what was committed", n, len(nodes[0].Data))
		}
	}
	if n < c.answered || n > c.answered+1 {
		c.t.Errorf("%d commits are there, %d were answered", n, c.answered)
	}
	c.found[n-c.answered]++
}

// content is what commit n writes: up to several pages.
func content(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n*977%14_000) }

// TestPowerFailure: whatever is answered is there after a power failure at any moment, whole, and nothing else than the
// commit under way may be there too.
func TestPowerFailure(t *testing.T) {
	dir, err := os.MkdirTemp(".", "testdata-crash-") // not in a temporary folder that may live in memory
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	needsWriteBack(t, dir)
	path := filepath.Join(dir, "metadata")
	s := opened(t, path)
	c := follow(t, s, path)
	for n := range 15 {
		create := func(kind string) store.Op {
			return store.Create(fmt.Sprintf("/%s%d", kind, n), content(n), store.Persistent)
		}
		if _, err := s.Commit(t.Context(), create("n"), create("m")); err != nil {
			t.Fatal(err)
		}
		c.answered++
		c.look()
		c.crash()
	}
	if c.images < 100 || c.found[0] == 0 || c.found[1] == 0 {
		t.Errorf("%d images; commits there beyond those answered: %v", c.images, c.found)
	}
}

// needsWriteBack skips the test where the kernel does not tell what of a file is written back.
func needsWriteBack(t *testing.T, dir string) {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &stat, 0); err != nil {
		t.Skipf("this kernel does not tell what is written back: %v", err)
	}
	if _, err := f.WriteAt(make([]byte, 8192), 0); err != nil {
		t.Fatal(err)
	}
	before := unwritten(t, int(f.Fd()))
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if after := unwritten(t, int(f.Fd())); before == 0 || after != 0 {
		t.Skipf("this file system does not tell what is written back: %d pages before a sync, %d after", before, after)
	}
}

// A start that was interrupted while it made the file leaves nothing in the way of the next.
func TestInterruptedCreation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata")
	if err := os.WriteFile(path+newSuffix, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	opened(t, path)
	if _, err := os.Stat(path + newSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is still there: %v", err)
	}
}
