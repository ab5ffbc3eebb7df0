package metadata

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkApply is what UpdateMetadata costs a broker: one that names everything, as a new controller sends it, and one that names one
// partition of many. docs/scaling.md reckons with it.
func BenchmarkApply(b *testing.B) {
	const perTopic = 100
	for _, topics := range []int{100, 1000} {
		var states []kmsg.UpdateMetadataRequestTopicState
		for i := range topics {
			s := topicState(fmt.Sprint("topic-", i), 0)
			s.TopicID = [16]byte{byte(i), byte(i >> 8), 1}
			for p := range int32(perTopic) {
				s.PartitionStates = append(s.PartitionStates, kmsg.UpdateMetadataRequestTopicPartition{
					Partition: p, Leader: 1, LeaderEpoch: 5, ZKVersion: 7, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3},
				})
			}
			states = append(states, s)
		}
		all, one := update(states...), update(states[0])
		all.Version, one.Version = 8, 8
		one.TopicStates[0].PartitionStates = one.TopicStates[0].PartitionStates[:1]
		n := float64(topics * perTopic)
		b.Run(fmt.Sprintf("all of %d", topics*perTopic), func(b *testing.B) {
			c := NewCache()
			before := live()
			for b.Loop() {
				c.Apply(all)
			}
			b.ReportMetric(float64(live()-before)/n, "image-B/partition")
			b.ReportMetric(float64(len(all.AppendTo(nil)))/n, "wire-B/partition")
			runtime.KeepAlive(c)
		})
		b.Run(fmt.Sprintf("one of %d", topics*perTopic), func(b *testing.B) {
			c := NewCache()
			c.Apply(all)
			for b.Loop() {
				c.Apply(one)
			}
		})
	}
}

// live is how many bytes are in use.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
