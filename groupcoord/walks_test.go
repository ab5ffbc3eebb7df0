package groupcoord

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// seeds are those of the walks. In the one that is left out the leader goes, and which of the others Kafka takes is chance.
var seeds = []int{0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}

const steps = 40

// walker is somebody who may be a member of the group "g". It has at most one request under way.
type walker struct {
	name     string
	instance *string
	member   string                  // its id, also when it is a member no more
	joined   *kmsg.JoinGroupResponse // the last one
	does     string
	answer   <-chan kmsg.Response // nil: none is awaited
	heard    kmsg.Response        // what has come of it
}

// walk is a random conversation with a group. What is said next depends on the seed and on who still waits for an answer.
type walk struct {
	*world
	rnd     *rand.Rand
	walkers []*walker
	names   map[string]string // of member ids
	said    strings.Builder
}

func newWalk(w *world, seed int) *walk {
	k := &walk{world: w, rnd: rand.New(rand.NewPCG(uint64(seed), 1)), names: map[string]string{"": "nobody"}}
	for _, name := range []string{"ann", "bob", "cyd"} {
		k.walkers = append(k.walkers, &walker{name: name, joined: nobody})
	}
	for _, name := range []string{"dot", "eve"} { // of whom the group takes each for the other
		k.walkers = append(k.walkers, &walker{name: name, joined: nobody, instance: ptr("i1")})
	}
	return k
}

// asked is what a walker may do, the more often the more often it is listed.
var asked = []struct {
	name string
	send func(w *world, p *walker) <-chan kmsg.Response
}{
	{"join", joinAgain}, {"join", joinAgain}, {"join", joinAgain}, {"join", joinAgain}, {"sync", syncAs}, {"sync", syncAs}, {"sync", syncAs},
	{"join, one more protocol", func(w *world, p *walker) <-chan kmsg.Response { return p.join(w, 9, "range", "sticky") }},
	{"join, other protocol", func(w *world, p *walker) <-chan kmsg.Response { return p.join(w, 9, "sticky") }},
	{"join, old client", func(w *world, p *walker) <-chan kmsg.Response { return p.join(w, 3, "range") }},
	{"join as new", func(w *world, p *walker) <-chan kmsg.Response {
		p.member = ""
		return joinAgain(w, p)
	}},
	{"heartbeat", func(w *world, p *walker) <-chan kmsg.Response {
		r := heartbeatReq("g", p.joined)
		r.MemberID, r.InstanceID = p.member, p.instance
		return w.send(4, r)
	}},
	{"leave", func(w *world, p *walker) <-chan kmsg.Response {
		r := leaveReq("g", p.member)
		r.Members[0].InstanceID = p.instance
		return w.send(4, r)
	}},
	{"commit", func(w *world, p *walker) <-chan kmsg.Response {
		r := commitReq("g", p.joined.Generation, p.member, "t", 5, 0)
		r.InstanceID = p.instance
		return w.send(9, r)
	}},
	{"commit from outside", func(w *world, p *walker) <-chan kmsg.Response { return w.send(9, commitReq("g", -1, "", "t", 7, 0)) }},
	{"fetch", func(w *world, p *walker) <-chan kmsg.Response { return w.send(8, fetchReq("g", "t", 0)) }},
	{"delete offsets", func(w *world, p *walker) <-chan kmsg.Response {
		return w.send(0, offsetDeleteReq())
	}},
	{"delete group", func(w *world, p *walker) <-chan kmsg.Response {
		return w.send(2, deleteGroupReq())
	}},
}

func joinAgain(w *world, p *walker) <-chan kmsg.Response { return p.join(w, 9, "range") }

// join joins with a session that no Kafka ends while the walk lasts.
func (p *walker) join(w *world, version int16, protocols ...string) <-chan kmsg.Response {
	r := joinReq("g", p.member, protocols...)
	r.InstanceID, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = p.instance, 300_000, 300_000
	return w.send(version, r)
}

// syncAs assigns each member its number among those that the leader was told.
func syncAs(w *world, p *walker) <-chan kmsg.Response {
	var assigned []string
	for i, m := range p.joined.Members {
		assigned = append(assigned, m.MemberID, fmt.Sprint(len(p.joined.Members), " of ", i))
	}
	r := syncReq("g", p.joined, assigned...)
	r.MemberID, r.InstanceID = p.member, p.instance
	return w.send(5, r)
}

// run returns what was said.
func (k *walk) run() string {
	for range steps {
		free := slices.DeleteFunc(slices.Clone(k.walkers), func(p *walker) bool { return p.answer != nil })
		if len(free) == 0 {
			break
		}
		p, what := free[k.rnd.IntN(len(free))], asked[k.rnd.IntN(len(asked))]
		p.does, p.answer = what.name, what.send(k.world, p)
		k.listen()
		fmt.Fprintf(&k.said, "%s asks to %s\n", p.name, p.does)
		for _, p := range k.walkers {
			k.note(p)
		}
		k.look()
	}
	return k.said.String()
}

// listen waits until all answers have come that are to come, and what follows has happened. An Apache Kafka may take a second for an
// answer, and more if it cannot be that there is none.
func (k *walk) listen() {
	if k.kafka == nil {
		k.settle()
		k.hear()
		return
	}
	for quiet := 0; quiet < 15 || quiet < 50 && k.waits(nil) || k.waits(atOnce); quiet++ {
		if k.hear() {
			quiet = 0
		}
		pass(20 * time.Millisecond)
	}
}

// atOnce says whether what a walker does is answered at once, whatever the others do.
func atOnce(p *walker) bool { return !strings.HasPrefix(p.does, "join") && p.does != "sync" }

// waits says whether a walker, one of a kind, waits for an answer.
func (k *walk) waits(kind func(*walker) bool) bool {
	return slices.ContainsFunc(k.walkers, func(p *walker) bool { return p.answer != nil && p.heard == nil && (kind == nil || kind(p)) })
}

// hear takes the answers that have come, and says whether there was one.
func (k *walk) hear() (any bool) {
	for _, p := range k.walkers {
		select {
		case p.heard = <-p.answer:
			any = true
		default:
		}
	}
	return any
}

// note writes down a walker's answer, if it has come.
func (k *walk) note(p *walker) {
	if p.heard == nil {
		return
	}
	fmt.Fprintf(&k.said, "  %s, %s: %s%s\n", p.name, p.does, codeName(codeOf(p.heard)), k.more(p, p.heard))
	p.answer, p.heard = nil, nil
}

// more is what there is in an answer besides its first error.
func (k *walk) more(p *walker, answer kmsg.Response) string {
	switch r := answer.(type) {
	case *kmsg.JoinGroupResponse:
		return k.joined(p, r)
	case *kmsg.SyncGroupResponse:
		return fmt.Sprintf(" %q", r.MemberAssignment)
	case *kmsg.OffsetFetchResponse:
		if r.Groups[0].ErrorCode == 0 {
			return fmt.Sprint(" ", r.Groups[0].Topics[0].Partitions[0].Offset)
		}
	}
	return ""
}

func (k *walk) joined(p *walker, r *kmsg.JoinGroupResponse) string {
	if r.MemberID != "" && k.names[r.MemberID] == "" {
		k.names[r.MemberID] = fmt.Sprint(p.name, len(k.names))
	}
	if r.ErrorCode == 0 || r.ErrorCode == kerr.MemberIDRequired.Code {
		p.member = r.MemberID
	}
	if r.ErrorCode != 0 {
		return ""
	}
	slices.SortFunc(r.Members, func(a, b kmsg.JoinGroupResponseMember) int {
		return strings.Compare(k.names[a.MemberID], k.names[b.MemberID])
	})
	p.joined = r
	var members []string
	for _, m := range r.Members {
		members = append(members, k.names[m.MemberID])
	}
	protocol := ""
	if r.Protocol != nil {
		protocol = *r.Protocol
	}
	return fmt.Sprintf(" as %s, generation %d of %s, led by %s %v, as before %v", k.names[r.MemberID], r.Generation, protocol, k.names[r.LeaderID], members, r.SkipAssignment)
}

// look notes what the group is.
func (k *walk) look() {
	g := k.do(5, describeReq("g")).(*kmsg.DescribeGroupsResponse).Groups[0]
	var members []string
	for _, m := range g.Members {
		members = append(members, fmt.Sprintf("%s%q", k.names[m.MemberID], m.MemberAssignment))
	}
	slices.Sort(members)
	fmt.Fprintf(&k.said, "  %s %q %q %v\n", g.State, g.ProtocolType, g.Protocol, members)
}

// TestWalksAsKafka: random conversations go as they went with an Apache Kafka. To have them anew start one as for TestStatesAreKafkas and
// run
//
//	go test ./groupcoord -run TestWalksAsKafka/4.4.0 -kafka 127.0.0.1:9092
func TestWalksAsKafka(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			file := "testdata/walks-" + version + ".txt"
			if *kafka != "" {
				rewriteWalks(t, file)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(string(text), "walk ")[1:]
			if len(want) != len(seeds) {
				t.Fatalf("%s has %d walks", file, len(want))
			}
			for i, seed := range seeds {
				inBubble(t, func(s *Settings) { s.Kafka4 = version == "4.4.0" }, func(w *world) {
					compareWalk(t, want[i], fmt.Sprintln(seed)+newWalk(w, seed).run())
				})
			}
		})
	}
}

func rewriteWalks(t *testing.T, file string) {
	c := dialKafka(t, *kafka)
	(&script{do: c.do, wait: pass, find: c.find}).awaitCoordinator()
	c.conn.Close()
	var b strings.Builder
	for _, seed := range seeds {
		w := remoteWorld(t, fmt.Sprint("walk-", seed))
		fmt.Fprintf(&b, "walk %d\n%s", seed, newWalk(w, seed).run())
		w.kafka.close()
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compareWalk tells where two walks part.
func compareWalk(t *testing.T, want, got string) {
	t.Helper()
	wantLines, gotLines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wantLines), len(gotLines)) {
		if wantLines[i] != gotLines[i] {
			t.Errorf("walk %s, after\n%s\n Kafka %s\n  ours %s", wantLines[0], strings.Join(gotLines[max(0, i-6):i], "\n"), wantLines[i], gotLines[i])
			return
		}
	}
	if len(wantLines) != len(gotLines) {
		t.Errorf("walk %s has %d lines, want %d", wantLines[0], len(gotLines), len(wantLines))
	}
}
