package broker

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotasOf returns all producer_byte_rates by entity: type=name, the default without a name.
func quotasOf(t *testing.T, cl *kgo.Client) map[string]float64 {
	t.Helper()
	answer, err := kmsg.NewPtrDescribeClientQuotasRequest().RequestWith(t.Context(), cl.SeedBrokers()[0])
	if err != nil || answer.ErrorCode != 0 {
		t.Fatal(err, answer)
	}
	all := map[string]float64{}
	for _, e := range answer.Entries {
		var parts []string
		for _, p := range e.Entity {
			if p.Name == nil {
				parts = append(parts, p.Type)
			} else {
				parts = append(parts, p.Type+"="+*p.Name)
			}
		}
		all[strings.Join(parts, " ")] = e.Values[0].Value
	}
	return all
}

// TestQuotaNames: users and client ids may be called what also means defaults, or clients of users, or nothing in a file system.
func TestQuotaNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b, stop := start(t, dir)
		cl := client(t, b)
		want := map[string]float64{}
		for i, c := range []struct {
			entity []string
			told   string
		}{
			{[]string{"user", "u/clients/y"}, "user=u/clients/y"},
			{[]string{"user", "u", "client-id", "y"}, "user=u client-id=y"},
			{[]string{"user", "u", "client-id", "a/clients/b"}, "user=u client-id=a/clients/b"},
			{[]string{"user", "u/clients/a", "client-id", "b"}, "user=u/clients/a client-id=b"},
			{[]string{"user", ""}, "user"},
			{[]string{"user", "<default>"}, "user=<default>"},
			{[]string{"client-id", ""}, "client-id"},
			{[]string{"client-id", "<default>"}, "client-id=<default>"},
			{[]string{"user", "<default>", "client-id", ""}, "user=<default> client-id"},
			{[]string{"client-id", "."}, "client-id=."},
			{[]string{"client-id", ".."}, "client-id=.."},
			{[]string{"user", "..", "client-id", "/"}, "user=.. client-id=/"},
			{[]string{"client-id", "%2E%2E"}, "client-id=%2E%2E"},
			{[]string{"client-id", strings.Repeat("c", 1000)}, "client-id=" + strings.Repeat("c", 1000)},
		} {
			want[c.told] = float64(1000 + i)
			if code := quotas(t, cl, "producer_byte_rate", want[c.told], c.entity...); code != 0 {
				t.Errorf("%v: error %d", c.entity, code)
			}
		}
		// What is too long for a name in the metadata store is refused, not tried for ever.
		for _, n := range []int{1100, 30_000} {
			if code := quotas(t, cl, "producer_byte_rate", 1, "client-id", strings.Repeat("c", n)); code != kerr.InvalidRequest.Code {
				t.Errorf("a client id of %d bytes: error %d", n, code)
			}
		}
		check := func(when string) {
			got := quotasOf(t, cl)
			for entity, value := range want {
				if got[entity] != value {
					t.Errorf("%s: %.60s has %v, want %v", when, entity, got[entity], value)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d entities, want %d", when, len(got), len(want))
			}
		}
		check("at once")
		cl.Close()
		stop()
		b, _ = start(t, dir)
		cl = client(t, b)
		defer cl.Close()
		check("after a restart")
	})
}
