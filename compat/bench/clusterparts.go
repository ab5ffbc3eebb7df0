//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// clusterPartitions creates many partitions with three replicas, restarts a broker in order, and kills the controller.
type clusterPartitions struct{ n int }

// topicPartitions is how many partitions each of their topics has.
const topicPartitions = 1000

func (p clusterPartitions) measure(b *bench, t *server) (sample, error) {
	n := max(clusterSize, int(float64(p.n)*b.settings.scale))
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
	time.Sleep(scaled(settle, b))
	m = startMeter(t)
	time.Sleep(scaled(settle, b))
	s["idle_cores"] = m.stop(0)["cpu_cores"]
	addMemory(s, t)
	if s["restart_s"], err = restartOne(t, admin, n, topics); err != nil {
		return nil, fmt.Errorf("restart: %w", err)
	}
	s["failover_s"], err = killController(t, n)
	return s, err
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
