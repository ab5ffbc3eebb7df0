package broker

import (
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
)

// TestQuotasReachThoseTheyAreOf: what the metadata store says of an entity holds for who it is of, for what it is of, and for as long as it
// says so.
func TestQuotasReachThoseTheyAreOf(t *testing.T) {
	snapshot, _, err := config.Load(config.Sources{Overrides: []string{"log.dirs=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]quota.Kind{
		"producer_byte_rate": quota.Produce, "consumer_byte_rate": quota.Fetch, "request_percentage": quota.Request, "controller_mutation_rate": quota.Mutations,
	}
	for _, e := range []struct{ kind, name, user, client, otherUser, otherClient string }{
		{znode.Users, "u", "u", "any", "v", "any"},
		{znode.Clients, "c", "any", "c", "any", "d"},
		{znode.Users, "u/clients/c", "u", "c", "u", "d"},
		{znode.Users, "u/clients/<default>", "u", "any", "v", "any"},
		{znode.Users, "<default>", "any", "any", "", ""},
		{znode.Clients, "<default>", "any", "any", "", ""},
	} {
		for key, kind := range keys {
			q := newClientQuotas(snapshot, clock.NewFake(time.UnixMilli(0)), zap.NewNop())
			held := func(kind quota.Kind, user, client string) bool {
				if kind == quota.Mutations {
					q.clients.Mutation(user, client, true).Take(1000)
					return !q.clients.Mutation(user, client, true).Take(1)
				}
				return q.clients.Record(kind, user, client, 1e6) > 0
			}
			q.changed(e.kind, e.name, map[string]string{key: "1"})
			for other, of := range keys {
				if held(of, e.user, e.client) != (other == key) {
					t.Errorf("%s of %s %s: %s of user %s and client %s is held back: %v", key, e.kind, e.name, other, e.user, e.client, other != key)
				}
			}
			if e.otherUser != "" && held(kind, e.otherUser, e.otherClient) {
				t.Errorf("%s of %s %s holds user %s and client %s back", key, e.kind, e.name, e.otherUser, e.otherClient)
			}
			q.changed(e.kind, e.name, nil)
			if held(kind, e.user, e.client) {
				t.Errorf("%s of %s %s holds when it is taken back", key, e.kind, e.name)
			}
		}
	}
	q := newClientQuotas(snapshot, clock.NewFake(time.UnixMilli(0)), zap.NewNop())
	limited := func(address string) bool {
		for range 50 {
			if q.connections.Admit(netip.MustParseAddr(address)) > 0 {
				return true
			}
		}
		return false
	}
	q.changed(znode.IPs, "10.0.0.1", map[string]string{"connection_creation_rate": "1"})
	if !limited("10.0.0.1") || limited("10.0.0.2") {
		t.Error("the quota of an address is not just of that one")
	}
	q.changed(znode.IPs, "10.0.0.1", nil)
	q.changed(znode.IPs, znode.Default, map[string]string{"connection_creation_rate": "1"})
	if !limited("10.0.0.1") || !limited("10.0.0.2") {
		t.Error("the quota of all addresses is not of all")
	}
}
