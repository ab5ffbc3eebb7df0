package api

import (
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeLogDirs tells which partitions lie in which log directory, and how much room they take.
// v1 throttling · v3 top-level error · v4 size and free space of the file system · v5 cordoned directories (none here).
// After KafkaApis.handleDescribeLogDirsRequest.
var describeLogDirs = Entry{
	Key: kmsg.DescribeLogDirs, ZooKeeper: v(0, 4), Kafka4: v(1, 5),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribe), Cost: 16, Runs: onHandler,
	Serve: serveDescribeLogDirs,
}

func serveDescribeLogDirs(s *Services, c *Call, request kmsg.Request) {
	c.Reply(s.DescribeLogDirs(request.(*kmsg.DescribeLogDirsRequest)))
}

// DescribeLogDirs answers clients, and this broker's own controller.
func (s *Services) DescribeLogDirs(r *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	response := r.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	for _, dir := range s.Replicas.LogDirs(wantedLogs(r)) {
		d := kmsg.NewDescribeLogDirsResponseDir()
		d.Dir, d.TotalBytes, d.UsableBytes = dir.Path, dir.Total, dir.Usable
		if d.Topics = logDirTopics(dir.Replicas); dir.Failed {
			d.ErrorCode, d.TotalBytes, d.UsableBytes = kerr.KafkaStorageError.Code, -1, -1
		}
		response.Dirs = append(response.Dirs, d)
	}
	return response
}

// wantedLogs is the request's selection; null topics are all.
func wantedLogs(r *kmsg.DescribeLogDirsRequest) func(log.TopicPartition) bool {
	if r.Topics == nil {
		return func(log.TopicPartition) bool { return true }
	}
	wanted := map[log.TopicPartition]bool{}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			wanted[log.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	return func(tp log.TopicPartition) bool { return wanted[tp] }
}

// logDirTopics groups replicas, which are in the order of their topics.
func logDirTopics(replicas []replica.LogReplica) []kmsg.DescribeLogDirsResponseDirTopic {
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for _, r := range replicas {
		if len(topics) == 0 || topics[len(topics)-1].Topic != r.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = r.Topic
			topics = append(topics, t)
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size, p.OffsetLag = r.Partition, r.Size, r.Lag
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return topics
}
