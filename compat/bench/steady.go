//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// steady produces records of 1 KiB with acks=all at a fixed rate until it is stopped, and takes how long after it was due each was
// acknowledged.
type steady struct {
	client  *kgo.Client
	rate    int
	stopped chan struct{}
	paced   sync.WaitGroup

	mu struct {
		sync.Mutex
		began     time.Time // what was due before counts nothing
		latencies []time.Duration
		err       error
	}
}

const (
	steadyPartitions = 6
	steadyBytes      = 1024
)

// startSteady creates the topic and begins. The client looks for new leaders at once, so that it is not what is measured.
func startSteady(t *server, rate int) (*steady, error) {
	if err := createTopic(t, benchTopic, steadyPartitions); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(t.seeds()...), kgo.DefaultProduceTopic(benchTopic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(16<<10, false, false, nil)),
	)
	if err != nil {
		return nil, err
	}
	s := &steady{client: client, rate: rate, stopped: make(chan struct{})}
	s.paced.Go(s.pace)
	return s, nil
}

func (s *steady) pace() {
	value := randomBytes(steadyBytes)
	interval := time.Second / time.Duration(s.rate)
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * interval)
		if ahead := time.Until(due); ahead > 0 {
			select {
			case <-s.stopped:
				return
			case <-time.After(ahead):
			}
		}
		s.client.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			latency := time.Since(due)
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				s.mu.err = err
			}
			if !s.mu.began.IsZero() && due.After(s.mu.began) {
				s.mu.latencies = append(s.mu.latencies, latency)
			}
		})
	}
}

// begin forgets what was measured so far.
func (s *steady) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.began, s.mu.latencies = time.Now(), nil
}

// end returns what was measured since begin; a record that failed is an error.
func (s *steady) end() ([]time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err == nil && len(s.mu.latencies) == 0 {
		return nil, fmt.Errorf("nothing was acknowledged")
	}
	return s.mu.latencies, s.mu.err
}

func (s *steady) stop() error {
	close(s.stopped)
	s.paced.Wait()
	err := s.client.Flush(context.Background())
	s.client.Close()
	return err
}

// acknowledged measures how long acks=all takes at a fixed rate.
type acknowledged struct{ rate int }

func (a acknowledged) measure(b *bench, t *server) (sample, error) {
	s, err := startSteady(t, a.rate)
	if err != nil {
		return nil, err
	}
	time.Sleep(warmup)
	s.begin()
	m := startMeter(t)
	time.Sleep(scaled(duration, b))
	got := m.stop(0)
	if err := s.stop(); err != nil {
		return nil, err
	}
	latencies, err := s.end()
	if err != nil {
		return nil, err
	}
	got["p50_ms"], got["p99_ms"], got["max_ms"] = percentile(latencies, .5), percentile(latencies, .99), percentile(latencies, 1)
	return got, deleteTopic(t, benchTopic)
}

// rollingRestart stops and starts each broker in turn under load, once one of them unmeasured.
func rollingRestart(b *bench, t *server) (sample, error) {
	const rate = 500
	if _, err := t.start(); err != nil {
		return nil, err
	}
	s, err := startSteady(t, rate)
	if err != nil {
		return nil, err
	}
	got, err := s.roll(t)
	if err != nil {
		return nil, err
	}
	return got, s.stop()
}

func (s *steady) roll(t *server) (sample, error) {
	time.Sleep(warmup)
	if err := restart(t, 1, func() error { return nil }); err != nil {
		return nil, fmt.Errorf("unmeasured: %w", err)
	}
	got := sample{}
	for id := int32(1); id <= clusterSize; id++ {
		s.begin()
		err := restart(t, id, func() error {
			time.Sleep(time.Second) // what is still retried
			latencies, err := s.end()
			if err == nil {
				got["shutdown_max_ms"] = max(got["shutdown_max_ms"], percentile(latencies, 1))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		time.Sleep(time.Second)
		latencies, err := s.end()
		if err != nil {
			return nil, err
		}
		got["rolling_max_ms"] = max(got["rolling_max_ms"], percentile(latencies, 1))
	}
	return got, nil
}

// restart stops a broker in order, calls stopped, starts it again, and has it lead again what it led.
func restart(t *server, id int32, stopped func() error) error {
	if err := t.member(id).stop(); err != nil {
		return err
	}
	if err := stopped(); err != nil {
		return err
	}
	if _, err := t.member(id).start(); err != nil {
		return err
	}
	return elected(t, steadyPartitions, benchTopic)
}
