package controller

import (
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"
)

// A partition must cost little: there may be hundreds of thousands.
func TestPartitionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(partition{}); n > 80 {
		t.Errorf("a partition takes %d bytes", n)
	}
}

func manyTopics(n int) []string {
	specs := make([]string, n)
	for i := range specs {
		specs[i] = "topic-" + strconv.Itoa(i)
	}
	return specs
}

// From the request until the leaders serve, on a file with its syncs.
func BenchmarkCreate5000Topics(b *testing.B) {
	for b.Loop() {
		start(b, openEmbedded(b, filepath.Join(b.TempDir(), "metadata"))).mustCreate(manyTopics(5000)...)
	}
}

func BenchmarkCreateTopicWith5000Partitions(b *testing.B) {
	for b.Loop() {
		start(b, openEmbedded(b, filepath.Join(b.TempDir(), "metadata"))).mustCreate("topic:5000")
	}
}

func BenchmarkRestartWith10000Partitions(b *testing.B) {
	path := filepath.Join(b.TempDir(), "metadata")
	s := openEmbedded(b, path)
	n := start(b, s)
	n.mustCreate("big:5000")
	n.mustCreate(manyTopics(5000)...)
	n.stop()
	s.Close()
	for b.Loop() {
		s := openEmbedded(b, path)
		n := start(b, s)
		b.StopTimer()
		n.stop()
		s.Close()
		b.StartTimer()
	}
}
