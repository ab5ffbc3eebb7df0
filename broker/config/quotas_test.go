package config

import (
	"maps"
	"math"
	"strings"
	"testing"
)

func TestAlterQuotas(t *testing.T) {
	embedded, _ := load(t)
	onZooKeeper, _ := load(t, zk)
	for _, c := range []struct {
		name    string
		s       *Snapshot
		address bool
		old     map[string]string
		changes []QuotaChange
		want    map[string]string
		words   string
	}{
		{name: "bytes", s: embedded, changes: []QuotaChange{{Key: "producer_byte_rate", Value: 1e6}, {Key: "consumer_byte_rate", Value: 5.0000001}},
			want: map[string]string{"producer_byte_rate": "1000000", "consumer_byte_rate": "5"}},
		{name: "per cent", s: embedded, changes: []QuotaChange{{Key: "request_percentage", Value: 200.5}, {Key: "controller_mutation_rate", Value: 3}},
			want: map[string]string{"request_percentage": "200.5", "controller_mutation_rate": "3.0"}},
		{name: "address", s: embedded, address: true, changes: []QuotaChange{{Key: "connection_creation_rate", Value: 10}},
			want: map[string]string{"connection_creation_rate": "10"}},
		{name: "removed, credentials stay", s: onZooKeeper, old: map[string]string{"SCRAM-SHA-256": "salt=x", "producer_byte_rate": "1"},
			changes: []QuotaChange{{Key: "producer_byte_rate", Remove: true}}, want: map[string]string{"SCRAM-SHA-256": "salt=x"}},
		{name: "never there", s: embedded, old: map[string]string{"SCRAM-SHA-256": "salt=x"},
			changes: []QuotaChange{{Key: "bogus", Remove: true}, {Key: "SCRAM-SHA-256", Remove: true}}, want: map[string]string{"SCRAM-SHA-256": "salt=x"}},
		{name: "not there", s: embedded, changes: []QuotaChange{{Key: "producer_byte_rate", Remove: true}}, want: map[string]string{}},
		{name: "all there are", s: embedded, changes: []QuotaChange{{Key: "producer_byte_rate", Value: math.MaxInt64}},
			want: map[string]string{"producer_byte_rate": "9223372036854775807"}},
		{name: "unknown", s: embedded, changes: []QuotaChange{{Key: "no.such", Value: 1}}, words: "Invalid configuration key no.such"},
		{name: "an address's, for a client", s: embedded, changes: []QuotaChange{{Key: "connection_creation_rate", Value: 1}}, words: "Invalid configuration key"},
		{name: "a client's, for an address", s: embedded, address: true, changes: []QuotaChange{{Key: "producer_byte_rate", Value: 1}}, words: "Invalid configuration key"},
		{name: "nothing", s: embedded, changes: []QuotaChange{{Key: "producer_byte_rate"}}, words: "must be greater than 0"},
		{name: "nothing in 3.9", s: onZooKeeper, changes: []QuotaChange{{Key: "producer_byte_rate"}}, want: map[string]string{"producer_byte_rate": "0"}},
		{name: "negative in 3.9", s: onZooKeeper, changes: []QuotaChange{{Key: "producer_byte_rate", Value: -1}}, words: "not negative"},
		{name: "no number", s: onZooKeeper, changes: []QuotaChange{{Key: "request_percentage", Value: math.NaN()}}, words: "not negative"},
		{name: "a fraction", s: embedded, changes: []QuotaChange{{Key: "producer_byte_rate", Value: 1.5}}, words: "cannot be a fractional value"},
		{name: "a fraction in 3.9", s: onZooKeeper, changes: []QuotaChange{{Key: "producer_byte_rate", Value: 1.5}}, words: "must be a LONG value"},
		{name: "too large", s: embedded, address: true, changes: []QuotaChange{{Key: "connection_creation_rate", Value: 1e10}}, words: "too large for a INT"},
	} {
		got, err := AlterQuotas(c.s, c.address, c.old, c.changes)
		switch {
		case c.words != "":
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s: %v, want %q", c.name, err, c.words)
			}
		case err != nil || !maps.Equal(got, c.want):
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestQuotasOf(t *testing.T) {
	values := map[string]string{"SCRAM-SHA-256": "x", "producer_byte_rate": "7", "request_percentage": "1.5", "consumer_byte_rate": "x"}
	q := QuotasOf(values)
	if q.ProducerByteRate == nil || *q.ProducerByteRate != 7 || *q.RequestPercentage != 1.5 || q.ConsumerByteRate != nil || q.MutationRate != nil {
		t.Errorf("%+v", q)
	}
	if list := DescribeQuotas(values); len(list) != 2 || list[0] != (QuotaValue{"producer_byte_rate", 7}) || list[1] != (QuotaValue{"request_percentage", 1.5}) {
		t.Errorf("%+v", list)
	}
}
