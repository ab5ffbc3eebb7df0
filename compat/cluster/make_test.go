package cluster

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestMakeCluster: what "make cluster" runs says how to look at it, all of which works, and ends in order on Ctrl-C.
func TestMakeCluster(t *testing.T) {
	harness.NeedCluster(t)
	if harness.Peer() != harness.Gregor {
		return // which it does not start
	}
	broker, zookeeper := freePorts(t, 3), freePorts(t, 1)
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(harness.Root(), "compat", "run", "cluster"), dir)
	cmd.Env = append(os.Environ(), fmt.Sprint("CLUSTER_PORT=", broker), fmt.Sprint("ZOOKEEPER_PORT=", zookeeper),
		"GREGOR_BIN="+harness.Binary(), "GREGOR_CACHE="+harness.Cache())
	cmd.Stderr = cmd.Stdout
	// A shell that starts the tests in the background has them ignore Ctrl-C, and what they start too. Who listens to a signal hands it on
	// as it is by default.
	ctrlC := make(chan os.Signal, 1)
	signal.Notify(ctrlC, os.Interrupt)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	signal.Stop(ctrlC)
	if err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(5*limit, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // so that its output ends
	ended := false
	t.Cleanup(func() {
		hangs.Stop()
		if !ended {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	})
	var advice []string // the lines that are commands
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C") {
		if strings.Contains(lines.Text(), " topic ") || strings.Contains(lines.Text(), "ZooKeeperMain") {
			advice = append(advice, lines.Text())
		}
	}
	if len(advice) != 3 {
		t.Fatalf("it says to run %q; log of broker 1:\n%s", advice, read(t, filepath.Join(dir, "broker-1", "server.log")))
	}
	for _, line := range advice {
		if got := harness.Command(t, limit, "", nil, "sh", "-c", line); got.Code != 0 {
			t.Errorf("%s ends with %d:\n%s", line, got.Code, got)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	for lines.Scan() {
		t.Logf("at the end: %s", lines.Text())
	}
	ended = true
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	for id := 1; id <= 3; id++ {
		if log := read(t, filepath.Join(dir, fmt.Sprint("broker-", id), "server.log")); !strings.Contains(log, "stopped") {
			t.Errorf("broker %d did not end in order:\n%.2000s", id, log)
		}
	}
}

// freePorts returns the first of n ports that follow each other and that nobody else uses.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	first, err := harness.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
