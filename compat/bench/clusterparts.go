//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// clusterPartitions creates many partitions with three replicas, restarts a broker in order, and kills the controller.
type clusterPartitions struct{ n int }

// topicPartitions is how many partitions each of their topics has.
const topicPartitions = 1000

func (p clusterPartitions) measure(b *bench, t *server) (sample, error) {
	n := max(clusterSize, int(float64(p.n)*b.settings.scale))
	if err := roomFor(t, n); err != nil {
		return nil, err
	}
	if _, err := t.start(); err != nil {
		return nil, err
	}
	admin, err := adminOf(t)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	m := startMeter(t)
	topics, err := createMany(admin, n)
	if err != nil {
		return nil, err
	}
	s := m.stop(0)
	s["create_s"] = s["seconds"]
	say(t, "%d partitions are created after %.1f s", n, s["create_s"])
	time.Sleep(scaled(settle, b))
	m = startMeter(t)
	time.Sleep(scaled(settle, b))
	s["idle_cores"] = m.stop(0)["cpu_cores"]
	addMemory(s, t)
	if s["restart_s"], err = restartOne(t, admin, n, topics); err != nil {
		return nil, fmt.Errorf("restart: %w", err)
	}
	say(t, "a broker is back after %.1f s", s["restart_s"])
	s["failover_s"], err = killController(t, n)
	return s, err
}

// say tells how far a long row is.
func say(t *server, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "  %s %s\n", t.name, fmt.Sprintf(format, args...))
}

// roomFor is an error unless this machine lets a JVM hold n replicas: it keeps one descriptor open for each, and two indexes mapped. What
// else it needs is little beside that.
func roomFor(t *server, n int) error {
	const others = 1000
	if t.name != kafkaName {
		return nil
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	if need := uint64(n + others); files.Max < need { // the JVM raises the soft limit by itself
		return fmt.Errorf("Kafka needs %d descriptors for %d replicas, a process may have %d (ulimit -Hn)", need, n, files.Max)
	}
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return err
	}
	maps, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if need := 2*n + others; err == nil && maps < need {
		err = fmt.Errorf("Kafka needs %d mappings for %d replicas, a process may have %d (vm.max_map_count)", need, n, maps)
	}
	return err
}

// createMany creates topics with n partitions together, and returns once all are served by all their replicas.
func createMany(admin *kadm.Client, n int) ([]string, error) {
	var topics []string
	for left := n; left > 0; left -= topicPartitions {
		topic := fmt.Sprintf("%s-%d", partitionTopic, len(topics))
		if _, err := admin.CreateTopic(context.Background(), int32(min(left, topicPartitions)), clusterSize, nil, topic); err != nil {
			return nil, fmt.Errorf("create %s: %w", topic, err)
		}
		topics = append(topics, topic)
	}
	for i, topic := range topics {
		if err := awaitServed(admin, topic, min(topicPartitions, n-i*topicPartitions)); err != nil {
			return nil, err
		}
	}
	return topics, awaitInSync(admin, n, topics...)
}

// restartOne stops a broker in order and returns how long it takes from its start until all its replicas are in sync again.
func restartOne(t *server, admin *kadm.Client, n int, topics []string) (float64, error) {
	m := t.member(2)
	if err := m.stop(); err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := m.start(); err != nil {
		return 0, err
	}
	err := awaitInSync(admin, n, topics...)
	return time.Since(began).Seconds(), err
}

// orderPause is for how long there must be no order before the failover counts as over.
const orderPause = 10 * time.Second

// killController kills the controller and returns how long it takes from when its node vanishes until the broker that is not the next
// controller has answered the last UpdateMetadata; then every partition must have a leader that lives.
func killController(t *server, n int) (float64, error) {
	conn, err := t.observe()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	old, err := controller(conn)
	if err != nil {
		return 0, err
	}
	gone, err := watchGone(conn, "/controller")
	if err != nil {
		return 0, err
	}
	t.member(old).kill()
	at, err := awaitGone(gone)
	if err != nil {
		return 0, err
	}
	var last time.Time
	err = until(startLimit, func() error {
		next, err := controller(conn)
		if err != nil {
			return err
		}
		var quiet time.Duration
		if last, quiet = t.observers[1+2+3-old-next-1].seen(); !last.After(at) || quiet < orderPause {
			return fmt.Errorf("controller %d still gives orders", next)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return last.Sub(at).Seconds(), allLed(t.others(old), old, n)
}

// allLed is an error unless every partition has a leader other than the dead broker.
func allLed(t *server, dead int32, n int) error {
	admin, err := adminOf(t)
	if err != nil {
		return err
	}
	defer admin.Close()
	topics, err := admin.ListTopics(context.Background())
	if err != nil {
		return err
	}
	led := 0
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			if p.Leader >= 0 && p.Leader != dead {
				led++
			}
		}
	}
	if led != n {
		return fmt.Errorf("after the failover %d of %d partitions have a leader", led, n)
	}
	return nil
}
