package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/vfs"
)

func TestFirstStartWritesMeta(t *testing.T) {
	e := newEnv(t)
	e.o.Dirs, e.o.ClusterID = []string{"/a", "/b"}, ""
	e.open()
	if len(e.m.ClusterID()) != 22 || e.m.BrokerID() != 1 {
		t.Errorf("cluster %q broker %d", e.m.ClusterID(), e.m.BrokerID())
	}
	for _, dir := range e.o.Dirs {
		meta, found, err := checkpoint.ReadMeta(e.fs.Crash(), dir)
		if want := (checkpoint.Meta{ID: 1, ClusterID: e.m.ClusterID()}); !found || err != nil || meta != want {
			t.Errorf("%s: %+v %v", dir, meta, err)
		}
	}
	before := e.m.ClusterID()
	if e.reopen(); e.m.ClusterID() != before {
		t.Error("the cluster id changed")
	}
}

// Case C4, as far as the directory goes.
func TestForeignDirectoriesAreRefusedUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		metas     map[string]checkpoint.Meta
		clusterID string
		says      []string
	}{
		"another broker": {map[string]checkpoint.Meta{"/a": {ID: 7, ClusterID: "c"}}, "c", []string{"/a/meta.properties", "broker 7", "broker.id is 1", "set broker.id=7"}},
		"another cluster than the metadata's": {map[string]checkpoint.Meta{"/a": {ID: 1, ClusterID: "old"}}, "new",
			[]string{"/a/meta.properties", "cluster old", "says new", "empty log directory"}},
		"two clusters": {map[string]checkpoint.Meta{"/a": {ID: 1, ClusterID: "one"}, "/b": {ID: 1, ClusterID: "two"}}, "",
			[]string{"/b/meta.properties", "cluster two", "/a/meta.properties says one"}},
		"a file that is not one": {map[string]checkpoint.Meta{"/a": {ID: 1, Version: 5}}, "", []string{"/a/meta.properties"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.o.Dirs, e.o.ClusterID = []string{"/a", "/b"}, c.clusterID
			for dir, meta := range c.metas {
				if err := e.fs.MkdirAll(dir); err != nil {
					t.Fatal(err)
				}
				if err := checkpoint.WriteMeta(e.fs, dir, meta, epoch0); err != nil {
					t.Fatal(err)
				}
				if meta.Version != 0 {
					if err := checkpoint.Write(e.fs, dir+"/meta.properties", []byte("version=5\n")); err != nil {
						t.Fatal(err)
					}
				}
				if err := checkpoint.WriteCleanShutdown(e.fs, dir); err != nil {
					t.Fatal(err)
				}
			}
			_, err := OpenManager(context.Background(), e.o)
			if err == nil {
				t.Fatal("was opened")
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			for _, dir := range e.o.Dirs {
				_, err := e.fs.Stat(dir + "/" + checkpoint.MetaName)
				if _, had := c.metas[dir]; had != (err == nil) {
					t.Errorf("%s: meta.properties %v", dir, err)
				}
				_, err = e.fs.Stat(dir + "/" + checkpoint.CleanShutdownName)
				if _, had := c.metas[dir]; had != (err == nil) {
					t.Errorf("%s: clean-shutdown marker %v", dir, err)
				}
			}
		})
	}
}

func TestSecondBrokerIsRefused(t *testing.T) {
	e := newEnv(t).open()
	if _, err := OpenManager(context.Background(), e.o); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "another broker") {
		t.Errorf("%v", err)
	}
	e.create("t", nil) // the first one goes on
	e.reopen()
}

func TestSeveralDirectories(t *testing.T) {
	e := newEnv(t)
	e.o.Dirs = []string{"/a", "/b", "/c"}
	e.open()
	var news []New
	for p := range int32(7) {
		news = append(news, New{TopicPartition: TopicPartition{Topic: "t", Partition: p}, TopicID: TopicID{9}})
	}
	for _, err := range e.m.Create(news) {
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n []int) {
		for _, d := range e.m.Dirs() {
			n = append(n, d.Partitions)
		}
		return n
	}
	if got := count(); !slices.Equal(got, []int{3, 2, 2}) {
		t.Errorf("partitions per directory %v", got)
	}
	for p := range int32(7) {
		l := e.m.Get(TopicPartition{Topic: "t", Partition: p})
		committed(t, l, batch(1, fmt.Sprint(p)))
		if want := "/abc"[1+p%3 : 2+p%3]; l.Dir() != "/"+want+"/t-"+fmt.Sprint(p) {
			t.Errorf("partition %d is in %s", p, l.Dir())
		}
	}
	e.reopen()
	if len(e.m.All()) != 7 {
		t.Errorf("%d logs after a restart", len(e.m.All()))
	}
	e.m.Delete([]TopicPartition{{Topic: "t", Partition: 0}, {Topic: "t", Partition: 3}, {Topic: "t", Partition: 6}})
	e.create("u", nil)
	if got := count(); !slices.Equal(got, []int{1, 2, 2}) {
		t.Errorf("partitions per directory %v", got)
	}
}

// TestCreateElsewhere: where one directory fails, be it known or not, new logs go to another, and are nowhere else.
func TestCreateElsewhere(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpMkdir, vfs.OpCreate, vfs.OpSyncDir} {
		e := newEnv(t)
		faulty := vfs.NewFaulty(e.fs)
		e.o.FS, e.o.Dirs = faulty, []string{"/a", "/b", "/c"}
		m, err := OpenManager(context.Background(), e.o)
		if err != nil {
			t.Fatal(err)
		}
		news := func(topic string) (list []New) {
			for p := range int32(6) {
				list = append(list, New{TopicPartition: TopicPartition{Topic: topic, Partition: p}, TopicID: TopicID{9}})
			}
			return list
		}
		faulty.Before(func(c vfs.Call) (int, error) {
			if c.Op == op && strings.HasPrefix(c.Name, "/a/") {
				return 0, errors.New("bad disk")
			}
			return c.Size, nil
		})
		for _, err := range m.Create(news("t")) {
			if err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
		m.Retire("/b")
		for _, err := range m.Create(news("u")) {
			if err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
		var count []int
		for _, d := range m.Dirs() {
			count = append(count, d.Partitions)
		}
		if !slices.Equal(count, []int{0, 3, 9}) {
			t.Errorf("%s: partitions per directory %v", op, count)
		}
		m.Retire("/c")
		if err := m.Create([]New{{TopicPartition: TopicPartition{Topic: "v"}, TopicID: TopicID{9}}})[0]; !errors.Is(err, ErrStorage) {
			t.Errorf("%s: with one bad disk left: %v", op, err)
		}
		m.Retire("/a")
		if err := m.Create([]New{{TopicPartition: TopicPartition{Topic: "v"}, TopicID: TopicID{9}}})[0]; !errors.Is(err, ErrStorage) {
			t.Errorf("%s: with no disk left: %v", op, err)
		}
		faulty.Before(nil)
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if m, err = OpenManager(context.Background(), e.o); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if len(m.All()) < 12 {
			t.Errorf("%s: %d logs after a restart", op, len(m.All()))
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestDirectoriesAreLeftOut: where others can lead, a disk that is dead when the broker starts costs what lies on it and no more. The
// last one is not left out, nor is anything for another reason than the disk.
func TestDirectoriesAreLeftOut(t *testing.T) {
	for _, bad := range []struct {
		op   vfs.Op
		name string
	}{{vfs.OpReadFile, "/a/meta.properties"}, {vfs.OpReadDir, "/a"}, {vfs.OpReadDir, "/a/t-0"}, {vfs.OpRemove, "/a/" + checkpoint.CleanShutdownName}} {
		e := newEnv(t)
		e.o.Dirs = []string{"/a", "/b"}
		e.open()
		for p := range int32(4) {
			if err := e.m.Create([]New{{TopicPartition: TopicPartition{Topic: "t", Partition: p}, TopicID: TopicID{9}}})[0]; err != nil {
				t.Fatal(err)
			}
		}
		if err := e.m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		faulty := vfs.NewFaulty(e.fs)
		faulty.Before(func(c vfs.Call) (int, error) {
			if c.Op == bad.op && c.Name == bad.name {
				return 0, errors.New("bad disk")
			}
			return c.Size, nil
		})
		e.o.FS = faulty
		if _, err := OpenManager(context.Background(), e.o); err == nil {
			t.Fatalf("%s of %s: it starts where nobody else leads", bad.op, bad.name)
		}
		e.o.LeaveOut = true
		m, err := OpenManager(context.Background(), e.o)
		if err != nil {
			t.Fatalf("%s of %s: %v", bad.op, bad.name, err)
		}
		dirs := m.Dirs()
		if len(dirs) != 2 || dirs[0].Path != "/b" || dirs[0].LeftOut || dirs[0].Partitions != 2 || dirs[1].Path != "/a" || !dirs[1].LeftOut || len(m.All()) != 2 {
			t.Errorf("%s of %s: %+v", bad.op, bad.name, dirs)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		e.o.Dirs = []string{"/a"}
		if _, err := OpenManager(context.Background(), e.o); err == nil {
			t.Errorf("%s of %s: the only directory is left out", bad.op, bad.name)
		}
		faulty.Before(nil)
		e.o.Dirs = []string{"/a", "/b"}
		if m, err = OpenManager(context.Background(), e.o); err != nil || len(m.All()) != 4 {
			t.Fatalf("%s of %s: when it is whole again: %v", bad.op, bad.name, err)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestSetAside: what is set aside is kept and not used, not after a start either, and another log can come in its place.
func TestSetAside(t *testing.T) {
	e := newEnv(t)
	e.o.Dirs = []string{"/a"}
	e.open()
	tp := TopicPartition{Topic: "t"}
	create := func(id byte) {
		t.Helper()
		if err := e.m.Create([]New{{TopicPartition: tp, TopicID: TopicID{id}}})[0]; err != nil {
			t.Fatal(err)
		}
	}
	create(1)
	committed(t, e.get("t"), batch(1, "old"))
	if err := e.m.SetAside(tp); err != nil || e.m.Get(tp) != nil {
		t.Fatal(err)
	}
	create(2)
	for range 2 {
		if l := e.get("t"); l.TopicID() != (TopicID{2}) || l.Bounds().End != 0 || len(e.m.All()) != 1 {
			t.Errorf("topic id %s, end %d, %d logs", l.TopicID(), l.Bounds().End, len(e.m.All()))
		}
		e.reopen()
	}
	entries, err := e.fs.ReadDir("/a")
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.ContainsFunc(entries, func(d fs.DirEntry) bool {
		return strings.HasPrefix(d.Name(), "t-0.") && strings.HasSuffix(d.Name(), "-stray")
	})
	if !kept {
		t.Errorf("nothing is kept: %v", entries)
	}
	if err := e.m.SetAside(TopicPartition{Topic: "none"}); err != nil {
		t.Error(err)
	}
}

// TestNamesThatLeadElsewhere: no log is made for a partition whose name is no directory's, or that no checkpoint could name.
func TestNamesThatLeadElsewhere(t *testing.T) {
	e := newEnv(t).open()
	for _, tp := range []TopicPartition{{Topic: ""}, {Topic: "../t"}, {Topic: "a/b"}, {Topic: "a b"}, {Topic: "a\nb"}, {Topic: "ä"}, {Topic: "a\x00"},
		{Topic: strings.Repeat("x", 250)}, {Topic: "t", Partition: -1}} {
		if err := e.m.Create([]New{{TopicPartition: tp}})[0]; !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("%v: %v", tp, err)
		}
	}
	if n := len(e.m.All()); n != 0 {
		t.Errorf("%d logs", n)
	}
}

func TestSamePartitionInTwoDirectoriesIsFatal(t *testing.T) {
	e := newEnv(t)
	e.o.Dirs = []string{"/a", "/b"}
	for _, dir := range e.o.Dirs {
		if err := e.fs.MkdirAll(dir + "/t-0"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := OpenManager(context.Background(), e.o)
	if err == nil || !strings.Contains(err.Error(), "/a/t-0") || !strings.Contains(err.Error(), "/b/t-0") {
		t.Errorf("%v", err)
	}
}

func TestCreateAgain(t *testing.T) {
	e := newEnv(t).open()
	tp := TopicPartition{Topic: "t"}
	errs := e.m.Create([]New{{TopicPartition: tp}, {TopicPartition: tp}})
	if errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	l := e.m.Get(tp)
	for _, c := range []struct {
		id   TopicID
		want *kerr.Error
	}{{TopicID{}, nil}, {TopicID{5}, nil}, {TopicID{5}, nil}, {TopicID{6}, kerr.InconsistentTopicID}, {TopicID{}, nil}} {
		err := e.m.Create([]New{{TopicPartition: tp, TopicID: c.id}})[0]
		if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("id %s: %v", c.id, err)
		}
	}
	if e.m.Get(tp) != l || l.TopicID() != (TopicID{5}) {
		t.Errorf("topic id %s", l.TopicID())
	}
	if id := e.on(e.fs.Crash()).get("t").TopicID(); id != (TopicID{5}) {
		t.Errorf("topic id after a crash %s", id)
	}
}

func TestManyAreCreatedDurably(t *testing.T) {
	e := newEnv(t).open()
	news := make([]New, 100)
	for i := range news {
		news[i] = New{TopicPartition: TopicPartition{Topic: "t", Partition: int32(i)}, TopicID: TopicID{byte(i)}}
	}
	syncs := 0
	faulty := vfs.NewFaulty(e.fs)
	faulty.Before(func(c vfs.Call) (int, error) {
		if strings.HasPrefix(string(c.Op), "sync") {
			syncs++
		}
		return 0, nil
	})
	e.m.dirs[0].fs = faulty
	for _, err := range e.m.Create(news) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if syncs != 1 {
		t.Errorf("%d syncs for 100 logs", syncs)
	}
	e.on(e.fs.Crash())
	for i := range news {
		if l := e.m.Get(news[i].TopicPartition); l == nil || l.TopicID() != news[i].TopicID {
			t.Fatalf("log %d is not there after a crash", i)
		}
	}
}

func TestDeleteAndRecreate(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	for seq := range int32(3) {
		committed(t, l, idempotent(1, 0, seq, 1))
	}
	r, err := l.Read(0, 1<<20, HighWatermark, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := e.m.CheckpointAll(); err != nil {
		t.Fatal(err)
	}
	e.m.Delete([]TopicPartition{l.tp, {Topic: "never", Partition: 1}})
	if e.m.Get(l.tp) != nil {
		t.Error("the log is still there")
	}
	if _, err := l.Append(batch(1, "x"), 0); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("append to a deleted log: %v", err)
	}
	if _, err := r.Part.File.ReadAt(make([]byte, r.Part.Len), r.Part.Pos); err != nil {
		t.Errorf("what was returned before the deletion: %v", err)
	}
	r.Part.File.Release()
	dirs := func() (n int) {
		entries, err := e.fs.ReadDir("/data")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range entries {
			if strings.HasPrefix(f.Name(), "t-0.") && strings.HasSuffix(f.Name(), "-delete") {
				n++
			}
		}
		return n
	}
	if dirs() != 1 {
		t.Error("the directory was not renamed")
	}
	again := e.create("t", nil)
	if got := again.Bounds(); got != (Bounds{}) {
		t.Errorf("the new log has bounds %+v", got)
	}
	if a := committed(t, again, idempotent(1, 0, 7, 1)); a.BaseOffset != 0 || a.Duplicate {
		t.Errorf("the new log knows the producer: %+v", a)
	}
	if got := e.on(e.fs.Kill()).get("t").Bounds(); got.End != 1 {
		t.Errorf("after a kill the new log has bounds %+v", got)
	}
	waitFor(t, func() bool { return dirs() == 0 }) // what an earlier run left goes at once
}

func TestDeletedDirectoryGoesAfterTheDelay(t *testing.T) {
	e := newEnv(t).open()
	l := e.create(strings.Repeat("n", 249), nil)
	e.m.Delete([]TopicPartition{l.tp})
	entries, err := e.fs.ReadDir("/data")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(entries, func(f fs.DirEntry) bool { return f.IsDir() })
	if i < 0 || len(entries[i].Name()) != 255 || !strings.HasSuffix(entries[i].Name(), "-delete") {
		t.Fatalf("%v", entries)
	}
	waitFor(t, func() bool {
		e.clock.Advance(e.m.dirs[0].delay(l.Config().FileDeleteDelayMs))
		_, err := e.fs.Stat("/data/" + entries[i].Name())
		return errors.Is(err, fs.ErrNotExist)
	})
}

func TestOtherDirectoriesAreLeftAlone(t *testing.T) {
	e := newEnv(t)
	names := []string{"lost+found", "t-0.0123456789abcdef0123456789abcdef-future", "t-1.0123456789abcdef0123456789abcdef-stray", "__cluster_metadata-0", "remote-log-index-cache", "nodash", "t-x", "t-01"}
	for _, n := range names {
		if err := e.fs.MkdirAll("/data/" + n); err != nil {
			t.Fatal(err)
		}
	}
	e.open()
	if n := len(e.m.All()); n != 0 {
		t.Errorf("%d logs were loaded", n)
	}
	for _, n := range names {
		if entries, err := e.fs.ReadDir("/data/" + n); err != nil || len(entries) != 0 {
			t.Errorf("%s: %v %v", n, entries, err)
		}
	}
}

func TestCheckpointsAreWrittenWhenSomethingChanged(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	read := func() int64 {
		o, err := checkpoint.ReadOffsets(e.fs.Crash(), "/data", checkpoint.HighWatermarks)
		if err != nil {
			t.Fatal(err)
		}
		return o[l.tp]
	}
	committed(t, l, batch(1, "a", "b"))
	waitFor(t, func() bool { e.clock.Advance(e.m.o.HWCheckpointInterval); return read() == 2 })
	before, err := e.fs.Stat("/data/" + checkpoint.HighWatermarks)
	if err != nil {
		t.Fatal(err)
	}
	e.clock.Advance(3 * e.m.o.HWCheckpointInterval)
	committed(t, l, batch(1, "c"))
	waitFor(t, func() bool { e.clock.Advance(e.m.o.HWCheckpointInterval); return read() == 3 })
	if after, err := e.fs.Stat("/data/" + checkpoint.HighWatermarks); err != nil || !after.ModTime.After(before.ModTime) {
		t.Errorf("%v", err)
	}
}

func TestClosedManager(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	committed(t, l, batch(1, "a"))
	if err := e.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := e.m.Close(context.Background()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if _, err := l.Append(batch(1, "b"), 0); !errors.Is(err, ErrStorage) {
		t.Errorf("append: %v", err)
	}
	if err := e.m.Create([]New{{TopicPartition: TopicPartition{Topic: "u"}}})[0]; !errors.Is(err, ErrStorage) {
		t.Errorf("create: %v", err)
	}
	if n := e.m.dirs[0].files.Open(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

func TestCloseWithoutTimeWithholdsTheMarker(t *testing.T) {
	e := newEnv(t).open()
	committed(t, e.create("t", nil), batch(1, "a"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.m.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := e.fs.Stat("/data/" + checkpoint.CleanShutdownName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the marker is there: %v", err)
	}
	if got := values(t, e.open().get("t"), 0, LogEnd); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestOpenManagerStopsWhenCancelled(t *testing.T) {
	e := newEnv(t).open()
	e.create("t", nil)
	if err := e.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := OpenManager(ctx, e.o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	e.open().get("t")
}
