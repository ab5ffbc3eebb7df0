package groups

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// scene brings a group into a state, in which its coordinator is then killed, and says what must become of it.
type scene struct {
	name   string
	modern bool // it needs the consumer protocol
	play   func(t testing.TB, g *group) script
}

// script is what is done with a group. The first steps of all scenes come before the second ones, and so on, so what one step begins
// the next may wait for.
type script struct {
	before []func() // brings the group into the state, or near it
	enter  []func() // brings it into a state in which it does not stay for long
	after  []func() // when the coordinator is back
}

var scenes = []scene{
	{"empty", false, func(t testing.TB, g *group) script {
		var m *member
		return script{
			before: []func(){
				func() { m = g.join(t, nil, eager()...) },
				func() { g.settle(t, "classic Stable 1"); m.leave() },
				func() { g.await(t, "classic Empty 0") },
			},
			after: []func(){
				func() { g.await(t, "classic Empty 0"); g.join(t, nil, eager()...) },
				func() { g.settle(t, "classic Stable 1") },
			},
		}
	}},
	{"first-rebalance", false, func(t testing.TB, g *group) script {
		return script{
			enter: []func(){
				func() { g.join(t, nil, eager()...); g.join(t, nil, eager()...) },
				func() { g.await(t, "classic PreparingRebalance 2", "classic PreparingRebalance 1") },
			},
			after: []func(){func() { g.settle(t, "classic Stable 2") }},
		}
	}},
	{"joining", false, func(t testing.TB, g *group) script {
		slow := g.gate()
		return script{
			before: []func(){
				func() { g.join(t, slow, eager()...) },
				func() { g.settle(t, "classic Stable 1"); g.join(t, nil, eager()...) },
				func() { slow.await(t); g.await(t, "classic PreparingRebalance 2") },
			},
			after: []func(){slow.release, func() { g.settle(t, "classic Stable 2") }},
		}
	}},
	{"first-sync", false, func(t testing.TB, g *group) script {
		slow := g.gate()
		leader := &slowLeader{GroupBalancer: kgo.RangeBalancer(), gate: slow, nth: 1}
		return script{
			before: []func(){
				func() { g.join(t, nil, kgo.Balancers(leader)); g.join(t, nil, kgo.Balancers(leader)) },
				func() { slow.await(t); g.await(t, "classic CompletingRebalance 2", "classic CompletingRebalance 1") },
			},
			after: []func(){slow.release, func() { g.settle(t, "classic Stable 2") }},
		}
	}},
	{"later-sync", false, func(t testing.TB, g *group) script {
		slow := g.gate()
		leader := &slowLeader{GroupBalancer: kgo.CooperativeStickyBalancer(), gate: slow, nth: 2}
		return script{
			before: []func(){
				func() { g.join(t, nil, kgo.Balancers(leader)) },
				func() { g.settle(t, "classic Stable 1"); g.join(t, nil, cooperative()...) },
				func() { slow.await(t); g.await(t, "classic CompletingRebalance 2") },
			},
			after: []func(){slow.release, func() { g.settle(t, "classic Stable 2") }},
		}
	}},
	{"stable", false, func(t testing.TB, g *group) script { return stays(t, g, "classic Stable 2", cooperative()) }},
	{"stable-modern", true, func(t testing.TB, g *group) script { return stays(t, g, "consumer Stable 2", modern()) }},
	{"static", false, func(t testing.TB, g *group) script { return replaced(t, g, "classic Stable 2", eager()) }},
	{"static-modern", true, func(t testing.TB, g *group) script {
		s := replaced(t, g, "consumer Stable 2", modern())
		// franz-go says that it pauses without its group.instance.id, which is refused: its place is free when its session ends.
		s.before = append([]func(){func() { g.configure(t, "consumer.session.timeout.ms", "6000") }}, s.before...)
		return s
	}},
	{"deleted", false, func(t testing.TB, g *group) script { return deleted(t, g, "classic", eager()) }},
	{"deleted-modern", true, func(t testing.TB, g *group) script { return deleted(t, g, "consumer", modern()) }},
	{"reconciling", true, func(t testing.TB, g *group) script {
		slow := g.gate()
		return script{
			before: []func(){
				func() { g.join(t, slow, modern()...) },
				func() { g.settle(t, "consumer Stable 1"); g.join(t, nil, modern()...) },
				func() { slow.await(t); g.await(t, "consumer Reconciling 2") },
			},
			after: []func(){
				func() { g.await(t, "consumer Reconciling 2"); slow.release() },
				func() { g.settle(t, "consumer Stable 2") },
			},
		}
	}},
	{"assigning", true, func(t testing.TB, g *group) script {
		return script{
			before: []func(){func() { g.configure(t, "consumer.assignment.interval.ms", "5000") }},
			enter: []func(){
				func() { g.join(t, nil, modern()...) },
				func() { g.await(t, "consumer Stable 1", "consumer Reconciling 1"); g.join(t, nil, modern()...) },
				func() { g.await(t, "consumer Assigning 2") },
			},
			after: []func(){func() { g.settle(t, "consumer Stable 2") }},
		}
	}},
	{"upgrading", true, func(t testing.TB, g *group) script {
		slow := g.gate()
		var old *member
		return script{
			before: []func(){
				func() { old = g.join(t, slow, eager()...) },
				func() { g.settle(t, "classic Stable 1"); g.join(t, nil, modern()...) },
				func() { slow.await(t); g.await(t, "consumer Reconciling 2") },
			},
			after: []func(){
				func() { g.await(t, "consumer Reconciling 2"); slow.release() },
				func() { g.settle(t, "consumer Stable 2"); old.leave() },
				func() { g.settle(t, "consumer Stable 1") },
			},
		}
	}},
	{"mixed", true, func(t testing.TB, g *group) script {
		var next *member
		return script{
			before: []func(){
				func() { g.join(t, nil, cooperative()...) },
				func() { g.settle(t, "classic Stable 1"); next = g.join(t, nil, modern()...) },
				func() { g.settle(t, "consumer Stable 2") },
			},
			after: []func(){
				func() { g.settle(t, "consumer Stable 2"); next.leave() },
				func() { g.settle(t, "classic Stable 1") },
			},
		}
	}},
	{"downgrading", true, func(t testing.TB, g *group) script {
		slow := g.gate()
		var next *member
		return script{
			before: []func(){
				func() { g.join(t, slow, eager()...) },
				func() { g.settle(t, "classic Stable 1"); next = g.join(t, nil, modern()...) },
				func() { slow.await(t); g.await(t, "consumer Reconciling 2"); next.leave() },
				func() { g.await(t, "classic PreparingRebalance 1") },
			},
			after: []func(){slow.release, func() { g.settle(t, "classic Stable 1") }},
		}
	}},
}

// stays is a group of two members in peace.
func stays(t testing.TB, g *group, state string, options []kgo.Opt) script {
	return script{
		before: []func(){
			func() { g.join(t, nil, options...); g.join(t, nil, options...) },
			func() { g.settle(t, state) },
		},
		after: []func(){func() { g.settle(t, state) }},
	}
}

// replaced is a group of two static members, one of which has gone and comes back as another process.
func replaced(t testing.TB, g *group, state string, options []kgo.Opt) script {
	as := func(instance string) *member { return g.join(t, nil, append(options, kgo.InstanceID(instance))...) }
	var gone *member
	return script{
		before: []func(){
			func() { as("a"); gone = as("b") },
			func() { g.settle(t, state); gone.leave() },
		},
		after: []func(){
			func() { as("b") },
			func() { g.settle(t, state) },
		},
	}
}

// deleted is a group that is deleted a moment before the coordinator dies.
func deleted(t testing.TB, g *group, kind string, options []kgo.Opt) script {
	var m *member
	return script{
		before: []func(){
			func() { m = g.join(t, nil, options...) },
			func() { g.settle(t, kind+" Stable 1"); m.leave() },
			func() { g.await(t, kind+" Empty 0") },
		},
		enter: []func(){nil, nil, func() {
			if _, err := g.admin.DeleteGroup(harness.Context(t, limit), g.id); err != nil {
				t.Fatal(err)
			}
			g.begin()
		}},
		after: []func(){func() {
			if harness.Peer() == harness.Kafka39 { // does not wait until a deletion is replicated
				g.await(t, "none", kind+" Empty 0")
				return
			}
			g.await(t, "none")
			if sum, err := g.look(t.Context()); err != nil || sum > 0 {
				t.Errorf("the offsets of the deleted group sum up to %d, %v", sum, err)
			}
		}},
	}
}
