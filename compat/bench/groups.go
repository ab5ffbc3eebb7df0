//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupRows measure the group coordinator with raw requests. They start a broker each time.
var groupRows = []row{
	{name: "offset commits, 1,000 groups", measure: offsetCommits, metrics: []metric{
		{name: "commits_per_s", unit: "commits/s", higher: true, must: 2, aim: 4}, {name: "cpu_us_per_commit", unit: "µs"},
	}},
	{name: "rebalance, 500 members", measure: bigRebalance, metrics: []metric{
		{name: "rebalance_ms", unit: "ms", must: 0.7, aim: 0.3}, {name: "heartbeat_p99_ms", unit: "ms", must: 0.5, aim: 0.2},
		{name: "heartbeat_p50_ms", unit: "ms"},
	}},
	{name: "10,000 groups", measure: manyGroups, metrics: []metric{
		{name: "anonymous_mb", unit: "MB", must: 1. / 4, aim: 1. / 10}, {name: "load_s", unit: "s", must: 0.5, aim: 0.2},
	}},
}

const groupTopic = "group-topic"

// ask sends a request of a version and reads the answer.
func ask[R kmsg.Response](c *rawConn, request kmsg.Request, version int16, response R) (R, error) {
	request.SetVersion(version)
	return response, c.call(request, response)
}

// coordinated starts a broker with a topic and its coordinator, and returns once that answers for every group.
func coordinated(t *server, partitions int) error {
	if _, err := t.start(); err != nil {
		return err
	}
	if err := createTopic(t, groupTopic, partitions); err != nil {
		return err
	}
	return awaitCoordinator(t)
}

// awaitCoordinator waits until all partitions of __consumer_offsets are loaded: groups enough to be in each are described.
func awaitCoordinator(t *server) error {
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	for i := range 1000 {
		describe.Groups = append(describe.Groups, benchGroup(i))
	}
	return until(5*time.Minute, func() error {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = benchGroup(0)
		if found, err := ask(c, find, 3, kmsg.NewPtrFindCoordinatorResponse()); err != nil || found.ErrorCode != 0 {
			return fmt.Errorf("find the coordinator: %v, %w", err, kerr.ErrorForCode(found.ErrorCode))
		}
		described, err := ask(c, describe, 5, kmsg.NewPtrDescribeGroupsResponse())
		if err != nil {
			return err
		}
		for _, g := range described.Groups {
			if g.ErrorCode != 0 {
				return kerr.ErrorForCode(g.ErrorCode)
			}
		}
		return nil
	})
}

func benchGroup(i int) string { return fmt.Sprintf("bench-group-%05d", i) }

// commitOf commits one offset from outside of a group.
func commitOf(group string, offset int64) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 8, group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: groupTopic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return r
}

func commitError(r *kmsg.OffsetCommitResponse) error {
	return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
}

// offsetCommits commits for 1,000 groups on 16 connections, each with 8 requests under way.
func offsetCommits(b *bench, t *server) (sample, error) {
	if err := coordinated(t, 1); err != nil {
		return nil, err
	}
	const conns, inflight, groups = 16, 8, 1000
	span := scaled(5*time.Second, b)
	var wg sync.WaitGroup
	counts, errs := make([]int, conns), make([]error, conns)
	m := startMeter(t)
	began := time.Now()
	for i := range conns {
		wg.Go(func() { counts[i], errs[i] = commitFor(t.addr, i, conns, inflight, groups, began.Add(span)) })
	}
	wg.Wait()
	elapsed := time.Since(began)
	s := m.stop(0)
	total := 0
	for i := range conns {
		if errs[i] != nil {
			return nil, errs[i]
		}
		total += counts[i]
	}
	s["commits_per_s"] = float64(total) / elapsed.Seconds()
	s["cpu_us_per_commit"] = s["cpu_s"] * 1e6 / float64(total)
	return s, nil
}

// commitFor commits on one connection until a moment, for every step-th group from first on, and returns how often.
func commitFor(addr string, first, step, inflight, groups int, end time.Time) (int, error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var frames [][]byte
	for i := first; i < groups; i += step {
		frames = append(frames, formatter.AppendRequest(nil, commitOf(benchGroup(i), int64(i)), 0))
	}
	sent, done := 0, 0
	for {
		for ; sent-done < inflight && time.Now().Before(end); sent++ {
			if _, err := c.Write(frames[sent%len(frames)]); err != nil {
				return done, err
			}
		}
		if sent == done {
			return done, nil
		}
		body, err := c.answer()
		if err != nil {
			return done, err
		}
		response := kmsg.NewPtrOffsetCommitResponse()
		response.Version = 8
		if err := response.ReadFrom(body); err != nil {
			return done, err
		}
		if err := commitError(response); err != nil {
			return done, err
		}
		done++
	}
}

// bigRebalance has 500 members, each on its connection, join a classic group of which one was a member alone, and takes the time
// from the first JoinGroup to the last SyncGroup's answer; meanwhile the member of another group sends heartbeats. That is done with
// one group after the other: the time is the median, the heartbeats are all that were on their way in one of them.
func bigRebalance(b *bench, t *server) (sample, error) {
	if err := coordinated(t, 500); err != nil {
		return nil, err
	}
	joiners := make([]joiner, 500)
	for i := range joiners {
		c, err := dial(t.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		joiners[i].rawConn = c
	}
	beating, err := startBeating(t.addr)
	if err != nil {
		return nil, err
	}
	defer beating.kill()
	m := startMeter(t)
	var spans []span
	var took []time.Duration
	for round := range max(2, int(10*b.settings.scale)) {
		s, err := rebalance(joiners, fmt.Sprint("rebalance-", round))
		if err != nil {
			return nil, err
		}
		spans, took = append(spans, s), append(took, s.end.Sub(s.begin))
	}
	s := m.stop(0)
	beats, err := beating.stop(spans)
	if err != nil {
		return nil, err
	}
	s["rebalance_ms"] = percentile(took, 0.5)
	s["heartbeat_p99_ms"], s["heartbeat_p50_ms"] = percentile(beats, 0.99), percentile(beats, 0.5)
	return s, nil
}

// span is a time.
type span struct{ begin, end time.Time }

// rebalance has the members of a new group join, all but the first at once, and returns from when to when.
func rebalance(joiners []joiner, group string) (s span, err error) {
	for i := range joiners {
		joiners[i].group, joiners[i].member = group, ""
	}
	if err := joiners[0].join(); err != nil {
		return s, err
	}
	for i := range joiners[1:] {
		if err := joiners[i+1].promise(); err != nil {
			return s, err
		}
	}
	s.begin = time.Now()
	errs := make([]error, len(joiners))
	var wg sync.WaitGroup
	for i := range joiners {
		wg.Go(func() { errs[i] = joiners[i].join() })
	}
	wg.Wait()
	s.end = time.Now()
	return s, errors.Join(errs...)
}

// joiner is a member of a classic group on a connection of its own.
type joiner struct {
	*rawConn
	group, member string
	generation    int32
}

func joinRequest(group, member string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.ProtocolType = group, member, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 300_000, 300_000
	subscription := kmsg.ConsumerMemberMetadata{Topics: []string{groupTopic}}
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
	return r
}

// promise gets a member id to join with.
func (j *joiner) promise() error {
	joined, err := ask(j.rawConn, joinRequest(j.group, ""), 9, kmsg.NewPtrJoinGroupResponse())
	if err != nil {
		return err
	}
	if joined.ErrorCode != kerr.MemberIDRequired.Code {
		return fmt.Errorf("a first JoinGroup is answered with code %d", joined.ErrorCode)
	}
	j.member = strings.Clone(joined.MemberID) // the answer refers to the connection's buffer
	return nil
}

// join joins and gets the assignment; the leader gives each member one partition.
func (j *joiner) join() error {
	if j.member == "" {
		if err := j.promise(); err != nil {
			return err
		}
	}
	joined, err := ask(j.rawConn, joinRequest(j.group, j.member), 9, kmsg.NewPtrJoinGroupResponse())
	if err == nil {
		err = kerr.ErrorForCode(joined.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	j.generation = joined.Generation
	r := kmsg.NewPtrSyncGroupRequest()
	protocolType, protocol := "consumer", "range"
	r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = j.group, j.member, j.generation, &protocolType, &protocol
	for i, m := range joined.Members {
		a := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: groupTopic, Partitions: []int32{int32(i)}}}}
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: strings.Clone(m.MemberID), MemberAssignment: a.AppendTo(nil),
		})
	}
	synced, err := ask(j.rawConn, r, 5, kmsg.NewPtrSyncGroupResponse())
	if err == nil {
		err = kerr.ErrorForCode(synced.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// manyGroups makes 10,000 groups of one member with a committed offset (ten times as many with -scale 10), takes the memory, and the time
// until all are served again after a restart.
func manyGroups(b *bench, t *server) (sample, error) {
	if err := coordinated(t, 1); err != nil {
		return nil, err
	}
	const conns = 16
	groups := max(conns, int(10_000*b.settings.scale))
	m := startMeter(t)
	errs := make([]error, conns)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() { errs[i] = makeGroups(t.addr, i, conns, groups) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	s := m.stop(0)
	time.Sleep(scaled(settle, b))
	addMemory(s, t)
	if err := t.stop(); err != nil {
		return nil, err
	}
	if _, err := t.start(); err != nil {
		return nil, err
	}
	began := time.Now()
	err := awaitCoordinator(t)
	s["load_s"] = time.Since(began).Seconds()
	return s, err
}

// makeGroups makes every step-th group from first on.
func makeGroups(addr string, first, step, groups int) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := first; i < groups; i += step {
		group := benchGroup(i)
		committed, err := ask(c, commitOf(group, 7), 8, kmsg.NewPtrOffsetCommitResponse())
		if err == nil {
			err = commitError(committed)
		}
		if err == nil {
			err = (&joiner{rawConn: c, group: group}).join()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
