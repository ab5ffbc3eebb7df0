package groupcoord

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/memlog"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/clock"
)

// benchWorld is a coordinator in real time with a stable group "g".
func benchWorld(b *testing.B) (*Coordinator, *kmsg.JoinGroupResponse) {
	w := &world{t: b, log: memlog.New(), topics: newTopics(), config: DefaultSettings()}
	w.config.Kafka4, w.config.Group.InitialRebalanceDelay = true, 0
	w.topics.add("t", 100, 1)
	w.c = New(Options{Log: w.log, Metadata: w.topics, Clock: clock.System, Logger: nopLogger, Config: w.config, Partitions: func() int32 { return 1 }})
	b.Cleanup(func() { w.c.Close(context.Background()) })
	w.c.Elected(0, 1)
	for codeOf(w.do(8, fetchReq("g", "t", 0))) != 0 {
		goruntime.Gosched()
	}
	return w.c, w.stable("g")
}

func BenchmarkHeartbeat(b *testing.B) {
	c, j := benchWorld(b)
	done := make(chan struct{}, 1)
	r := heartbeatReq("g", j)
	reply := func(kmsg.Response) { done <- struct{}{} }
	b.ReportAllocs()
	for b.Loop() {
		c.Heartbeat(Caller{}, r, reply)
		<-done
	}
}

func BenchmarkOffsetCommit(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			c, j := benchWorld(b)
			done := make(chan struct{}, 1)
			list := make([]int32, n)
			for i := range list {
				list[i] = int32(i)
			}
			r := commitReq("g", j.Generation, j.MemberID, "t", 7, list...)
			reply := func(kmsg.Response) { done <- struct{}{} }
			b.ReportAllocs()
			for b.Loop() {
				c.OffsetCommit(Caller{}, r, reply)
				<-done
			}
		})
	}
}

// BenchmarkConsumerHeartbeat is a heartbeat of the consumer protocol that says and changes nothing, in a group of 1,000 members.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	c, _ := benchWorld(b)
	done := make(chan kmsg.Response, 1)
	reply := func(r kmsg.Response) { done <- r }
	s := &script{}
	epochs := make([]int32, 1000)
	for i := range epochs {
		c.ConsumerGroupHeartbeat(Caller{}, s.beat("modern", fmt.Sprint("m", i), 0, nil, to("t")), reply)
		epochs[i] = s.epoch(<-done)
	}
	r := s.beat("modern", "m0", epochs[0], nil)
	b.ReportAllocs()
	for b.Loop() {
		c.ConsumerGroupHeartbeat(Caller{}, r, reply)
		<-done
	}
}

// BenchmarkMemory tells what a group costs: one that has only committed, and one with a member, of either protocol.
func BenchmarkMemory(b *testing.B) {
	const groups = 100_000
	for name, member := range map[string]func(m *machine, id string){"none": nil, "classic": fillClassic, "consumer": fillModern} {
		b.Run("member="+name, func(b *testing.B) {
			for b.Loop() {
				s := DefaultSettings()
				s.Kafka4 = true
				var before, after goruntime.MemStats
				goruntime.GC()
				goruntime.ReadMemStats(&before)
				r := runtime.New(runtime.Options{
					Log: memlog.New(), Clock: clock.System, Logger: nopLogger, Machine: func(int32) runtime.Machine {
						m := newMachine(&Options{Config: s, Metadata: newTopics()}, nopLogger, newUUID)
						fill(m, groups, member)
						return m
					},
				})
				r.Elected(0, 1)
				loaded := make(chan struct{})
				r.Notify(func() runtime.Event { return &serves{loaded} })
				<-loaded
				goruntime.GC()
				goruntime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/groups, "B/group")
				r.Close(context.Background())
			}
		})
	}
}

// fill applies the records of many groups, one committed offset each; member adds those of a member.
func fill(m *machine, groups int, member func(m *machine, id string)) {
	value := (&schema.OffsetValue{Offset: 5, LeaderEpoch: 1, CommitMs: 1, ExpireMs: -1, TopicID: [16]byte{1}}).Append(nil, 4)
	for i := range groups {
		id := fmt.Sprintf("group-%06d", i)
		m.Apply(&runtime.Record{Key: schema.AppendOffsetKey(nil, id, "t", 0), Value: value, ProducerID: -1})
		if member != nil {
			member(m, id)
		}
	}
}

// memberID is as long as those that clients make.
const memberID = "consumer-1-0123456789-0123456789-0123456789"

func fillClassic(m *machine, id string) {
	protocol, leader := "range", memberID
	v := &schema.GroupValue{ProtocolType: "consumer", Generation: 1, Protocol: &protocol, Leader: &leader, Members: []schema.Member{{
		ID: memberID, ClientID: "consumer-1", ClientHost: "/10.0.0.1", SessionTimeoutMs: 45000, RebalanceTimeoutMs: 300000,
		Subscription: subscription("t"), Assignment: []byte("assignment"),
	}}}
	m.Apply(&runtime.Record{Key: schema.AppendGroupKey(nil, id), Value: v.Append(nil, 3), ProducerID: -1})
}

func fillModern(m *machine, id string) {
	apply := func(kind schema.Type, value []byte) {
		m.Apply(&runtime.Record{Key: schema.AppendConsumerKey(nil, kind, id, memberID), Value: value, ProducerID: -1})
	}
	said := schema.ConsumerMemberValue{ClientID: "consumer-1", ClientHost: "/10.0.0.1", Topics: []string{"t"}, RebalanceTimeoutMs: 300000}
	has := []schema.TopicPartitions{{Topic: [16]byte{1}, Partitions: []int32{0}, Epochs: []int32{2}}}
	current := schema.CurrentValue{Epoch: 2, PreviousEpoch: 1, Assigned: has}
	apply(schema.ConsumerMember, said.Append(nil))
	apply(schema.ConsumerGroup, schema.ConsumerGroupValue{Epoch: 2, MetadataHash: 5}.Append(nil))
	apply(schema.ConsumerTargetOf, schema.AppendTargetOfValue(nil, []schema.TopicPartitions{{Topic: [16]byte{1}, Partitions: []int32{0}}}))
	apply(schema.ConsumerTarget, schema.TargetValue{Epoch: 2, TimestampMs: 7}.Append(nil))
	apply(schema.ConsumerCurrent, current.Append(nil))
}

// serves tells that the shard serves.
type serves struct{ served chan struct{} }

// Refuse implements runtime.Event.
func (l *serves) Refuse(error) {}

// Fire implements group.Due.
func (l *serves) Fire(*group.Env, *runtime.Out) { close(l.served) }
