//go:build linux

package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What the fetch rows read: batches of the same size, so that the bare server finds any offset by arithmetic.
const (
	fetchTopic        = "fetch"
	fetchRecords      = 950 // of 1 KiB in a batch, about 1 MB
	fetchTopicBytes   = 1_000_000_000
	fetchRequestBytes = 8 << 20
)

func fetchBatch() []byte { return encodeBatch(randomBytes(1024), fetchRecords) }

// fillFetchTopic writes the topic, unless it is there.
func fillFetchTopic(b *bench, t *server) (ends map[int32]int64, err error) {
	if ends, err := endOffsets(t, fetchTopic); err == nil && ends[0] > 0 {
		return ends, nil
	}
	if err := createTopic(t, fetchTopic, 1); err != nil {
		return nil, err
	}
	batch := fetchBatch()
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	frame := encodeProduce(fetchTopic, 0, batch)
	for range int64(float64(fetchTopicBytes)*b.settings.scale) / int64(len(batch)) {
		if _, err := c.Write(frame); err != nil {
			return nil, err
		}
		body, err := c.answer()
		if err == nil {
			err = produceError(fetchTopic, body)
		}
		if err != nil {
			return nil, err
		}
	}
	return endOffsets(t, fetchTopic)
}

// fetcher reads everything with raw requests, one in flight for each reader.
type fetcher struct{ readers int }

func (f fetcher) measure(b *bench, t *server) (sample, error) {
	var end int64
	if t.name == bareName {
		end = int64(float64(fetchTopicBytes)*b.settings.scale) / int64(len(fetchBatch())) * fetchRecords
	} else {
		ends, err := fillFetchTopic(b, t)
		if err != nil {
			return nil, err
		}
		end = ends[0]
	}
	var bytes atomic.Int64
	errs := make(chan error, f.readers)
	var wg sync.WaitGroup
	m := startMeter(t)
	for range f.readers {
		c, err := dial(t.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		wg.Go(func() {
			for range 3 { // one pass is short
				n, err := c.fetchPartition(fetchTopic, 0, end, fetchRequestBytes, nil)
				bytes.Add(n)
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return m.stop(bytes.Load()), nil
	}
}

// consumeClient reads everything with a whole franz-go client.
func consumeClient(b *bench, t *server) (sample, error) {
	ends, err := fillFetchTopic(b, t)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(t.seeds()...), kgo.ConsumeTopics(fetchTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	bytes := int64(0)
	m := startMeter(t)
	for left := ends[0]; left > 0; {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			bytes += int64(len(r.Value))
			left--
		})
	}
	return m.stop(bytes), nil
}
