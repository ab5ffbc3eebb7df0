//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transactionRows run on one warm broker of each kind, in this order.
var transactionRows = []row{
	{name: "transactions: 1 producer, 1 partition", measure: transactional{1, 1}.measure, metrics: transactionMetrics},
	{name: "transactions: 1 producer, 12 partitions", measure: transactional{1, 12}.measure, metrics: transactionMetrics},
	{name: "transactions: 16 producers, 1 partition", measure: transactional{16, 1}.measure, metrics: transactionMetrics},
	{name: "transactions: 16 producers, 12 partitions", measure: transactional{16, 12}.measure, metrics: transactionMetrics},
	{name: "transactions: read_committed fetch", measure: readCommitted, metrics: []metric{
		cpuPerGB(0, 0), {name: "uncommitted_cpu_s_per_gb", unit: "CPU-s/GB"}, {name: "extra_percent", unit: "% CPU more than uncommitted"},
	}},
}

var transactionMetrics = []metric{
	{name: "transactions_per_s", unit: "transactions/s", higher: true, must: 2, aim: 4},
	{name: "commit_p99_ms", unit: "ms", must: 0.5, aim: 0.2}, {name: "commit_p50_ms", unit: "ms"},
	{name: "cpu_us_per_transaction", unit: "µs"}, {name: "client_us_per_transaction", unit: "µs"}, {name: "switches_per_transaction", unit: "changes of thread"},
}

// transactional is producers that commit one transaction after the other, each of one record of 1 KiB for every partition.
type transactional struct{ producers, partitions int }

const transactionTopic = "transactions"

func (x transactional) measure(b *bench, t *server) (sample, error) {
	if err := createTopic(t, transactionTopic, x.partitions); err != nil {
		return nil, err
	}
	clients := make([]*kgo.Client, x.producers)
	for i := range clients {
		client, err := kgo.NewClient(kgo.SeedBrokers(t.seeds()...), kgo.TransactionalID(fmt.Sprint("bench-", i)), kgo.ProducerLinger(0),
			kgo.DefaultProduceTopic(transactionTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		clients[i] = client
		if err := x.transact(client, nil); err != nil { // which finds coordinator and leaders
			return nil, err
		}
	}
	m := startMeter(t)
	end := time.Now().Add(scaled(5*time.Second, b))
	latencies := make([][]time.Duration, x.producers)
	errs := make([]error, x.producers)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for errs[i] == nil && time.Now().Before(end) {
				errs[i] = x.transact(clients[i], &latencies[i])
			}
		})
	}
	wg.Wait()
	s := m.stop(0)
	var all []time.Duration
	for i := range latencies {
		if errs[i] != nil {
			return nil, errs[i]
		}
		all = append(all, latencies[i]...)
	}
	s["transactions_per_s"] = float64(len(all)) / s["seconds"]
	s["cpu_us_per_transaction"] = s["cpu_s"] * 1e6 / float64(len(all))
	s["client_us_per_transaction"] = s["client_cpu"] * 1e6 / float64(len(all))
	s["switches_per_transaction"] = s["switches"] / float64(len(all))
	s["commit_p50_ms"], s["commit_p99_ms"] = percentile(all, .5), percentile(all, .99)
	return s, deleteTopic(t, transactionTopic)
}

// transact commits one transaction and notes how long the commit took.
func (x transactional) transact(client *kgo.Client, latencies *[]time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	value := randomBytes(1024)
	records := make([]*kgo.Record, x.partitions)
	for p := range records {
		records[p] = &kgo.Record{Partition: int32(p), Value: value}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	began := time.Now()
	err := client.EndTransaction(ctx, kgo.TryCommit)
	if latencies != nil {
		*latencies = append(*latencies, time.Since(began))
	}
	return err
}

// readCommitted reads a topic of transactions, every tenth of which was aborted, under both isolation levels.
func readCommitted(b *bench, t *server) (sample, error) {
	const topic = "committed"
	end, err := fillTransactions(b, t, topic)
	if err != nil {
		return nil, err
	}
	var perGB [2]float64
	var s sample
	for _, level := range []int8{0, 1, 1, 0} {
		c, err := dial(t.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		c.isolation = level
		bytes := int64(0)
		m := startMeter(t)
		for range 3 { // one pass is short
			n, err := c.fetchPartition(topic, 0, end, fetchRequestBytes, nil)
			if bytes += n; err != nil {
				return nil, err
			}
		}
		s = m.stop(bytes)
		perGB[level] += s["cpu_s_per_gb"] / 2
	}
	s["cpu_s_per_gb"], s["uncommitted_cpu_s_per_gb"] = perGB[1], perGB[0]
	s["extra_percent"] = (perGB[1]/perGB[0] - 1) * 100
	return s, nil
}

// fillTransactions writes the topic, unless it is there, and returns its end.
func fillTransactions(b *bench, t *server, topic string) (int64, error) {
	if ends, err := endOffsets(t, topic); err == nil && ends[0] > 0 {
		return ends[0], nil
	}
	if err := createTopic(t, topic, 1); err != nil {
		return 0, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(t.seeds()...), kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx := context.Background()
	value := randomBytes(1024)
	for n := range int(500 * b.settings.scale) { // of 1 MB
		if err := client.BeginTransaction(); err != nil {
			return 0, err
		}
		records := make([]*kgo.Record, 950)
		for i := range records {
			records[i] = &kgo.Record{Value: value}
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return 0, err
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(n%10 != 9)); err != nil {
			return 0, err
		}
	}
	var ends map[int32]int64
	err = until(time.Minute, func() error { // markers are written after the answer
		admin := kadm.NewClient(client)
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err == nil {
			ends, err = endOffsets(t, topic)
		}
		if o, _ := stable.Lookup(topic, 0); err == nil && o.Offset != ends[0] {
			err = fmt.Errorf("the last stable offset is %d, the end %d", o.Offset, ends[0])
		}
		return err
	})
	return ends[0], err
}
