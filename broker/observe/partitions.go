package observe

import (
	"strconv"
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/replica"
)

// partitions tells what is held here and how it fares.
func (c *collector) partitions(out sink) {
	late, producers := 0, 0
	s := c.Services().Replicas.Stats(func(p *replica.PartitionStats) {
		pairs := labels{"topic", p.Topic, "partition", strconv.Itoa(int(p.Partition))}
		out.log(p, pairs)
		out.partition(p, pairs)
		producers += p.Producers
		if c.late(p.LateSince) {
			late++
		}
	})
	out.replicas(&s)
	out.gauge("kafka_server_replicamanager_produceridcount", producers)
	out.gauge("kafka_server_replicamanager_partitionswithlatetransactionscount", late)
	shrinks, expands := c.Services().Meter.ISRChanges()
	out.counter("kafka_server_replicamanager_isrshrinks_total", shrinks)
	out.counter("kafka_server_replicamanager_isrexpands_total", expands)
	out.counter("kafka_server_replicamanager_failedisrupdates_total", c.Services().Meter.ISRRefusals())
}

// late says whether a transaction has been open for longer than any may be, and five minutes
// (ProducerStateManager.hasLateTransaction of Apache Kafka).
func (c *collector) late(sinceMs int64) bool {
	const grace = 5 * time.Minute
	most := config.TxnMaxTimeout.Of(c.Services().Config.Now()) + grace
	return sinceMs >= 0 && c.Services().Clock.Now().Sub(time.UnixMilli(sinceMs)) > most
}

func (s sink) log(p *replica.PartitionStats, pairs labels) {
	s.gauge("kafka_log_log_size", int(p.Size), pairs...)
	s.gauge("kafka_log_log_numlogsegments", p.SegmentNum, pairs...)
	s.gauge("kafka_log_log_logstartoffset", int(p.Bounds.Start), pairs...)
	s.gauge("kafka_log_log_logendoffset", int(p.Bounds.End), pairs...)
	s.gauge("kafka_log_log_retentionsizeinpercent", p.RetentionPercent, pairs...)
}

func (s sink) partition(p *replica.PartitionStats, pairs labels) {
	s.gauge("kafka_cluster_partition_underreplicated", flag(p.UnderReplicated), pairs...)
	s.gauge("kafka_cluster_partition_underminisr", flag(p.UnderMinISR), pairs...)
	s.gauge("kafka_cluster_partition_atminisr", flag(p.AtMinISR), pairs...)
	s.gauge("kafka_cluster_partition_insyncreplicascount", p.InSync, pairs...)
	s.gauge("kafka_cluster_partition_replicascount", p.Replicas, pairs...)
	s.gauge("kafka_cluster_partition_laststableoffsetlag", int(p.Bounds.HighWatermark-p.Bounds.Stable), pairs...)
}

func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// replicas tells how all partitions fare together, and who waits for them.
func (s sink) replicas(x *replica.Stats) {
	s.gauge("kafka_server_replicamanager_partitioncount", x.Partitions)
	s.gauge("kafka_server_replicamanager_leadercount", x.Leaders)
	s.gauge("kafka_server_replicamanager_underreplicatedpartitions", x.UnderReplicated)
	s.gauge("kafka_server_replicamanager_underminisrpartitioncount", x.UnderMinISR)
	s.gauge("kafka_server_replicamanager_atminisrpartitioncount", x.AtMinISR)
	s.gauge("kafka_server_replicamanager_offlinereplicacount", x.Offline)
	s.gauge("kafka_server_replicamanager_reassigningpartitions", x.Reassigning)
	s.gauge("kafka_server_replicafetchermanager_maxlag", int(x.MaxLag), "clientId", "Replica")
	s.gauge("kafka_server_replicafetchermanager_failedpartitionscount", x.FailedFetches, "clientId", "Replica")
	s.counter("kafka_server_delayedproducemetrics_expires_total", x.Expired.Produces)
	s.counter("kafka_server_delayedfetchmetrics_expires_total", x.Expired.Consumers, "fetcherType", "consumer")
	s.counter("kafka_server_delayedfetchmetrics_expires_total", x.Expired.Followers, "fetcherType", "follower")
	w := &x.Waiting
	for _, kind := range []struct {
		name         string
		ops, watched int
	}{{"Produce", w.Produces, w.ProducesIn}, {"Fetch", w.Fetches, w.FetchesIn}, {"DeleteRecords", w.Deletions, w.DeletionsIn}} {
		s.gauge("kafka_server_delayedoperationpurgatory_numdelayedoperations", kind.ops, "delayedOperation", kind.name)
		s.gauge("kafka_server_delayedoperationpurgatory_purgatorysize", kind.watched, "delayedOperation", kind.name)
	}
}

// directories tells of the log directories.
func (c *collector) directories(out sink) {
	failed := c.Services().Replicas.FailedDirs()
	for _, d := range c.Services().Logs.Dirs() {
		out.gauge("gregor_log_directory_size_bytes", int(d.Total), "directory", d.Path)
		out.gauge("gregor_log_directory_usable_bytes", int(d.Usable), "directory", d.Path)
		out.gauge("kafka_log_logmanager_logdirectoryoffline", flag(failed[d.Path]), "logDirectory", quoted(d.Path))
	}
	out.gauge("kafka_log_logmanager_offlinelogdirectorycount", len(failed))
}
