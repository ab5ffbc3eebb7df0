//go:build linux

package main

import (
	"time"
)

// settle is how long a broker is left alone before its memory is read.
const settle = 10 * time.Second

// startAndIdle starts a broker in an empty folder and leaves it alone.
func startAndIdle(b *bench, t *server) (sample, error) {
	started, err := t.start()
	if err != nil {
		return nil, err
	}
	time.Sleep(scaled(settle, b))
	m := startMeter(t)
	time.Sleep(scaled(settle, b))
	s := m.stop(0)
	s["start_ms"] = started.Seconds() * 1000
	addMemory(s, t)
	return s, nil
}

// addMemory adds what the processes hold.
func addMemory(s sample, t *server) {
	for _, pid := range t.pids() {
		anonymous, resident := memoryOf(pid)
		s["anonymous_mb"] += float64(anonymous) / 1e6
		s["resident_mb"] += float64(resident) / 1e6
	}
}

const idleConnections = 5000

// connections opens connections that ask once and then idle, and takes the memory that each costs.
func connections(b *bench, t *server) (sample, error) {
	if _, err := t.start(); err != nil {
		return nil, err
	}
	time.Sleep(scaled(settle, b))
	before, _ := memoryOf(t.pid())
	m := startMeter(t)
	for range idleConnections {
		c, err := dial(t.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		if err := c.metadata(); err != nil {
			return nil, err
		}
	}
	time.Sleep(scaled(settle, b))
	s := m.stop(0)
	after, _ := memoryOf(t.pid())
	s["kb_per_connection"] = float64(after-before) / 1e3 / idleConnections
	return s, nil
}

// memoryAfterLoad leaves a broker alone after all that was done to it, without forcing a collection.
func memoryAfterLoad(b *bench, t *server) (sample, error) {
	time.Sleep(scaled(settle, b))
	m := startMeter(t)
	time.Sleep(scaled(settle, b))
	s := m.stop(0)
	addMemory(s, t)
	return s, nil
}

const partitionTopic = "partitions"

// manyPartitions starts a broker, creates partitions until all are served, stops it in order, starts it again and waits
// until all are served again.
type manyPartitions struct{ n int }

func (p manyPartitions) measure(b *bench, t *server) (sample, error) {
	if _, err := t.start(); err != nil {
		return nil, err
	}
	m := startMeter(t)
	if err := createTopic(t, partitionTopic, p.n); err != nil {
		return nil, err
	}
	s := m.stop(0)
	s["create_s"] = s["seconds"]
	time.Sleep(scaled(settle, b))
	addMemory(s, t)
	if p.n < 10_000 {
		return s, nil
	}
	if err := t.stop(); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := t.start(); err != nil {
		return nil, err
	}
	admin, err := adminOf(t)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if err := awaitServed(admin, partitionTopic, p.n); err != nil {
		return nil, err
	}
	s["restart_s"] = time.Since(began).Seconds()
	return s, nil
}
