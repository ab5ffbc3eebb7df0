package cases

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// part is a type of entity and a name; "-" is null.
type part struct{ kind, name string }

// quotas alters and describes client quotas, of entities named after the topic.
func (o *odd) quotas() {
	me := o.topic
	for _, entity := range [][]part{
		{}, {{"user", me}}, {{"user", "-"}}, {{"user", ""}}, {{"client-id", me}}, {{"client-id", ""}}, {{"ip", "10.0.0.9"}}, {{"ip", "-"}},
		{{"ip", ""}}, {{"ip", "no.such.host.invalid"}}, {{"ip", "10.0.0.256"}}, {{"ip", "10.0.0.9/8"}},
		{{"user", me}, {"user", me}}, {{"user", me}, {"user", "other"}}, {{"user", me}, {"user", "-"}}, {{"user", me}, {"client-id", me}},
		{{"user", me}, {"ip", "10.0.0.9"}}, {{"client-id", me}, {"ip", "10.0.0.9"}}, {{"group", me}}, {{"", me}}, {{"user", me}, {"group", me}},
		{{"User", me}}, {{"user", "<default>"}}, {{"client-id", "<default>"}}, {{"ip", "<default>"}}, {{"ip", "10.0.0.9"}, {"ip", "10.0.0.9"}},
	} {
		for _, key := range []string{"producer_byte_rate", "connection_creation_rate"} {
			o.limit(true, entity, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: 5})
		}
	}
	values := []float64{0, 0.5, 1, 1e10, 1e19}
	if o.s.Kind != harness.Kafka39 { // which takes them for quotas
		values = append(values, -1, math.NaN(), math.Inf(1))
	}
	user, ip := []part{{"user", me}}, []part{{"ip", "10.0.0.9"}}
	for _, key := range []string{"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate", "no_such_rate", ""} {
		for _, value := range values {
			o.limit(true, user, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: value})
			o.limit(true, ip, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: value})
		}
		o.limit(true, user, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Remove: true})
		o.limit(true, user, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: 5}, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: 6})
		o.limit(true, user, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: 5}, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Remove: true})
	}
	o.limit(true, user)
	o.each(versions{0, 1, 0, 1}, func(version int16) { o.ask("nothing", version, kmsg.NewPtrAlterClientQuotasRequest()) })
	o.limited(me)
}

// limit alters the quotas of one entity.
func (o *odd) limit(validate bool, entity []part, ops ...kmsg.AlterClientQuotasRequestEntryOp) {
	of := kmsg.NewAlterClientQuotasRequestEntry()
	for _, p := range entity {
		of.Entity = append(of.Entity, kmsg.AlterClientQuotasRequestEntryEntity{Type: p.kind, Name: orNull(p.name)})
	}
	of.Ops = ops
	r := kmsg.NewPtrAlterClientQuotasRequest()
	r.ValidateOnly, r.Entries = validate, []kmsg.AlterClientQuotasRequestEntry{of}
	var what []string
	for _, op := range ops {
		what = append(what, fmt.Sprint(op.Key, "=", op.Value, " ", op.Remove))
	}
	o.ask(fmt.Sprintf("%q %s", entity, strings.Join(what, ", ")), 1, r)
}

// limited describes quotas, of which it makes some.
func (o *odd) limited(me string) {
	rate := kmsg.AlterClientQuotasRequestEntryOp{Key: "producer_byte_rate", Value: 1e9}
	mine := [][]part{{{"user", me}}, {{"user", me}, {"client-id", me}}, {{"user", me}, {"client-id", "-"}}, {{"client-id", me}}}
	for _, entity := range mine {
		o.limit(false, entity, rate)
	}
	o.awaitQuotas(me, 4)
	const exact, fallback, any = kmsg.QuotasMatchTypeExact, kmsg.QuotasMatchTypeDefault, kmsg.QuotasMatchTypeAny
	type component struct {
		kind  string
		match kmsg.QuotasMatchType
		name  string
	}
	for _, components := range [][]component{
		{{"user", exact, me}}, {{"user", exact, me}, {"client-id", any, "-"}}, {{"user", exact, me}, {"client-id", fallback, "-"}}, {{"user", exact, me}, {"client-id", exact, me}},
		{{"client-id", exact, me}}, {{"user", any, "-"}, {"client-id", exact, me}}, {{"user", fallback, "-"}}, {{"user", exact, "-"}}, {{"user", fallback, me}}, {{"user", any, me}},
		{{"user", 7, me}}, {{"user", -1, me}}, {{"user", exact, me}, {"user", exact, me}}, {{"user", exact, me}, {"user", any, "-"}}, {{"group", exact, me}}, {{"", exact, me}}, {{"group", any, "-"}},
		{{"ip", exact, "10.0.0.9"}}, {{"ip", exact, "10.0.0.9"}, {"user", exact, me}}, {{"ip", any, "-"}, {"client-id", any, "-"}}, {{"user", exact, "<default>"}}, {{"ip", exact, "x"}},
	} {
		for _, strict := range []bool{false, true} {
			r := kmsg.NewPtrDescribeClientQuotasRequest()
			r.Strict = strict
			for _, c := range components {
				r.Components = append(r.Components, kmsg.DescribeClientQuotasRequestComponent{EntityType: c.kind, MatchType: c.match, Match: orNull(c.name)})
			}
			o.ask(fmt.Sprintf("%v strict %v", components, strict), 1, r)
		}
	}
	rate.Remove = true
	for _, entity := range mine {
		o.limit(false, entity, rate)
	}
	o.awaitQuotas(me, 0)
}

// awaitQuotas waits until the broker knows so many quotas of the user and client id.
func (o *odd) awaitQuotas(me string, n int) {
	o.t.Helper()
	harness.Eventually(o.t, 30*time.Second, func() error {
		found := 0
		for _, kind := range []string{"user", "client-id"} {
			r := raw.With(kmsg.NewPtrDescribeClientQuotasRequest(), 1)
			r.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: kind, Match: &me}}
			for _, e := range raw.Do[*kmsg.DescribeClientQuotasResponse](o.c, r).Entries {
				if kind == "user" || len(e.Entity) == 1 {
					found++
				}
			}
		}
		if found != n {
			return fmt.Errorf("the broker knows %d quotas, not %d", found, n)
		}
		return nil
	})
}
