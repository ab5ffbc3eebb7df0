package controller

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

func TestScratchPerf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata")
	s := openEmbedded(t, path)
	n := start(t, s)
	now := time.Now()
	n.mustCreate("big:5000")
	t.Log("5000 in one topic", time.Since(now))
	now = time.Now()
	var specs []string
	for i := range 5000 {
		specs = append(specs, "t"+strings.Repeat("x", 10)+strconv.Itoa(i))
	}
	n.mustCreate(specs...)
	t.Log("5000 topics", time.Since(now))
	n.stop()
	s.Close()
	n = nil
	var a, b runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&a)
	now = time.Now()
	s = openEmbedded(t, path)
	t.Log("open", time.Since(now))
	now = time.Now()
	n = start(t, s)
	t.Log("restart", time.Since(now))
	n.server.mu.requests = nil
	runtime.GC()
	runtime.ReadMemStats(&b)
	t.Log("heap kB", (b.HeapAlloc-a.HeapAlloc)/1024)
	m := n.driver.machine
	n.server = newReplicaServer(t, 1)
	_ = m
	_ = clock.System
}
