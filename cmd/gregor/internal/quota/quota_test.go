package quota

import (
	"reflect"
	"testing"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kadm"
)

func TestEntity(t *testing.T) {
	for _, c := range []struct {
		w    who
		want string // "": refused
	}{
		{who{names: [3]string{"u", "c", ""}}, "user u, client-id c"}, {who{defaults: [3]bool{true, false, false}, names: [3]string{"", "c", ""}}, "user (default), client-id c"},
		{who{defaults: [3]bool{false, false, true}}, "ip (default)"}, {who{}, ""}, {who{names: [3]string{"u"}, defaults: [3]bool{true}}, ""},
	} {
		entity, err := c.w.entity()
		if got := entityText(entity); got != c.want || (err == nil) != (c.want != "") || err != nil && cli.ExitCode(err) != 2 {
			t.Errorf("%+v: %q, %v", c.w, got, err)
		}
	}
}

func TestRows(t *testing.T) {
	u := "u"
	got := rows(kadm.DescribedClientQuotas{
		{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &u}}, Values: kadm.ClientQuotaValues{{Key: "b", Value: 1e9}, {Key: "a", Value: 0.5}}},
		{Entity: kadm.ClientQuotaEntity{{Type: "client-id"}}, Values: kadm.ClientQuotaValues{{Key: "b", Value: 2}}},
	})
	want := [][]string{{"WHO", "QUOTA", "VALUE"}, {"client-id (default)", "b", "2"}, {"user u", "a", "0.5"}, {"user u", "b", "1000000000"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}
