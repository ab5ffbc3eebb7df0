package groupcoord

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/wire/clock"
)

// inScene runs f with an empty scene under virtual time.
func inScene(t *testing.T, change func(*Settings), f func(s *scene)) {
	t.Helper()
	inBubble(t, func(set *Settings) {
		set.Consumer.AssignmentInterval = 0
		if change != nil {
			change(set)
		}
	}, func(w *world) {
		w.topics.add("ta", 4, 0xA)
		w.topics.add("tb", 2, 0xB)
		f(&scene{world: w, script: script{topics: map[string][16]byte{"ta": {0xA}, "tb": {0xB}}}})
	})
}

func (s *scene) answer(v int16, r kmsg.Request) kmsg.Response { return s.world.do(v, r) }

func (s *scene) wantIs(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := s.is(); got != want {
		t.Errorf("the group is %q, want %q", got, want)
	}
}

// TestFirstVersionOfHeartbeat: until version 1 the coordinator makes the member id.
func TestFirstVersionOfHeartbeat(t *testing.T) {
	inScene(t, nil, func(s *scene) {
		r := s.answer(0, s.beat("g", "", 0, nil)).(*kmsg.ConsumerGroupHeartbeatResponse)
		if r.ErrorCode != 0 || r.MemberID == nil || len(*r.MemberID) != 22 {
			t.Fatalf("%+v", r)
		}
		again := s.answer(0, s.beat("g", *r.MemberID, r.MemberEpoch, nil)).(*kmsg.ConsumerGroupHeartbeatResponse)
		if again.ErrorCode != 0 {
			t.Errorf("%+v", again)
		}
	})
}

// TestMaxSizeOfConsumerGroup: who is in stays in, and who comes back too.
func TestMaxSizeOfConsumerGroup(t *testing.T) {
	inScene(t, func(set *Settings) { set.Consumer.MaxSize = 2 }, func(s *scene) {
		s.codeIs("first", s.answer(1, s.beat("g", "m1", 0, nil)), 0)
		s.codeIs("second", s.answer(1, s.beat("g", "m2", 0, nil, as("i"))), 0)
		s.codeIs("third", s.answer(1, s.beat("g", "m3", 0, nil)), 81)
		s.codeIs("first again", s.answer(1, s.beat("g", "m1", 0, nil)), 0)
		s.codeIs("pause", s.answer(1, s.beat("g", "m2", -2, nil, as("i"))), 0)
		s.codeIs("second comes back", s.answer(1, s.beat("g", "m4", 0, nil, as("i"))), 0)
	})
}

// TestSlowRevocation: a member that does not give up partitions within its rebalance timeout is removed, however alive it is.
func TestSlowRevocation(t *testing.T) {
	inScene(t, nil, func(s *scene) {
		epoch := s.hb(s.beat("g", "m1", 0, nil))
		s.hb(s.beat("g", "m2", 0, nil))
		for range 12 { // 60 s
			s.hb(s.beat("g", "m1", epoch, []int32{0, 1, 2, 3}))
			s.hb(s.beat("g", "m2", epoch+1, []int32{}))
			pass(5 * time.Second)
		}
		synctest.Wait()
		s.codeIs("the slow member", s.answer(1, s.beat("g", "m1", epoch, []int32{0, 1, 2, 3})), 25)
		s.hb(s.beat("g", "m2", epoch+1, []int32{}))
		s.wantIs(t, "consumer Stable, epochs 4 4, m2@4: 4")
	})
}

// TestPauseOfStaticMember: its place is kept for as long as its session lasts, and no longer.
func TestPauseOfStaticMember(t *testing.T) {
	inScene(t, nil, func(s *scene) {
		s.hb(s.beat("g", "a1", 0, nil, as("i")))
		s.hb(s.beat("g", "a1", -2, nil, as("i")))
		pass(40 * time.Second)
		s.hb(s.beat("g", "a2", 0, nil, as("i")))
		s.wantIs(t, "consumer Stable, epochs 2 2, a2@2: 4")
		s.hb(s.beat("g", "a2", -2, nil, as("i")))
		pass(50 * time.Second)
		s.wantIs(t, "consumer Empty, epochs 3 3")
	})
}

// TestAssignmentInterval: a new target comes no sooner than that after the last; until then who joins has nothing.
func TestAssignmentInterval(t *testing.T) {
	inScene(t, func(set *Settings) { set.Consumer.AssignmentInterval = time.Second }, func(s *scene) {
		first := s.hb(s.beat("g", "m1", 0, nil))
		pass(500 * time.Millisecond)
		second := s.hb(s.beat("g", "m2", 0, nil))
		s.wantIs(t, "consumer Assigning, epochs 3 2, m1@2: 4, m2@2: 0")
		pass(500 * time.Millisecond)
		s.hb(s.beat("g", "m2", second, []int32{}))
		s.hb(s.beat("g", "m1", first, []int32{0, 1}))
		s.wantIs(t, "consumer Reconciling, epochs 3 3, m1@3: 2, m2@3: 0")
	})
}

// TestTimesOfGroup: what is configured for a group holds for it alone.
func TestTimesOfGroup(t *testing.T) {
	inScene(t, nil, func(s *scene) {
		s.close()
		times := func(group string) consumer.Times {
			own := s.config.Consumer.Times
			if group == "g" {
				own.SessionTimeout, own.HeartbeatInterval = 50*time.Second, 7*time.Second
			}
			return own
		}
		s.c = New(Options{
			Log: s.log, Metadata: s.world.topics, Clock: clock.System, Logger: nopLogger, Config: s.config, Times: times,
			Partitions: func() int32 { return 1 },
		})
		s.c.Elected(0, 1)
		synctest.Wait()
		r := s.answer(1, s.beat("g", "m1", 0, nil)).(*kmsg.ConsumerGroupHeartbeatResponse)
		if r.HeartbeatIntervalMillis != 7000 {
			t.Errorf("heartbeats every %d ms", r.HeartbeatIntervalMillis)
		}
		other := s.answer(1, s.beat("other", "m1", 0, nil)).(*kmsg.ConsumerGroupHeartbeatResponse)
		if other.HeartbeatIntervalMillis != 5000 {
			t.Errorf("of another group every %d ms", other.HeartbeatIntervalMillis)
		}
		pass(49 * time.Second)
		s.wantIs(t, "consumer Stable, epochs 2 2, m1@2: 4")
		pass(2 * time.Second)
		s.wantIs(t, "consumer Empty, epochs 3 3")
	})
}

// TestMigrationPolicies: which way groups with members may turn.
func TestMigrationPolicies(t *testing.T) {
	for policy, want := range map[string]struct{ up, classicJoin int16 }{
		"bidirectional": {0, 0}, "upgrade": {0, 0}, "downgrade": {69, 0}, "disabled": {69, 23},
	} {
		t.Run(policy, func(t *testing.T) {
			inScene(t, func(set *Settings) { set.Consumer.Migration = consumer.ParsePolicy(policy) }, func(s *scene) {
				s.classicStable()
				s.codeIs("a member of the consumer protocol joins a classic group", s.answer(1, s.beat("g", "m1", 0, nil)), want.up)
				s.hb(s.beat("h", "m1", 0, nil))
				r := joinReq("h", "", "range")
				s.codeIs("a classic member joins a group of the consumer protocol", s.answer(3, r), want.classicJoin)
				if want.classicJoin != 0 {
					return
				}
				s.hb(s.beat("h", "m1", -1, nil))
				kind := "Dead"
				if policy == "bidirectional" || policy == "downgrade" {
					kind = "PreparingRebalance"
				}
				if got := s.state("h"); got != kind {
					t.Errorf("for the classic API the group is %s then, want %s", got, kind)
				}
			})
		})
	}
}

// TestExpiryInConsumerGroup: offsets of topics that members consume do not expire, those of others do; when the members are
// gone all do, and the group with them.
func TestExpiryInConsumerGroup(t *testing.T) {
	inScene(t, func(set *Settings) { set.OffsetsRetention = time.Hour }, func(s *scene) {
		epoch := s.hb(s.beat("g", "m1", 0, nil))
		s.codeIs("commit", s.answer(9, commitReq("g", epoch, "m1", "ta", 5, 0)), 0)
		s.codeIs("commit", s.answer(9, commitReq("g", epoch, "m1", "tb", 6, 0)), 0)
		committed := func(topic string) int64 {
			return s.answer(8, fetchReq("g", topic, 0)).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0].Offset
		}
		for range 120 {
			pass(40 * time.Second)
			s.hb(s.beat("g", "m1", epoch, nil))
		}
		if a, b := committed("ta"), committed("tb"); a != 5 || b != -1 {
			t.Errorf("offsets %d and %d after more than the retention, want 5 and -1", a, b)
		}
		s.hb(s.beat("g", "m1", -1, nil))
		pass(30 * time.Minute)
		s.wantIs(t, "classic Dead, members: 0")
	})
}

// TestTopicsOfExpressions: new topics that match are found with the next heartbeat, at most every ten seconds.
func TestTopicsOfExpressions(t *testing.T) {
	inScene(t, nil, func(s *scene) {
		epoch := s.hb(s.beat("g", "m1", 0, nil, matching("t[a-z]")))
		synctest.Wait()
		epoch = s.hb(s.beat("g", "m1", epoch, nil))
		s.wantIs(t, "consumer Stable, epochs 2 2, m1@2: 6")
		s.world.topics.add("tc", 3, 0xC)
		pass(5 * time.Second)
		s.hb(s.beat("g", "m1", epoch, nil))
		synctest.Wait()
		s.wantIs(t, "consumer Stable, epochs 2 2, m1@2: 6")
		pass(6 * time.Second)
		s.hb(s.beat("g", "m1", epoch, nil))
		synctest.Wait()
		s.hb(s.beat("g", "m1", epoch, nil))
		s.wantIs(t, "consumer Stable, epochs 3 3, m1@3: 9")
	})
}

// TestRefusedUpgrade: a member of the consumer protocol that cannot join leaves a classic group as it is, also one that is
// stored nowhere yet.
func TestRefusedUpgrade(t *testing.T) {
	inScene(t, nil, func(s *scene) {
		s.classic = s.world.join("g")
		s.codeIs("join with an expression that cannot be read", s.answer(1, s.beat("g", "m1", 0, nil, matching("t["))), 128)
		s.wantIs(t, "classic CompletingRebalance, members: 1")
		s.codeIs("sync", s.answer(5, syncReq("g", s.classic, s.classic.MemberID, string(assigned("ta", 0)))), 0)
		s.wantIs(t, "classic Stable, members: 1")
		custom := kmsg.ConsumerMemberAssignment{Version: 1, UserData: []byte("mine")}
		s.classic = s.world.join("h")
		s.codeIs("sync", s.answer(5, syncReq("h", s.classic, s.classic.MemberID, string(custom.AppendTo(nil)))), 0)
		s.codeIs("join a group with an assignor of its own", s.answer(1, s.beat("h", "m1", 0, nil)), 69)
		if got := s.state("h"); got != "Stable" {
			t.Errorf("the group is %s", got)
		}
	})
}

// TestMemberTakesInstance: a member that joins again with a group.instance.id of its own is the one that it was.
func TestMemberTakesInstance(t *testing.T) {
	inScene(t, nil, func(s *scene) {
		s.hb(s.beat("g", "m1", 0, nil))
		s.wantIs(t, "consumer Stable, epochs 2 2, m1@2: 4")
		s.hb(s.beat("g", "m1", 0, nil, as("i")))
		s.wantIs(t, "consumer Stable, epochs 2 2, m1@2: 4")
	})
}
