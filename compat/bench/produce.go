//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// replay describes a produce row of raw requests: each connection keeps a number of identical requests in flight.
type replay struct {
	record, records int // bytes of a record's value, records of a batch
	partitions      int
	conns, inflight int
	bytes           int64         // of record values, in all
	duration        time.Duration // 0 = until all is sent
}

const benchTopic = "bench"

// measure sends, checks what is stored, and deletes it.
func (p replay) measure(b *bench, t *server) (sample, error) {
	if t.name == bareName {
		return p.measureBare(b, t)
	}
	if err := createTopic(t, benchTopic, p.partitions); err != nil {
		return nil, err
	}
	batch := encodeBatch(randomBytes(p.record), p.records)
	values := int64(p.record) * int64(p.records)
	perConn := int64(float64(p.bytes)*b.settings.scale) / values / int64(p.conns)
	m := startMeter(t)
	requests, err := p.send(t, batch, perConn, time.Duration(float64(p.duration)*b.settings.scale))
	if err != nil {
		return nil, fmt.Errorf("produce: %w", err)
	}
	s := m.stop(requests * values)
	s["requests_per_s"] = float64(requests) / s["seconds"]
	s["cpu_us_per_request"] = s["cpu_s"] / float64(requests) * 1e6
	if err := verify(b, t, p.partitions, requests*int64(p.records), func(got []byte) error { return sameBatch(got, batch) }); err != nil {
		return nil, err
	}
	return s, deleteTopic(t, benchTopic)
}

// measureBare sends the same to the bare server, which has no topics and nothing to read back.
func (p replay) measureBare(b *bench, t *server) (sample, error) {
	batch := encodeBatch(randomBytes(p.record), p.records)
	values := int64(p.record) * int64(p.records)
	perConn := int64(float64(p.bytes)*b.settings.scale) / values / int64(p.conns)
	leaders := map[int32]string{}
	for i := range int32(p.partitions) {
		leaders[i] = t.addr
	}
	m := startMeter(t)
	requests, err := p.sendTo(leaders, batch, perConn, time.Duration(float64(p.duration)*b.settings.scale))
	if err != nil {
		return nil, fmt.Errorf("produce: %w", err)
	}
	s := m.stop(requests * values)
	s["requests_per_s"] = float64(requests) / s["seconds"]
	s["cpu_us_per_request"] = s["cpu_s"] / float64(requests) * 1e6
	return s, nil
}

// send returns how many requests were acknowledged.
func (p replay) send(t *server, batch []byte, perConn int64, limit time.Duration) (int64, error) {
	leaders, err := leadersOf(t, benchTopic)
	if err != nil {
		return 0, err
	}
	return p.sendTo(leaders, batch, perConn, limit)
}

func (p replay) sendTo(leaders map[int32]string, batch []byte, perConn int64, limit time.Duration) (int64, error) {
	deadline := time.Now().Add(time.Hour)
	if p.duration > 0 {
		deadline, perConn = time.Now().Add(limit), 1<<40
	}
	var acked atomic.Int64
	errs := make(chan error, p.conns)
	var wg sync.WaitGroup
	for i := range p.conns {
		partition := int32(i % p.partitions)
		c, err := dial(leaders[partition])
		if err != nil {
			return 0, err
		}
		defer c.Close()
		frame := encodeProduce(benchTopic, partition, batch)
		wg.Go(func() {
			n, err := pipeline(c, frame, perConn, int64(p.inflight), deadline)
			acked.Add(n)
			if err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return acked.Load(), nil
	}
}

// pipeline keeps inflight copies of a request unanswered until n are sent or the deadline has passed.
func pipeline(c *rawConn, frame []byte, n, inflight int64, deadline time.Time) (acked int64, err error) {
	for sent := int64(0); ; acked++ {
		for ; sent < n && sent-acked < inflight && time.Now().Before(deadline); sent++ {
			if _, err := c.Write(frame); err != nil {
				return acked, err
			}
		}
		if acked == sent {
			return acked, nil
		}
		body, err := c.answer()
		if err == nil {
			err = produceError(benchTopic, body)
		}
		if err != nil {
			return acked, err
		}
	}
}

// sameBatch compares a stored batch to the sent one: all but the offset and the leader epoch, which the broker sets.
func sameBatch(got, sent []byte) error {
	if len(got) != len(sent) || !bytes.Equal(got[8:12], sent[8:12]) || !bytes.Equal(got[16:], sent[16:]) {
		return fmt.Errorf("a stored batch differs from the one that was sent")
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verify reads a topic back: as many records as were acknowledged, each batch as check wants it, and kafka-dump-log
// content.
func verify(b *bench, t *server, partitions int, records int64, check func(batch []byte) error) error {
	ends, err := endOffsets(t, benchTopic)
	if err != nil {
		return err
	}
	leaders, err := leadersOf(t, benchTopic)
	if err != nil {
		return err
	}
	found := int64(0)
	for partition, end := range ends {
		next := int64(0)
		c, err := dial(leaders[partition])
		if err != nil {
			return err
		}
		_, err = c.fetchPartition(benchTopic, partition, end, 8<<20, func(batch []byte) error {
			if base := int64(binary.BigEndian.Uint64(batch)); base != next {
				return fmt.Errorf("offset %d of partition %d follows on %d", base, partition, next)
			}
			count := int64(binary.BigEndian.Uint32(batch[57:]))
			next, found = next+count, found+count
			return check(batch)
		})
		_ = c.Close() // all that was wanted is read
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
	}
	if found != records {
		return fmt.Errorf("read back: %d records of the %d that were acknowledged", found, records)
	}
	if t.name == gregorName && !b.settings.noDumpLog {
		return dumpLog(t, partitions)
	}
	return nil
}

// dumpLog has Kafka's own tool look at every batch of the topic.
func dumpLog(t *server, partitions int) error {
	paths, err := t.segments(benchTopic, partitions)
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("%d segments to dump: %w", len(paths), err)
	}
	out, err := exec.Command(harness.Java(), "-XX:+UseSerialGC", "-cp", filepath.Join(harness.KafkaHome(harness.V44), "lib", "*"),
		"org.apache.kafka.tools.DumpLogSegments", "--files", strings.Join(paths, ",")).Output()
	if err != nil {
		return fmt.Errorf("kafka-dump-log: %w", err)
	}
	if bytes.Contains(out, []byte("isvalid: false")) || !bytes.Contains(out, []byte("isvalid: true")) || bytes.Contains(out, []byte("Found ")) {
		return fmt.Errorf("kafka-dump-log complains of %s", paths)
	}
	return nil
}

// produceClient measures with a whole franz-go client.
type produceClient struct {
	record     int
	partitions int
	bytes      int64
}

func (p produceClient) measure(b *bench, t *server) (sample, error) {
	if err := createTopic(t, benchTopic, p.partitions); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(t.seeds()...), kgo.DefaultProduceTopic(benchTopic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1_000_000), kgo.ProducerLinger(0),
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.MaxBufferedRecords(1<<20), kgo.MaxBufferedBytes(64<<20),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(1_000_000, false, false, nil)),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	value := randomBytes(p.record)
	n := int64(float64(p.bytes)*b.settings.scale) / int64(p.record)
	var failed atomic.Int64
	ctx := context.Background()
	m := startMeter(t)
	records := make([]kgo.Record, n)
	for i := range records {
		records[i].Value = value
		client.Produce(ctx, &records[i], func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	s := m.stop(n * int64(p.record))
	if n := failed.Load(); n > 0 {
		return nil, fmt.Errorf("%d records failed", n)
	}
	err = verify(b, t, p.partitions, n, func(batch []byte) error {
		if crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
			return fmt.Errorf("a stored batch has a wrong CRC")
		}
		if got, want := int64(bytes.Count(batch[61:], value)), int64(binary.BigEndian.Uint32(batch[57:])); got != want {
			return fmt.Errorf("a stored batch of %d records has the value %d times", want, got)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, deleteTopic(t, benchTopic)
}
