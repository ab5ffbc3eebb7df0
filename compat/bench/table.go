//go:build linux

package main

import "time"

// Figures that several rows are judged by.
func cpuPerGB(must, aim float64) metric {
	return metric{name: "cpu_s_per_gb", unit: "CPU-s/GB", must: must, aim: aim}
}

func throughput(must, aim float64) metric {
	return metric{name: "gb_per_s", unit: "GB/s", higher: true, must: must, aim: aim}
}

// besideBare is the same figure beside what the machine itself takes: a program that only moves the bytes. Nothing is asked
// of it; it says what of a ratio to Kafka is anybody's to save.
var besideBare = metric{name: "cpu_s_per_gb", unit: "CPU-s/GB", against: bareName}

// startRows start a broker each time.
var startRows = []row{
	{name: "start and idle", measure: startAndIdle, metrics: []metric{
		{name: "start_ms", unit: "ms", must: 1. / 50, aim: 1. / 200},
		{name: "anonymous_mb", unit: "MB", must: 1. / 12, aim: 1. / 30},
		{name: "resident_mb", unit: "MB"},
		{name: "cpu_cores", unit: "cores", must: 0.01, aim: 0.002, itself: true},
	}},
	{name: "5000 idle connections", measure: connections, metrics: []metric{
		{name: "kb_per_connection", unit: "kB", must: 2, aim: 0.5, itself: true},
	}},
}

// loadRows run on one warm broker of each kind, in this order.
var loadRows = []row{
	{name: "produce 1 MB batches, 1 partition", bare: true, metrics: []metric{cpuPerGB(0.5, 0.3), besideBare, throughput(0, 0)},
		measure: replay{record: 1024, records: 950, partitions: 1, conns: 4, inflight: 2, bytes: 1_000_000_000}.measure},
	{name: "produce 1 MB batches, 12 partitions", bare: true, metrics: []metric{cpuPerGB(0.5, 0.3), besideBare, throughput(0, 0)},
		measure: replay{record: 1024, records: 950, partitions: 12, conns: 4, inflight: 2, bytes: 1_000_000_000}.measure},
	{name: "produce 16 KB batches, 1 partition", bare: true, metrics: []metric{cpuPerGB(0.4, 0.2), besideBare, throughput(2, 4)},
		measure: replay{record: 1024, records: 15, partitions: 1, conns: 4, inflight: 5, bytes: 500_000_000}.measure},
	{name: "produce 16 KB batches, 12 partitions", bare: true, metrics: []metric{cpuPerGB(0.4, 0.2), besideBare, throughput(2, 4)},
		measure: replay{record: 1024, records: 15, partitions: 12, conns: 4, inflight: 5, bytes: 500_000_000}.measure},
	{name: "franz-go client, 100 B", metrics: []metric{throughput(1.2, 1.5), cpuPerGB(0.5, 0.3)},
		measure: produceClient{record: 100, partitions: 12, bytes: 300_000_000}.measure},
	{name: "franz-go client, 1 KiB", metrics: []metric{throughput(1.2, 1.5), cpuPerGB(0.5, 0.3)},
		measure: produceClient{record: 1024, partitions: 12, bytes: 1_000_000_000}.measure},
	{name: "franz-go client, 10 KiB", metrics: []metric{throughput(1.2, 1.5), cpuPerGB(0.5, 0.3)},
		measure: produceClient{record: 10240, partitions: 12, bytes: 1_000_000_000}.measure},
	{name: "one 100 B record per request", metrics: []metric{
		{name: "requests_per_s", unit: "requests/s", higher: true, must: 2.5, aim: 4},
		{name: "cpu_us_per_request", unit: "µs", must: 0.4, aim: 0.25},
	}, measure: replay{record: 100, records: 1, partitions: 12, conns: 16, inflight: 4, duration: 3 * time.Second}.measure},
	{name: "memory after produce", measure: memoryAfterLoad, metrics: []metric{
		{name: "anonymous_mb", unit: "MB", must: 1. / 8, aim: 1. / 15},
		{name: "resident_mb", unit: "MB"},
	}},
	{name: "fetch, 1 reader", bare: true, measure: fetcher{1}.measure, metrics: []metric{
		{name: "cpu_s_per_gb", unit: "CPU-s/GB", must: 1.25, aim: 1.1, against: bareName}, cpuPerGB(0, 0), throughput(0, 0),
	}},
	{name: "fetch, 4 readers", bare: true, measure: fetcher{4}.measure, metrics: []metric{
		{name: "cpu_s_per_gb", unit: "CPU-s/GB", must: 1.25, aim: 1.1, against: bareName}, cpuPerGB(0, 0), throughput(0, 0),
	}},
	{name: "franz-go consumer", measure: consumeClient, metrics: []metric{throughput(0, 0), cpuPerGB(0, 0)}},
	{name: "end to end, 1,000 msg/s", measure: endToEnd{1000}.measure, metrics: latencyMetrics},
	{name: "end to end, 20 MB/s", measure: endToEnd{20_000}.measure, metrics: latencyMetrics},
	{name: "small requests beside writers", measure: besideWriters, metrics: []metric{
		{name: "p99_ms", unit: "ms", must: 0.5, aim: 0.2}, {name: "p50_ms", unit: "ms"}, throughput(0, 0),
	}},
}

var latencyMetrics = []metric{
	{name: "p99_ms", unit: "ms", must: 0.5, aim: 0.1}, {name: "p50_ms", unit: "ms"}, {name: "max_ms", unit: "ms"}, {name: "client_late_p99_ms", unit: "ms"},
	{name: "cpu_cores", unit: "cores"},
}

// partitionRows start a broker each time.
var partitionRows = []row{
	{name: "create 1,000 partitions", measure: manyPartitions{1000}.measure, metrics: []metric{
		{name: "create_s", unit: "s", must: 0.5, aim: 0.2},
	}},
	{name: "10,000 partitions", measure: manyPartitions{10_000}.measure, metrics: []metric{
		{name: "create_s", unit: "s", must: 0.2, aim: 0.1},
		{name: "restart_s", unit: "s", must: 0.2, aim: 0.05},
		{name: "anonymous_mb", unit: "MB", must: 0.3, aim: 0.1},
	}},
}

// clusterRows run on three warm brokers of each kind, in this order. Produce is acknowledged by all in-sync replicas, three.
var clusterRows = []row{
	{name: "cluster: produce 16 KB batches", metrics: []metric{cpuPerGB(0.5, 0.3), throughput(1.5, 2.5)},
		measure: replay{record: 1024, records: 15, partitions: 6, conns: 6, inflight: 5, bytes: 300_000_000}.measure},
	{name: "cluster: produce 1 MB batches", metrics: []metric{cpuPerGB(0.5, 0.3), throughput(1.5, 2.5)},
		measure: replay{record: 1024, records: 950, partitions: 6, conns: 6, inflight: 2, bytes: 600_000_000}.measure},
	{name: "cluster: one connection, 5 in flight, 1 KiB", metrics: []metric{
		{name: "requests_per_s", unit: "requests/s", higher: true, must: 2, aim: 4},
		{name: "cpu_us_per_request", unit: "µs"},
	}, measure: replay{record: 1024, records: 1, partitions: 1, conns: 1, inflight: 5, duration: 5 * time.Second}.measure},
	{name: "cluster: acks=all at 10 MB/s", measure: acknowledged{10_000}.measure, metrics: []metric{
		{name: "p99_ms", unit: "ms", must: 0.5, aim: 0.2}, {name: "p50_ms", unit: "ms"}, {name: "max_ms", unit: "ms"}, {name: "cpu_cores", unit: "cores"},
	}},
	{name: "cluster: memory after the load", measure: memoryAfterLoad, metrics: []metric{
		{name: "anonymous_mb", unit: "MB", must: 1. / 6, aim: 1. / 12}, {name: "resident_mb", unit: "MB"},
	}},
}

// clusterFaultRows start three brokers each time.
var clusterFaultRows = []row{
	{name: "cluster: a leader is killed", measure: killedLeader{60}.measure, metrics: []metric{
		{name: "all_acked_ms", unit: "ms", must: 0.7, aim: 0.3},
	}},
	{name: "cluster: rolling restart", measure: rollingRestart, metrics: []metric{
		{name: "shutdown_max_ms", unit: "ms", must: 0.7, aim: 0.3}, {name: "rolling_max_ms", unit: "ms", must: 0.7, aim: 0.3},
	}},
}

// clusterPartitionRows start three brokers each time.
var clusterPartitionRows = []row{
	{name: "cluster: 10,000 partitions", measure: clusterPartitions{10_000}.measure, metrics: []metric{
		{name: "create_s", unit: "s"}, {name: "failover_s", unit: "s", must: 0.5, aim: 0.2}, {name: "restart_s", unit: "s"},
		{name: "anonymous_mb", unit: "MB"}, {name: "idle_cores", unit: "cores"},
	}},
}
