package api

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var quotaWindows = quota.Windows{Num: 11, Size: time.Second}

// inQuotas runs a test on virtual time, with a plane whose clients "test" have these quotas.
func inQuotas(t *testing.T, limits map[quota.Kind]float64, do func(t *testing.T, p *plane)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		p.services.Quotas = quota.NewClients(clock.System, quotaWindows, quotaWindows)
		p.services.Quotas.Set(quota.Entity{Client: "test"}, limits)
		p.topic("t", 1)
		do(t, p)
	})
}

// elapsed is how long it takes, on virtual time, until a request is answered.
func (c *wireClient) elapsed(r kmsg.Request) time.Duration {
	began := clock.System.Monotonic()
	ask[kmsg.Response](c, r)
	return clock.System.Monotonic() - began
}

func ping() kmsg.Request {
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version = 2
	return r
}

// TestProduceQuota: what is above the quota is written and answered at once, with how long the client has to wait; then nothing
// more is read from its connection for that long. acks=0 is no exception.
func TestProduceQuota(t *testing.T) {
	inQuotas(t, map[quota.Kind]float64{quota.Produce: 1000}, func(t *testing.T, p *plane) {
		set := records(t, record.BatchOptions{}, string(make([]byte, 14000)), 1)
		c := p.client()
		began := clock.System.Monotonic()
		answer := ask[*kmsg.ProduceResponse](c, produceOf(9, 1, to{"t", 0, set}))
		if clock.System.Monotonic() != began || answer.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Errorf("the answer came after %v: %+v", clock.System.Monotonic()-began, answer)
		}
		wait := time.Duration(answer.ThrottleMillis) * time.Millisecond
		if wait < 4*time.Second || wait > 5*time.Second { // 14 kB are 1400/s, as if ten seconds had passed
			t.Errorf("throttled for %v", wait)
		}
		if got := c.elapsed(ping()); got != wait {
			t.Errorf("the next request is answered after %v, want %v", got, wait)
		}
		if got := c.elapsed(ping()); got != 0 {
			t.Errorf("the one after it after %v", got)
		}
		if end := c.end("t", 0); end != 1 {
			t.Errorf("the log ends at %d", end)
		}
		time.Sleep(time.Minute)
		c.send(produceOf(9, 0, to{"t", 0, set}))
		if got := c.elapsed(ping()); got < 4*time.Second {
			t.Errorf("after acks=0 the next request is answered after %v", got)
		}
		other := p.client()
		other.id = "other"
		if answer := ask[*kmsg.ProduceResponse](other, produceOf(9, 1, to{"t", 0, set})); answer.ThrottleMillis != 0 {
			t.Errorf("another client id is throttled for %d ms", answer.ThrottleMillis)
		}
	})
}

// TestFetchQuota: a consumer above its quota gets nothing but the time to wait, loses nothing, and keeps its session.
func TestFetchQuota(t *testing.T) {
	inQuotas(t, map[quota.Kind]float64{quota.Fetch: 1000}, func(t *testing.T, p *plane) {
		c := p.client()
		for range 3 {
			c.mustProduce("t", 0, records(t, record.BatchOptions{}, string(make([]byte, 6000)), 1))
		}
		r := fetchOf(11, at{"t", 0, 0, 1 << 20})
		r.SessionEpoch = 0
		first := ask[*kmsg.FetchResponse](c, r)
		if first.ThrottleMillis != 0 || len(first.Topics) != 1 || first.SessionID == 0 {
			t.Fatalf("below the quota: throttled for %d ms, session %d", first.ThrottleMillis, first.SessionID)
		}
		n := len(first.Topics[0].Partitions[0].RecordBatches)
		if n > 10000 || n < 6000 {
			t.Errorf("%d bytes at once; the quota allows ten thousand", n)
		}
		r.SessionID, r.SessionEpoch, r.Topics = first.SessionID, 1, nil
		second := ask[*kmsg.FetchResponse](c, r)
		wait := time.Duration(second.ThrottleMillis) * time.Millisecond
		if wait <= 0 || second.ErrorCode != 0 || second.SessionID != first.SessionID || len(second.Topics) != 0 {
			t.Fatalf("above the quota: %+v", second)
		}
		r.SessionEpoch = 2
		began := clock.System.Monotonic()
		third := ask[*kmsg.FetchResponse](c, r)
		if got := clock.System.Monotonic() - began; got < wait || third.ErrorCode != 0 {
			t.Errorf("the next fetch is answered after %v, want %v or more: error %d", got, wait, third.ErrorCode)
		}
	})
}

// slowClock moves on by itself, so that requests take time.
type slowClock struct{ clock.Clock }

func (c slowClock) Monotonic() time.Duration {
	time.Sleep(50 * time.Millisecond)
	return c.Clock.Monotonic()
}

// TestRequestQuota: who takes more than the quota of the handlers' time waits, but no longer than a second at a time. What
// brokers order is exempt.
func TestRequestQuota(t *testing.T) {
	inQuotas(t, map[quota.Kind]float64{quota.Request: 1}, func(t *testing.T, p *plane) {
		p.services.Clock = slowClock{clock.System}
		c := p.client()
		list := kmsg.NewPtrListOffsetsRequest()
		list.Version, list.ReplicaID = 5, -1
		throttled := int32(0)
		for range 10 { // each takes 5 per cent of a second or more
			answer := ask[*kmsg.ListOffsetsResponse](c, list)
			throttled = max(throttled, answer.ThrottleMillis)
		}
		if throttled <= 0 || throttled > 1000 {
			t.Errorf("throttled for %d ms", throttled)
		}
		follower := fetchOf(11, at{"t", 0, 0, 1 << 20})
		follower.ReplicaID = 2
		if answer := ask[*kmsg.FetchResponse](c, follower); answer.ThrottleMillis != 0 {
			t.Errorf("a follower is throttled for %d ms", answer.ThrottleMillis)
		}
	})
}

// TestSilentProduceIsExempt: what asks for no answer is not charged for the handlers' time. Case P2.
func TestSilentProduceIsExempt(t *testing.T) {
	for acks, exempt := range map[int16]bool{0: true, 1: false} {
		inQuotas(t, map[quota.Kind]float64{quota.Request: 1}, func(t *testing.T, p *plane) {
			p.services.Clock = slowClock{clock.System}
			c := p.client()
			set := records(t, record.BatchOptions{}, "v", 1)
			for range 10 {
				c.send(produceOf(9, acks, to{"t", 0, set}))
				if acks != 0 {
					answerTo[*kmsg.ProduceResponse](c, produceOf(9, acks))
				}
			}
			list := kmsg.NewPtrListOffsetsRequest()
			list.Version, list.ReplicaID = 5, -1
			if wait := ask[*kmsg.ListOffsetsResponse](c, list).ThrottleMillis; (wait == 0) != exempt {
				t.Errorf("after ten times acks=%d the client is throttled for %d ms", acks, wait)
			}
		})
	}
}

func TestQuotaEntities(t *testing.T) {
	name := func(s string) *string { return &s }
	for _, c := range []struct {
		parts      map[string]*string
		kind, name string
	}{
		{map[string]*string{"user": name("u")}, "users", "u"},
		{map[string]*string{"user": nil}, "users", "<default>"},
		{map[string]*string{"client-id": name("c")}, "clients", "c"},
		{map[string]*string{"user": name("u"), "client-id": nil}, "users", "u/clients/<default>"},
		{map[string]*string{"ip": name("10.0.0.1")}, "ips", "10.0.0.1"},
		{map[string]*string{"user": name("<default>")}, "users", "%3Cdefault%3E"},
		{map[string]*string{"client-id": name("<default>")}, "clients", "%3Cdefault%3E"},
		{map[string]*string{"client-id": name("..")}, "clients", "%2E%2E"},
		{map[string]*string{"user": name("u/clients/c")}, "users", "u%2Fclients%2Fc"},
		{map[string]*string{"user": name("u"), "client-id": name("a/clients/b")}, "users", "u/clients/a%2Fclients%2Fb"},
		{map[string]*string{"user": name("%"), "client-id": name("%2F")}, "users", "%25/clients/%252F"},
		{map[string]*string{"ip": nil}, "ips", "<default>"},
		{map[string]*string{}, "", ""},
		{map[string]*string{"ip": nil, "user": nil}, "", ""},
		{map[string]*string{"group": nil}, "", ""},
		{map[string]*string{"user": name("")}, "", ""},
		{map[string]*string{"ip": name("nowhere")}, "", ""},
	} {
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for kind, name := range c.parts {
			entry.Entity = append(entry.Entity, kmsg.AlterClientQuotasRequestEntryEntity{Type: kind, Name: name})
		}
		e, err := entityOf(&entry)
		if (err != nil) != (c.kind == "") {
			t.Errorf("%v: %v", c.parts, err)
		}
		if err != nil {
			continue
		}
		kind, name := e.place()
		if kind != c.kind || name != c.name {
			t.Errorf("%v is at %s/%s", c.parts, kind, name)
		}
		told := map[string]*string{}
		entityAt(kind, name).parts(func(kind string, name *string) { told[kind] = name })
		if !reflect.DeepEqual(told, c.parts) {
			t.Errorf("%v comes back as another", c.parts)
		}
	}
}

func TestQuotaFilter(t *testing.T) {
	u, d, c := "u", "<default>", "c"
	all := map[string]quotaEntity{
		"u": {user: &u}, "default user": {user: &d}, "u c": {user: &u, client: &c}, "c": {client: &c}, "ip": {ip: &d},
	}
	component := func(kind string, matchType kmsg.QuotasMatchType, match *string) kmsg.DescribeClientQuotasRequestComponent {
		return kmsg.DescribeClientQuotasRequestComponent{EntityType: kind, MatchType: matchType, Match: match}
	}
	type components = []kmsg.DescribeClientQuotasRequestComponent
	for _, c := range []struct {
		components components
		strict     bool
		want       []string
		code       int16
	}{
		{nil, false, []string{"u", "default user", "u c", "c", "ip"}, 0},
		{nil, true, nil, 0},
		{components{component("user", matchExact, &u)}, false, []string{"u", "u c"}, 0},
		{components{component("user", matchExact, &u)}, true, []string{"u"}, 0},
		{components{component("user", matchDefault, nil)}, true, []string{"default user"}, 0},
		{components{component("user", matchAny, nil)}, true, []string{"u", "default user"}, 0},
		{components{component("user", matchAny, nil), component("client-id", matchAny, nil)}, true, []string{"u c"}, 0},
		{components{component("ip", matchAny, nil)}, true, []string{"ip"}, 0},
		{components{component("ip", matchAny, nil), component("user", matchAny, nil)}, true, nil, kerr.InvalidRequest.Code},
		{components{component("user", matchAny, nil), component("user", matchAny, nil)}, true, nil, kerr.InvalidRequest.Code},
		{components{component("", matchAny, nil)}, true, nil, kerr.InvalidRequest.Code},
		{components{component("group", matchAny, nil)}, true, nil, kerr.UnsupportedVersion.Code},
		{components{component("user", matchExact, nil)}, true, nil, kerr.InvalidRequest.Code},
		{components{component("user", 7, nil)}, true, nil, kerr.InvalidRequest.Code},
	} {
		r := kmsg.NewPtrDescribeClientQuotasRequest()
		r.Components, r.Strict = c.components, c.strict
		f, err := filterOf(r, true)
		if errcode.Of(err) != c.code {
			t.Errorf("%+v: %v", c.components, err)
		}
		if err != nil {
			continue
		}
		for name, e := range all {
			want := false
			for _, w := range c.want {
				want = want || w == name
			}
			if f.matches(e) != want {
				t.Errorf("%+v, strict %v: %s matches: %v", c.components, c.strict, name, !want)
			}
		}
	}
}
