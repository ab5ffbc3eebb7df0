package broker

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/broker/config"
)

// requestMemory is how many bytes requests in work may hold: queued.max.request.bytes, or where that is unlimited a
// quarter of the memory there is, so that no number of clients drives the broker out of it.
func requestMemory(c *config.Snapshot) int64 {
	if limit := config.QueuedMaxRequestBytes.Of(c); limit > 0 {
		return limit
	}
	if limit := memoryLimit(); limit < math.MaxInt64 {
		return limit / 4
	}
	return 0
}

// memoryLimit is the smallest of what Go was told (GOMEMLIMIT), what the container may use and what the machine has;
// MaxInt64 when none of them is known.
func memoryLimit() int64 {
	limit := min(debug.SetMemoryLimit(-1), machineMemory())
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		limit = min(limit, readLimit(path))
	}
	return limit
}

// readLimit reads a file with one number, or the word max.
func readLimit(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}
