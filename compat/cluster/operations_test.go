package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// operations is the script that docs/operations.md makes: its blocks one after the other, each announced by its heading.
func operations(t *testing.T) string {
	t.Helper()
	page := read(t, filepath.Join(harness.Root(), "docs", "operations.md"))
	at := strings.Index(page, "\n# Operating a cluster")
	if at < 0 {
		t.Fatal("docs/operations.md says nothing of clusters")
	}
	page = page[at:]
	script := "set -euo pipefail\n"
	blocks := shellBlock.FindAllStringSubmatchIndex(page, -1)
	for _, b := range blocks {
		headings := regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page[:b[0]], -1)
		script += fmt.Sprintf("echo '=== %s'\n%s", headings[len(headings)-1][1], page[b[2]:b[3]])
	}
	if len(blocks) < 10 {
		t.Fatalf("only %d blocks of commands", len(blocks))
	}
	return script
}

// javaScript writes what Kafka's script of that name does.
func javaScript(t *testing.T, dir, name, class, before string) {
	t.Helper()
	home := harness.KafkaHome(harness.V39)
	text := fmt.Sprintf("#!/bin/sh\nexec %q -Xmx256M -XX:TieredStopAtLevel=1 -XX:+UseSerialGC '-Dlog4j.configuration=file:%s' -Dcompat.log.level=INFO -cp %q %s %s \"$@\"\n",
		harness.Java(), filepath.Join(harness.Root(), "compat", "peers", "log4j-3.9.2.properties"), filepath.Join(home, "lib", "*"), class, before)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestOperations runs every command of docs/operations.md about clusters, in order, on a real ZooKeeper.
func TestOperations(t *testing.T) {
	harness.NeedCluster(t)
	if harness.Peer() != harness.Gregor {
		return // which the page is about
	}
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(harness.Binary(), filepath.Join(bin, "gregor")); err != nil {
		t.Fatal(err)
	}
	javaScript(t, bin, "zookeeper-shell.sh", "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka", "-server")
	javaScript(t, bin, "kafka-server-start.sh", "kafka.Kafka", "")
	zookeeper := harness.StartEnsemble(t, nil)
	// Whatever happens, what the script has started ends with it.
	script := "trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\ncd " + dir + "\n" + operations(t)
	out := harness.Command(t, 4*limit, "", []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "ZOOKEEPER=" + zookeeper.Addr + "/ops",
		fmt.Sprint("FIRST_PORT=", freePorts(t, 10)),
	}, "bash", "-c", script)
	if out.Code != 0 {
		t.Fatalf("it ends with %d:\n%s\nlog of broker 1:\n%.4000s", out.Code, out, read(t, filepath.Join(dir, "broker-1", "server.log")))
	}
	wantMatch(t, out, `^every partition has a leader and all its replicas in sync$`, `^\[1, 2, 3\]$`, `^nothing is moving$`, `^orders-0: done$`,
		`^0 leaders elected; 6 of 6 partitions had a leader already$`, `"id":"[\w-]{22}"`, `^cluster\.id=[\w-]{22}$`)
}
