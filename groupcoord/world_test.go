package groupcoord

import (
	"context"
	"fmt"
	"maps"
	"slices"
	gosync "sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/memlog"
	"github.com/gregor-broker/gregor/wire/clock"
)

var nopLogger = zap.NewNop()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// topics is Metadata of topics that a test makes and deletes. Safe for concurrent use.
type topics struct {
	mu      gosync.Mutex
	all     map[string]madeTopic
	version int64
}

type madeTopic struct {
	partitions int32
	id         [16]byte
}

func newTopics() *topics { return &topics{all: map[string]madeTopic{}} }

func (t *topics) get(name string) (madeTopic, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.all[name]
	return e, ok
}

func (t *topics) PartitionCount(topic string) int32 {
	e, _ := t.get(topic)
	return e.partitions
}

func (t *topics) TopicID(topic string) ([16]byte, bool) {
	e, ok := t.get(topic)
	return e.id, ok
}

func (t *topics) TopicName(id [16]byte) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, e := range t.all {
		if e.id == id {
			return name, true
		}
	}
	return "", false
}

func (t *topics) TopicNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.all))
}

func (t *topics) Racks(string, int32) []string { return nil }

func (t *topics) TopicsVersion() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// add makes a topic, or changes it.
func (t *topics) add(name string, partitions int32, id byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[name] = madeTopic{partitions, [16]byte{id}}
	t.version++
}

func (t *topics) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, name)
	t.version++
}

// world is a coordinator with one partition of __consumer_offsets, in memory. It must live in a synctest bubble.
type world struct {
	t      testing.TB
	log    *memlog.Log
	topics *topics
	config Settings
	c      *Coordinator
	kafka  *remoteGroup // instead of c: a group of an Apache Kafka
}

// inBubble runs f with a world under virtual time, whose settings change may alter.
func inBubble(t *testing.T, change func(*Settings), f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change)
		defer w.close()
		f(w)
	})
}

func newWorld(t testing.TB, change func(*Settings)) *world {
	w := &world{t: t, log: memlog.New(), topics: newTopics(), config: DefaultSettings()}
	w.config.Kafka4 = true
	w.config.Group.InitialRebalanceDelay = 0
	if change != nil {
		change(&w.config)
	}
	w.topics.add("t", 1, 1)
	w.start()
	return w
}

// start makes a coordinator on the log as it is, and waits until it has loaded.
func (w *world) start() {
	w.c = New(Options{
		Log: w.log, Metadata: w.topics, Clock: clock.System, Logger: nopLogger, Config: w.config,
		Partitions: func() int32 { return 1 },
	})
	w.c.Elected(0, 1)
	synctest.Wait()
}

func (w *world) close() {
	if err := w.c.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
}

// restart loads everything from the log again.
func (w *world) restart() {
	w.close()
	w.start()
}

// send sends a request as version v. The request passes through its wire format, and its bytes are spoilt once the
// coordinator has it, as the broker's buffers are.
func (w *world) send(v int16, r kmsg.Request) <-chan kmsg.Response {
	w.t.Helper()
	if w.kafka != nil {
		return w.kafka.send(v, r)
	}
	r.SetVersion(v)
	frame := r.AppendTo(nil)
	got := kmsg.RequestForKey(r.Key())
	got.SetVersion(v)
	if err := got.ReadFrom(frame); err != nil {
		w.t.Fatalf("%T: %v", r, err)
	}
	answer := make(chan kmsg.Response, 2)
	reply := func(resp kmsg.Response) {
		b := resp.AppendTo(nil)
		again := r.ResponseKind()
		if err := again.ReadFrom(b); err != nil {
			w.t.Errorf("%T: %v", resp, err)
		}
		answer <- again
		if len(answer) > 1 {
			w.t.Errorf("%T was answered twice", r)
		}
	}
	dispatch(w.c, got, reply)
	for i := range frame {
		frame[i] = 0xEE
	}
	return answer
}

func dispatch(c *Coordinator, r kmsg.Request, reply func(kmsg.Response)) {
	who := Caller{ClientID: "probe", ClientHost: "/127.0.0.1"}
	switch r := r.(type) {
	case *kmsg.JoinGroupRequest:
		c.JoinGroup(who, r, reply)
	case *kmsg.SyncGroupRequest:
		c.SyncGroup(who, r, reply)
	case *kmsg.HeartbeatRequest:
		c.Heartbeat(who, r, reply)
	case *kmsg.LeaveGroupRequest:
		c.LeaveGroup(who, r, reply)
	case *kmsg.OffsetCommitRequest:
		c.OffsetCommit(who, r, reply)
	case *kmsg.TxnOffsetCommitRequest:
		c.TxnOffsetCommit(who, r, nil, nil, reply)
	case *kmsg.OffsetFetchRequest:
		c.OffsetFetch(who, r, reply)
	case *kmsg.OffsetDeleteRequest:
		c.OffsetDelete(who, r, reply)
	case *kmsg.DescribeGroupsRequest:
		c.DescribeGroups(who, r, reply)
	case *kmsg.ListGroupsRequest:
		c.ListGroups(who, r, reply)
	case *kmsg.DeleteGroupsRequest:
		c.DeleteGroups(who, r, reply)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		c.ConsumerGroupHeartbeat(who, r, reply)
	case *kmsg.ConsumerGroupDescribeRequest:
		c.ConsumerGroupDescribe(who, r, reply)
	default:
		panic(fmt.Sprintf("no handler for %T", r))
	}
}

// do sends a request and waits for the answer; virtual time passes meanwhile.
func (w *world) do(v int16, r kmsg.Request) kmsg.Response {
	w.t.Helper()
	if w.kafka != nil {
		return <-w.send(v, r)
	}
	hour, timer := clock.System.NewTimer(time.Hour)
	defer timer.Stop()
	select {
	case resp := <-w.send(v, r):
		synctest.Wait() // what follows from it has happened
		return resp
	case <-hour:
		w.t.Fatalf("%T was not answered within an hour", r)
		return nil
	}
}

// settle waits until everything that is to follow has happened.
func (w *world) settle() {
	if w.kafka != nil {
		w.kafka.settle()
		return
	}
	synctest.Wait()
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	over, _ := clock.System.NewTimer(d)
	<-over
}

// mustWait fails if an answer has come.
func mustWait(t testing.TB, answer <-chan kmsg.Response) {
	t.Helper()
	synctest.Wait()
	select {
	case resp := <-answer:
		t.Fatalf("answered too early: %+v", resp)
	default:
	}
}

// now returns an answer that must have come.
func now[R kmsg.Response](t testing.TB, answer <-chan kmsg.Response) R {
	t.Helper()
	synctest.Wait()
	select {
	case resp := <-answer:
		return resp.(R)
	default:
		t.Fatal("not answered")
		panic("unreachable")
	}
}

func ptr[T any](v T) *T { return &v }

// subscription is consumer protocol metadata, version 0, of one topic.
func subscription(topic string) []byte {
	b := []byte{0, 0, 0, 0, 0, 1, 0, byte(len(topic))}
	return append(append(b, topic...), 0, 0, 0, 0)
}

func joinReq(group, member string, protocols ...string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = group, member, "consumer", 10000, 60000
	for _, name := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, subscription("t")
		r.Protocols = append(r.Protocols, p)
	}
	return r
}

func staticReq(group, member, instance string) *kmsg.JoinGroupRequest {
	r := joinReq(group, member, "range")
	r.InstanceID = &instance
	return r
}

// syncReq is the SyncGroup of a member; assigned are pairs of member and assignment.
func syncReq(group string, j *kmsg.JoinGroupResponse, assigned ...string) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = group, j.MemberID, j.Generation, ptr("consumer"), ptr("range")
	for i := 0; i < len(assigned); i += 2 {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = assigned[i], []byte(assigned[i+1])
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	return r
}

func heartbeatReq(group string, j *kmsg.JoinGroupResponse) *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation = group, j.MemberID, j.Generation
	return r
}

func leaveReq(group string, members ...string) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group = group
	for _, id := range members {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		r.Members = append(r.Members, m)
	}
	if len(members) > 0 {
		r.MemberID = members[0]
	}
	return r
}

func commitReq(group string, generation int32, member, topic string, offset int64, partitions ...int32) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.Generation, r.MemberID = group, generation, member
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		q := kmsg.NewOffsetCommitRequestTopicPartition()
		q.Partition, q.Offset = p, offset
		t.Partitions = append(t.Partitions, q)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// fetchReq asks for partitions of a topic; without partitions for everything.
func fetchReq(group, topic string, partitions ...int32) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, r.Group = group, group
	if len(partitions) > 0 {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = topic, partitions
		g.Topics = append(g.Topics, t)
		r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: partitions}}
	}
	r.Groups = append(r.Groups, g)
	return r
}

func describeReq(groups ...string) *kmsg.DescribeGroupsRequest {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = groups
	return r
}

// join makes a new dynamic member and returns the answer of the join phase.
func (w *world) join(group string) *kmsg.JoinGroupResponse {
	w.t.Helper()
	first := w.do(9, joinReq(group, "", "range")).(*kmsg.JoinGroupResponse)
	return w.do(9, joinReq(group, first.MemberID, "range")).(*kmsg.JoinGroupResponse)
}

// stable makes a stable group with one dynamic member.
func (w *world) stable(group string) *kmsg.JoinGroupResponse {
	w.t.Helper()
	j := w.join(group)
	w.codeIs("sync", w.do(5, syncReq(group, j, j.MemberID, "all")), 0)
	return j
}

// state returns the state that DescribeGroups tells.
func (w *world) state(group string) string {
	w.t.Helper()
	return w.do(6, describeReq(group)).(*kmsg.DescribeGroupsResponse).Groups[0].State
}

// offset returns what OffsetFetch tells of t-0.
func (w *world) offset(group string) int64 {
	w.t.Helper()
	return w.do(8, fetchReq(group, "t", 0)).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0].Offset
}

// codeIs compares the one error code of an answer.
func (w *world) codeIs(what string, resp kmsg.Response, want int16) {
	w.t.Helper()
	if got := codeOf(resp); got != want {
		w.t.Errorf("%s: code %d, want %d (%+v)", what, got, want, resp)
	}
}

// codeOf returns the first error code of an answer.
func codeOf(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.SyncGroupResponse:
		return r.ErrorCode
	case *kmsg.HeartbeatResponse:
		return r.ErrorCode
	case *kmsg.LeaveGroupResponse:
		if r.ErrorCode == 0 && len(r.Members) > 0 {
			return r.Members[0].ErrorCode
		}
		return r.ErrorCode
	case *kmsg.OffsetCommitResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.TxnOffsetCommitResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.OffsetFetchResponse:
		if len(r.Groups) > 0 {
			return r.Groups[0].ErrorCode
		}
		return r.ErrorCode
	case *kmsg.OffsetDeleteResponse:
		return r.ErrorCode
	case *kmsg.DescribeGroupsResponse:
		return r.Groups[0].ErrorCode
	case *kmsg.ListGroupsResponse:
		return r.ErrorCode
	case *kmsg.DeleteGroupsResponse:
		return r.Groups[0].ErrorCode
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return r.ErrorCode
	case *kmsg.ConsumerGroupDescribeResponse:
		return r.Groups[0].ErrorCode
	}
	panic("no code")
}
