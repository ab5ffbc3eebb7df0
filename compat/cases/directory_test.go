package cases

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// snapshot returns the content of every file below a folder, save the lock that a try to start may touch.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".lock" {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var propertyLine = regexp.MustCompile(`(?m)^(broker\.id|node\.id|cluster\.id|version)=(.*)$`)

func metaProperties(t testing.TB, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, m := range propertyLine.FindAllStringSubmatch(string(text), -1) {
		values[m[1]] = m[2]
	}
	return values
}

// rewrite replaces a line of a folder's meta.properties.
func rewrite(t testing.TB, dir, key, value string) {
	t.Helper()
	path := filepath.Join(dir, "meta.properties")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(key)+`=.*$`).ReplaceAllString(string(text), key+"="+value)
	if changed == string(text) {
		t.Fatalf("%s has no other %s", path, key)
	}
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestC4MismatchedDirectories: a broker that finds other ids in its directories than it has refuses to start, changes no file,
// and names both ids and the file.
func TestC4MismatchedDirectories(t *testing.T) {
	if harness.Peer() == harness.Kafka44 {
		t.Skip("KRaft directories have another meta.properties")
	}
	t.Run("alone", func(t *testing.T) { c4MismatchedDirectories(t, map[string]string{"broker.id": "0"}) })
	if harness.Peer() != harness.Gregor {
		return
	}
	t.Run("zookeeper", func(t *testing.T) {
		harness.NeedCluster(t)
		c4MismatchedDirectories(t, map[string]string{
			"broker.id": "0", "zookeeper.connect": harness.StartEnsemble(t, nil).Addr, "zookeeper.connection.timeout.ms": "30000",
		})
	})
}

func c4MismatchedDirectories(t *testing.T, props map[string]string) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	props["log.dirs"] = one + "," + two
	options := harness.Options{Dir: base, Props: props}
	b := start(t, options)
	topic(t, b, 2)
	b.Stop()

	first := metaProperties(t, one)
	if second := metaProperties(t, two); first["version"] != "0" || first["cluster.id"] == "" || fmt.Sprint(first) != fmt.Sprint(second) {
		t.Fatalf("meta.properties hold %v and %v; want version 0 and the same cluster id", first, second)
	}
	if len(first["cluster.id"]) != 22 {
		t.Errorf("cluster id %q is no base64 uuid", first["cluster.id"])
	}

	const other = "AAAAAAAAAAAAAAAAAAAAAA"
	for _, test := range []struct {
		what, key, value string
		dirs             []string
		advice           string // that gregor gives
	}{
		{"another broker id", "broker.id", "7", []string{one, two}, "set broker.id=7 to use this directory, or choose another one"},
		{"two cluster ids", "cluster.id", other, []string{two}, "to start over with an empty broker, choose an empty log directory"},
	} {
		t.Run(test.what, func(t *testing.T) {
			for _, dir := range test.dirs {
				rewrite(t, dir, test.key, test.value)
			}
			before := [2]map[string]string{snapshot(t, one), snapshot(t, two)}
			refused, code, err := harness.TryStart(t, harness.Options{Dir: base, Props: withZooKeeper(options.Props, b)})
			if err == nil {
				t.Fatalf("it started: %s", refused.Log())
			}
			if code == 0 {
				t.Errorf("it ended with exit code 0")
			}
			words := []string{test.value, first[test.key]}
			if b.Kind == harness.Gregor {
				words = append(words, filepath.Join(test.dirs[0], "meta.properties"), test.advice)
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the refusal does not name %q:\n%v", word, err)
				}
			}
			for i, dir := range []string{one, two} {
				if after := snapshot(t, dir); !maps.Equal(after, before[i]) {
					t.Errorf("files in %s were changed: %q, before %q", dir, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before[i])))
				}
			}
			for _, dir := range test.dirs {
				rewrite(t, dir, test.key, first[test.key])
			}
		})
	}
}

// TestC4EmptiedZooKeeper: a broker whose ZooKeeper was made anew belongs to another cluster now. It refuses to start and changes
// nothing, and with the ZooKeeper of before it has its topic again.
func TestC4EmptiedZooKeeper(t *testing.T) {
	harness.NeedCluster(t)
	former, anew := harness.StartEnsemble(t, nil), harness.StartEnsemble(t, nil)
	dir := t.TempDir()
	with := func(e *harness.Ensemble) harness.Options {
		return harness.Options{Dir: dir, Props: map[string]string{"zookeeper.connect": e.Addr, "zookeeper.connection.timeout.ms": "30000", "broker.id": "0"}}
	}
	b := start(t, with(former))
	kept := topic(t, b, 1)
	mustProduce(t, raw.Dial(t, b.Addr), kept, raw.NewBatch(now(), "v").Encode())
	b.Stop()
	data := b.DataDir()
	id, before := metaProperties(t, data)["cluster.id"], snapshot(t, data)

	refused, code, err := harness.TryStart(t, with(anew))
	if err == nil {
		t.Fatalf("it started: %s", refused.Log())
	}
	if code == 0 {
		t.Error("it ended with exit code 0")
	}
	words := []string{id, "meta.properties"}
	if b.Kind == harness.Gregor {
		words = append(words, filepath.Join(data, "meta.properties"), "to start over with an empty broker, choose an empty log directory")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not name %q:\n%v", word, err)
		}
	}
	if after := snapshot(t, data); !maps.Equal(after, before) {
		t.Errorf("files were changed: %q, before %q", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	b = start(t, with(former))
	harness.Eventually(t, time.Minute, func() error { // it serves before it has been told what
		return kerr.ErrorForCode(fetchFrom(t, raw.Dial(t, b.Addr), fetchVersion, kept, 0).ErrorCode)
	})
	if n := len(stored(t, raw.Dial(t, b.Addr), kept, 0)); n != 1 {
		t.Errorf("%d batches, want 1", n)
	}
}

// withZooKeeper adds the address of the ensemble that the broker used, where it has one, so that another start joins it.
func withZooKeeper(props map[string]string, b *server) map[string]string {
	if b.Kind != harness.Kafka39 {
		return props
	}
	added := map[string]string{"zookeeper.connect": b.ZooKeeperAddr()}
	for key, value := range props {
		added[key] = value
	}
	return added
}
