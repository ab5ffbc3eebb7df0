package vfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func newMem(capacity int64) *Mem {
	return NewMem(capacity, func() time.Time { return time.UnixMilli(1000) })
}

// each runs a test on both file systems, in an empty directory.
func each(t *testing.T, f func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { f(t, OS, t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := newMem(0)
		if err := m.MkdirAll("/some/dir"); err != nil {
			t.Fatal(err)
		}
		f(t, m, "/some/dir")
	})
}

func write(t *testing.T, fsys FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.WriteAt([]byte(content), 0); n != len(content) || err != nil {
		t.Fatal(n, err)
	}
}

func read(fsys FS, name string) string {
	b, err := fsys.ReadFile(name, 1<<20)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		name := dir + "/file"
		if _, err := fsys.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening what is not there: %v", err)
		}
		write(t, fsys, name, "0123456789")
		f, err := fsys.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		buf := make([]byte, 4)
		if n, err := f.ReadAt(buf, 8); n != 2 || !errors.Is(err, io.EOF) || string(buf[:n]) != "89" {
			t.Errorf("%d %v", n, err)
		}
		if err := f.Truncate(5); err != nil {
			t.Error(err)
		}
		if _, err := f.WriteAt([]byte("xy"), 7); err != nil {
			t.Error(err)
		}
		if got := read(fsys, name); got != "01234\x00\x00xy" {
			t.Errorf("%q", got)
		}
		if size, err := f.Size(); size != 9 || err != nil {
			t.Errorf("size %d %v", size, err)
		}
		if err := errors.Join(f.Sync(), fsys.SyncDir(dir)); err != nil {
			t.Error(err)
		}
		if _, err := fsys.ReadFile(name, 8); err == nil {
			t.Error("a file that is too large was read")
		}
		long := time.UnixMilli(1_500_000_000_000)
		if err := fsys.SetModTime(name, long); err != nil {
			t.Error(err)
		}
		if info, err := fsys.Stat(name); err != nil || !info.ModTime.Equal(long) {
			t.Errorf("modified %v, %v", info.ModTime, err)
		}
		if err := fsys.SetModTime(dir+"/none", long); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the time of what is not there: %v", err)
		}
		if err := fsys.Rename(name, dir+"/other"); err != nil {
			t.Error(err)
		}
		if err := fsys.Remove(dir + "/other"); err != nil {
			t.Error(err)
		}
		if n, err := f.ReadAt(buf, 0); n != 4 || err != nil {
			t.Errorf("an open file is gone with its name: %v", err)
		}
		if err := fsys.Remove(dir + "/other"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("removing what is not there: %v", err)
		}
		if err := fsys.Rename(name, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("renaming what is not there: %v", err)
		}
	})
}

func TestDirectories(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		if err := fsys.Mkdir(dir + "/b"); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Mkdir(dir + "/b"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("making it again: %v", err)
		}
		if err := fsys.MkdirAll(dir + "/b/c/d"); err != nil {
			t.Error(err)
		}
		write(t, fsys, dir+"/a", "abc")
		write(t, fsys, dir+"/b/c/d/e", "e")
		entries, err := fsys.ReadDir(dir)
		if err != nil || len(entries) != 2 || entries[0].Name() != "a" || entries[0].IsDir() || entries[1].Name() != "b" || !entries[1].IsDir() {
			t.Errorf("%v %v", entries, err)
		}
		if info, err := entries[0].Info(); err != nil || info.Size() != 3 {
			t.Errorf("%v %v", info, err)
		}
		if info, err := fsys.Stat(dir + "/b"); err != nil || !info.Dir {
			t.Errorf("%v %v", info, err)
		}
		if err := fsys.Rename(dir+"/b", dir+"/z"); err != nil || read(fsys, dir+"/z/c/d/e") != "e" {
			t.Errorf("renaming a directory: %v", err)
		}
		if err := fsys.Remove(dir + "/z"); err == nil {
			t.Error("a directory that is not empty was removed")
		}
		if err := errors.Join(fsys.RemoveAll(dir+"/z"), fsys.RemoveAll(dir+"/nothing")); err != nil {
			t.Error(err)
		}
		if _, err := fsys.ReadDir(dir + "/z"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("listing what is not there: %v", err)
		}
		if err := fsys.SyncAll(dir); err != nil && !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
		if total, usable, err := fsys.Usage(dir); err != nil || usable > total {
			t.Errorf("%d of %d usable, %v", usable, total, err)
		}
	})
}

func TestLock(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		lock, err := fsys.Lock(dir + "/.lock")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.Lock(dir + "/.lock"); !errors.Is(err, ErrLocked) {
			t.Errorf("the second lock: %v", err)
		}
		if err := lock.Close(); err != nil {
			t.Error(err)
		}
		again, err := fsys.Lock(dir + "/.lock")
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	})
}

// Another process takes a record lock, as Java's FileChannel.lock does.
func TestLockExcludesRecordLocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	if file := os.Getenv("GREGOR_LOCK_FILE"); file != "" {
		holdRecordLock(file)
		return
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestLockExcludesRecordLocks$")
	other.Env = append(os.Environ(), "GREGOR_LOCK_FILE="+name)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	say := func() string { lines.Scan(); return lines.Text() }
	if got := say(); got != "locked" {
		t.Fatal(got)
	}
	if _, err := OS.Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("a lock beside a record lock: %v", err)
	}
	fmt.Fprintln(stdin)
	if got := say(); got != "unlocked" {
		t.Fatal(got)
	}
	lock, err := OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin)
	if got := say(); got != "refused" {
		t.Errorf("a record lock beside ours is %s", got)
	}
	lock.Close()
	stdin.Close()
	other.Wait()
}

func holdRecordLock(name string) {
	in := bufio.NewScanner(os.Stdin)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Println(err)
		return
	}
	set := func(kind int16) error {
		return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind})
	}
	if err := set(syscall.F_WRLCK); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("locked")
	in.Scan()
	set(syscall.F_UNLCK)
	fmt.Println("unlocked")
	in.Scan()
	if set(syscall.F_WRLCK) != nil {
		fmt.Println("refused")
		return
	}
	fmt.Println("granted")
}

func TestCrashLosesWhatWasNotSynced(t *testing.T) {
	m := newMem(0)
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	write(t, m, "/d/a", "old")
	f, _ := m.Open("/d/a")
	f.Sync()
	if got := read(m.Crash(), "/d/a"); got == "old" {
		t.Error("a name that was not synced survived")
	}
	m.SyncDir("/d")
	f.WriteAt([]byte("new and longer"), 0)
	write(t, m, "/d/b", "b")
	m.Rename("/d/a", "/d/c")
	crashed := m.Crash()
	if got := read(crashed, "/d/a"); got != "old" {
		t.Errorf("what was synced is %q", got)
	}
	if _, err := crashed.Stat("/d/b"); err == nil {
		t.Error("a new name survived")
	}
	killed := m.Kill()
	if got := read(killed, "/d/c"); got != "new and longer" {
		t.Errorf("after a kill %q", got)
	}
	m.SyncDir("/d")
	crashed = m.Crash()
	if got := read(crashed, "/d/c"); got != "old" {
		t.Errorf("a synced name of an unsynced file has %q", got)
	}
	if got := read(crashed, "/d/b"); got != "" {
		t.Errorf("a synced name of a new file has %q", got)
	}
	write(t, killed, "/d/c", "changed in the copy")
	if got := read(m, "/d/c"); got != "new and longer" {
		t.Errorf("a copy changed the original to %q", got)
	}
	m.SyncAll("/")
	if got := read(m.Crash(), "/d/b"); got != "b" {
		t.Errorf("after SyncAll %q", got)
	}
}

// After a partial crash a file is between what was synced and what was written, never anything else.
func TestCrashSomeMixes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	outcomes := map[string]bool{}
	for range 300 {
		m := newMem(0)
		f, _ := m.Create("/f")
		m.SyncDir("/")
		f.WriteAt(bytes.Repeat([]byte("o"), 3*pageSize), 0)
		f.Sync()
		f.WriteAt(bytes.Repeat([]byte("n"), 2*pageSize), 2*pageSize)
		got := read(m.CrashSome(r), "/f")
		for i, c := range []byte(got) {
			switch {
			case i < 2*pageSize && c != 'o', i >= 2*pageSize && c != 'n' && c != 'o' && c != 0:
				t.Fatalf("byte %d is %q", i, c)
			}
		}
		outcomes[fmt.Sprint(len(got)/100, got[len(got)-1])] = true
	}
	if len(outcomes) < 10 {
		t.Errorf("only %d different outcomes", len(outcomes))
	}
}

func TestCapacity(t *testing.T) {
	m := newMem(100)
	f, _ := m.Create("/f")
	if n, err := f.WriteAt(make([]byte, 150), 0); n != 100 || !IsNoSpace(err) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if err := f.Truncate(40); err != nil {
		t.Error(err)
	}
	if n, err := f.WriteAt(make([]byte, 60), 40); n != 60 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if _, usable, _ := m.Usage("/"); usable != 0 {
		t.Errorf("%d bytes usable", usable)
	}
	m.Remove("/f")
	if _, usable, _ := m.Usage("/"); usable != 100 {
		t.Errorf("%d bytes usable after the removal", usable)
	}
}

func TestFaulty(t *testing.T) {
	f := NewFaulty(newMem(0))
	boom := errors.New("boom")
	calls := []Op{}
	f.Before(func(c Call) (int, error) {
		calls = append(calls, c.Op)
		if c.Op == OpWrite {
			return 2, boom
		}
		return 0, nil
	})
	file, err := f.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := file.WriteAt([]byte("abc"), 0); n != 2 || !errors.Is(err, boom) {
		t.Errorf("wrote %d, %v", n, err)
	}
	f.Before(nil)
	if got := read(f, "/f"); got != "ab" {
		t.Errorf("%q", got)
	}
	if len(calls) != 2 {
		t.Errorf("calls %v", calls)
	}
}

// pages against a plain slice.
func TestPages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var p pages
	var plain []byte
	for range 2000 {
		switch r.IntN(5) {
		case 0:
			size := r.Int64N(5 * pageSize)
			p.truncate(size)
			plain = append(plain, make([]byte, max(size-int64(len(plain)), 0))...)[:size]
		case 1:
			p = p.share()
		default:
			b := make([]byte, r.IntN(2*pageSize)+1)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			pos := r.Int64N(4 * pageSize)
			p.writeAt(b, pos)
			plain = append(plain, make([]byte, max(pos+int64(len(b))-int64(len(plain)), 0))...)
			copy(plain[pos:], b)
		}
		got := make([]byte, p.size)
		if n, _ := p.readAt(got, 0); n != len(plain) || !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes differ from %d; seed %d", n, len(plain), seed)
		}
	}
}
