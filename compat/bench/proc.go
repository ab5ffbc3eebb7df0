//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// cpuOf returns the CPU time that a process has used.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may have spaces; utime and stime are fields 14 and 15.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// switchesOf returns how often the threads of a process, those that live, have lost or given up the CPU.
func switchesOf(pid int) (n int64) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is well formed
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				k, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				n += k
			}
		}
	}
	return n
}

// memoryOf returns a process's anonymous memory, which it cannot give back, and all that is resident, in bytes.
func memoryOf(pid int) (anonymous, resident int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "RssAnon:":
			anonymous = kib << 10
		case "VmRSS:":
			resident = kib << 10
		}
	}
	return anonymous, resident
}

// machineBusy returns the CPU time that all of the machine has spent on anything but idling and waiting for disks.
func machineBusy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	busy := time.Duration(0)
	for i, field := range strings.Fields(first)[1:8] { // without guests, which are counted as user
		if i == 3 || i == 4 { // idle, iowait
			continue
		}
		ticks, _ := strconv.ParseInt(field, 10, 64)
		busy += time.Duration(ticks) * tick
	}
	return busy
}

// otherCores is the name of the figure that says how much of the machine neither broker nor client used.
const otherCores = "other_cores"

// meter measures a server, what helps to measure it (this process, a cluster's ZooKeeper) and the rest of the machine over a span
// of time.
type meter struct {
	server         *server
	began          time.Time
	broker, client time.Duration
	machine        time.Duration
	switches       int64
}

func startMeter(t *server) *meter {
	m := &meter{server: t, switches: switchesOfAll(t.pids())}
	m.began, m.broker, m.client, m.machine = time.Now(), cpuOfAll(t.pids()), cpuOfAll(t.helpers()), machineBusy()
	return m
}

func switchesOfAll(pids []int) (sum int64) {
	for _, pid := range pids {
		sum += switchesOf(pid)
	}
	return sum
}

func cpuOfAll(pids []int) time.Duration {
	sum := time.Duration(0)
	for _, pid := range pids {
		sum += cpuOf(pid)
	}
	return sum
}

// stop returns what was used since startMeter; bytes, when positive, adds figures per GB (10^9 bytes).
func (m *meter) stop(bytes int64) sample {
	seconds := time.Since(m.began).Seconds()
	broker := (cpuOfAll(m.server.pids()) - m.broker).Seconds()
	client := (cpuOfAll(m.server.helpers()) - m.client).Seconds()
	s := sample{
		"seconds":    seconds,
		"cpu_s":      broker,
		"cpu_cores":  broker / seconds,
		"client_cpu": client,
		"switches":   float64(switchesOfAll(m.server.pids()) - m.switches),
		otherCores:   max(0, ((machineBusy()-m.machine).Seconds()-broker-client)/seconds),
	}
	if bytes > 0 {
		gb := float64(bytes) / 1e9
		s["gb"], s["gb_per_s"], s["cpu_s_per_gb"] = gb, gb/seconds, broker/gb
	}
	return s
}
