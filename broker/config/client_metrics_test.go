package config

import (
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestParseClientMetrics(t *testing.T) {
	s, _, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values map[string]string
		want   error
	}{
		{nil, nil},
		{map[string]string{"metrics": "*", "interval.ms": "100", "match": "client_id=a.*,client_software_name = apache-kafka-java"}, nil},
		{map[string]string{"interval.ms": "99"}, kerr.InvalidRequest},
		{map[string]string{"interval.ms": "3600001"}, kerr.InvalidRequest},
		{map[string]string{"interval.ms": "soon"}, kerr.InvalidConfig},
		{map[string]string{"metric": "*"}, kerr.InvalidRequest},
		{map[string]string{"match": "client_id"}, kerr.InvalidConfig},
		{map[string]string{"match": "client_id="}, kerr.InvalidConfig},
		{map[string]string{"match": "client_id=a=b"}, kerr.InvalidConfig},
		{map[string]string{"match": "client_mood=good"}, kerr.InvalidConfig},
		{map[string]string{"match": "client_id=("}, kerr.InvalidConfig},
	} {
		_, err := ParseClientMetrics(s, c.values)
		if errcode.Of(err) != errcode.Of(c.want) {
			t.Errorf("%v: %v, want %v", c.values, err, c.want)
		}
	}
	got, err := ParseClientMetrics(s, map[string]string{"match": "client_id=a|b"})
	if err != nil || got.Interval != 5*time.Minute || got.Match["client_id"].MatchString("ab") || !got.Match["client_id"].MatchString("b") {
		t.Errorf("%+v, %v", got, err)
	}
}
