//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// percentile returns a quantile of latencies in milliseconds; it sorts them.
func percentile(latencies []time.Duration, q float64) float64 {
	slices.Sort(latencies)
	return latencies[int(q*float64(len(latencies)-1))].Seconds() * 1000
}

// endToEnd sends records of 1 KiB at a fixed rate, each with the moment when it was due, and takes the time until a consumer
// has it. Counting from that moment, a stall is seen in every record that was due during it.
type endToEnd struct{ rate int }

const (
	warmup   = 2 * time.Second
	duration = 10 * time.Second
)

func (e endToEnd) measure(b *bench, t *server) (sample, error) {
	if err := createTopic(t, benchTopic, 1); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(t.seeds()...), kgo.DefaultProduceTopic(benchTopic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(t.seeds()...), kgo.ConsumeTopics(benchTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()

	total := int(float64(e.rate) * (warmup + scaled(duration, b)).Seconds())
	skip := int(float64(e.rate) * warmup.Seconds())
	latencies := make([]time.Duration, 0, total)
	began := time.Now()
	var wg sync.WaitGroup
	var consumeErr error
	wg.Go(func() {
		for seen := 0; seen < total; {
			fetches := consumer.PollFetches(ctx)
			if consumeErr = fetches.Err(); consumeErr != nil {
				return
			}
			now := time.Since(began)
			fetches.EachRecord(func(r *kgo.Record) {
				if seen++; seen > skip {
					latencies = append(latencies, now-time.Duration(binary.BigEndian.Uint64(r.Value)))
				}
			})
		}
	})
	m := startMeter(t)
	value := randomBytes(1024)
	interval := time.Second / time.Duration(e.rate)
	var failed error
	var mu sync.Mutex
	runtime.LockOSThread() // for sleepUntil
	defer runtime.UnlockOSThread()
	late := make([]time.Duration, 0, total)
	for i := range total {
		due := time.Duration(i) * interval
		late = append(late, sleepUntil(began, due))
		v := slices.Clone(value)
		binary.BigEndian.PutUint64(v, uint64(due))
		producer.Produce(ctx, &kgo.Record{Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s := m.stop(int64(total) * 1024)
	if consumeErr != nil {
		return nil, consumeErr
	}
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	s["p50_ms"], s["p99_ms"], s["max_ms"] = percentile(latencies, .5), percentile(latencies, .99), percentile(latencies, 1)
	s["client_late_p99_ms"] = percentile(late[skip:], .99)
	return s, deleteTopic(t, benchTopic)
}

// sleepUntil sleeps until a moment after began and returns how much too late it is then. It sleeps in the kernel: a Go
// timer fires up to a millisecond late in a process with nothing else to do, which would be counted as the broker's.
func sleepUntil(began time.Time, due time.Duration) time.Duration {
	for {
		ahead := due - time.Since(began)
		if ahead <= 0 {
			return -ahead
		}
		pause := unix.NsecToTimespec(int64(ahead))
		_ = unix.Nanosleep(&pause, nil) // cut short by a signal: the loop goes on
	}
}

func scaled(d time.Duration, b *bench) time.Duration {
	return time.Duration(float64(d) * b.settings.scale)
}

// besideWriters takes the latency of small requests on a connection of their own, every 5 ms one Produce of one record and
// one Metadata, while four others write 1 MB batches as fast as they can.
func besideWriters(b *bench, t *server) (sample, error) {
	if err := createTopic(t, benchTopic, 5); err != nil {
		return nil, err
	}
	batch := encodeBatch(randomBytes(1024), 950)
	small := encodeProduce(benchTopic, 4, encodeBatch(randomBytes(100), 1))
	length := scaled(duration, b)
	deadline := time.Now().Add(length)
	m := startMeter(t)
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	var written [4]int64
	for i := range written {
		c, err := dial(t.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		frame := encodeProduce(benchTopic, int32(i), batch)
		wg.Go(func() {
			n, err := pipeline(c, frame, 1<<40, 2, deadline)
			written[i] = n * int64(len(batch))
			if err != nil {
				errs <- err
			}
		})
	}
	latencies, err := probe(t, small, deadline)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	total := int64(0)
	for _, n := range written {
		total += n
	}
	s := m.stop(total)
	s["p50_ms"], s["p99_ms"], s["max_ms"] = percentile(latencies, .5), percentile(latencies, .99), percentile(latencies, 1)
	return s, deleteTopic(t, benchTopic)
}

// probe sends small requests until the deadline and returns how long each took.
func probe(t *server, small []byte, deadline time.Time) ([]time.Duration, error) {
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var latencies []time.Duration
	for time.Now().Before(deadline) {
		began := time.Now()
		if _, err := c.Write(small); err != nil {
			return nil, err
		}
		body, err := c.answer()
		if err == nil {
			err = produceError(benchTopic, body)
		}
		if err != nil {
			return nil, err
		}
		produced := time.Now()
		latencies = append(latencies, produced.Sub(began))
		if err := c.metadata(); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(produced))
		time.Sleep(5 * time.Millisecond)
	}
	if len(latencies) == 0 {
		return nil, fmt.Errorf("no small request was answered")
	}
	return latencies, nil
}
