package group

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// member is one with protocols in order of preference, separated by spaces.
func member(l *live, id, protocols string) *Member {
	m := &Member{live: l, id: id}
	for _, name := range strings.Fields(protocols) {
		m.protocols = append(m.protocols, protocol{name: name})
	}
	return m
}

func TestSelectProtocol(t *testing.T) {
	for _, c := range []struct {
		members string // of each its protocols
		want    string
	}{
		{"range", "range"},
		{"range sticky, range sticky", "range"},
		{"range sticky, sticky range, sticky range", "sticky"},
		{"range sticky, sticky range", "range"},
		{"new range, new range, range", "range"},
		{"a b c, c b, b c", "b"},
	} {
		l := &live{}
		for i, protocols := range strings.Split(c.members, ",") {
			l.add(member(l, fmt.Sprint("m", i), protocols))
		}
		if got := l.selectProtocol(); got != c.want {
			t.Errorf("%s: %q, want %q", c.members, got, c.want)
		}
	}
}

func TestSupports(t *testing.T) {
	l := &live{}
	if l.supports("consumer", nil) || l.supports("", []protocol{{name: "range"}}) || !l.supports("any", []protocol{{name: "range"}}) {
		t.Error("an empty group takes who has a type and a protocol")
	}
	l.protocolType = "consumer"
	l.add(member(l, "a", "range sticky"))
	l.add(member(l, "b", "range"))
	l.state = Stable
	for protocols, want := range map[string]bool{"range": true, "sticky": false, "other range": true, "": false} {
		if got := l.supports("consumer", member(l, "", protocols).protocols); got != want {
			t.Errorf("%q: %v", protocols, got)
		}
	}
	if l.supports("connect", member(l, "", "range").protocols) {
		t.Error("another type")
	}
}

func TestMemberSet(t *testing.T) {
	var s memberSet
	for i := range 3 * manyMembers {
		s.add(&Member{id: fmt.Sprint(i)})
		for k := range i + 1 {
			if m := s.get(fmt.Sprint(k)); m == nil || m.id != fmt.Sprint(k) {
				t.Fatalf("of %d members %d is %+v", i+1, k, m)
			}
		}
	}
	s.rename(s.get("5"), "five")
	s.remove(s.get("7"))
	if s.get("5") != nil || s.get("five") == nil || s.get("7") != nil || s.len() != 3*manyMembers-1 || s.list[5].id != "five" {
		t.Error("rename and remove")
	}
}

func TestSubscriptionsOfAGeneration(t *testing.T) {
	e := &Env{Log: zap.NewNop()}
	sub := func(topics ...string) []byte {
		b := []byte{0, 1, 0, 0, 0, byte(len(topics))}
		for _, topic := range topics {
			b = append(append(b, 0, byte(len(topic))), topic...)
		}
		return append(b, 0xff, 0xff, 0xff, 0xff)
	}
	g := Make("g")
	l := &live{group: &g, protocolType: ConsumerProtocol, protocol: "range", state: Stable}
	g.live = l
	for id, metadata := range map[string][]byte{"a": sub("t", "u"), "b": sub("u", "v")} {
		l.add(&Member{live: l, id: id, protocols: []protocol{{"range", metadata}}})
	}
	l.subscribe(e)
	if !g.Subscribed("t") || !g.Subscribed("u") || !g.Subscribed("v") || g.Subscribed("w") {
		t.Errorf("%v", l.subscribed)
	}
	l.members.list[0].protocols[0].metadata = []byte{0}
	l.subscribe(e)
	if !g.Subscribed("w") {
		t.Error("subscriptions that cannot be read count as all")
	}
	if _, ok := g.Retention(); ok {
		t.Error("and no offset expires")
	}
}

func TestRetentionOfStoredGroups(t *testing.T) {
	g := Make("g")
	if since, ok := g.Retention(); since != -1 || !ok {
		t.Error("a group that never had members: from the commit")
	}
	g.Apply(&schema.GroupValue{ProtocolType: ConsumerProtocol, StateMs: 77})
	if since, ok := g.Retention(); since != 77 || !ok {
		t.Errorf("an empty group: from when it became so, not %d", since)
	}
}
