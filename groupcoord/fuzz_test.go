package groupcoord

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fuzzKeys are the requests that FuzzRequests sends.
var fuzzKeys = []kmsg.Key{
	kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.OffsetDelete,
	kmsg.DescribeGroups, kmsg.ListGroups, kmsg.DeleteGroups, kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe,
}

// frameOf is a request as FuzzRequests reads it: key, version, seconds that pass before it, length, body.
func frameOf(v int16, seconds byte, r kmsg.Request) []byte {
	r.SetVersion(v)
	b := r.AppendTo(nil)
	key := byte(0)
	for i, k := range fuzzKeys {
		if k.Int16() == r.Key() {
			key = byte(i)
		}
	}
	return append(binary.BigEndian.AppendUint16([]byte{key, byte(v), seconds}, uint16(len(b))), b...)
}

// modernLife is a life of a group of the consumer protocol with a classic member.
func modernLife() []byte {
	s := &script{topics: map[string][16]byte{"ta": {1}}}
	var life []byte
	j := &kmsg.JoinGroupResponse{MemberID: "m", Generation: 3}
	for _, frame := range [][]byte{
		frameOf(1, 0, s.beat("g", "m1", 0, nil)), frameOf(1, 1, s.beat("g", "m2", 0, nil, matching("t.?"))), frameOf(1, 1, s.beat("g", "m1", 2, []int32{0})),
		frameOf(3, 0, joinReq("g", "", "range")), frameOf(9, 0, staticReq("g", "", "i")), frameOf(5, 0, syncReq("g", j, "m", "a")),
		frameOf(9, 0, commitReq("g", 2, "m1", "t", 1, 0)), frameOf(1, 20, s.beat("g", "m1", -1, nil)), frameOf(1, 60, s.beat("g", "m2", -1, nil)),
		frameOf(1, 0, kmsg.NewPtrConsumerGroupDescribeRequest()), frameOf(1, 0, s.beat("g", "m3", 0, nil, as("i"))), frameOf(1, 0, s.beat("g", "m3", -2, nil, as("i"))),
	} {
		life = append(life, frame...)
	}
	return life
}

// FuzzRequests sends whatever decodes to one coordinator: it must answer each request once and survive, whatever the order.
func FuzzRequests(f *testing.F) {
	var life []byte
	j := &kmsg.JoinGroupResponse{MemberID: "m", Generation: 1}
	for _, frame := range [][]byte{
		frameOf(3, 0, joinReq("g", "", "range")), frameOf(5, 4, staticReq("g", "", "i")), frameOf(9, 0, staticReq("g", "", "i")),
		frameOf(5, 0, syncReq("g", j, "m", "a")), frameOf(4, 0, heartbeatReq("g", j)), frameOf(8, 0, commitReq("g", -1, "", "t", 1, 0)),
		frameOf(8, 0, fetchReq("g", "t", 0)), frameOf(3, 0, leaveReq("g", "m")), frameOf(6, 0, describeReq("g")), frameOf(5, 60, kmsg.NewPtrListGroupsRequest()),
	} {
		life = append(life, frame...)
	}
	f.Add(life)
	f.Add(modernLife())
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.Group.MinSessionTimeout = 0 })
			sent, answered := 0, make(chan struct{}, 1<<16)
			for len(b) >= 5 && sent < 50 {
				key, v, seconds, n := fuzzKeys[int(b[0])%len(fuzzKeys)], int16(b[1]), b[2], int(binary.BigEndian.Uint16(b[3:]))
				body := b[5:min(5+n, len(b))]
				b = b[min(5+n, len(b)):]
				r := kmsg.RequestForKey(key.Int16())
				r.SetVersion(v % (r.MaxVersion() + 1))
				if r.ReadFrom(body) != nil {
					continue
				}
				pass(time.Duration(seconds) * time.Second)
				sent++
				dispatch(w.c, r, func(resp kmsg.Response) {
					resp.AppendTo(nil)
					answered <- struct{}{}
				})
			}
			pass(time.Hour)
			w.close()
			if len(answered) != sent {
				t.Errorf("%d answers to %d requests", len(answered), sent)
			}
		})
	})
}
