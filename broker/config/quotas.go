package config

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Quotas are the limits of one entity: a user, a client id, both, or an address. nil: none.
type Quotas struct {
	ProducerByteRate, ConsumerByteRate, RequestPercentage, MutationRate, ConnectionRate *float64
}

// QuotasOf reads what the metadata store has for an entity. What is no quota is left out; a user's credentials are there too.
func QuotasOf(values map[string]string) Quotas {
	rate := func(name string) *float64 {
		v, err := strconv.ParseFloat(values[name], 64)
		if err != nil || math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return Quotas{
		rate("producer_byte_rate"), rate("consumer_byte_rate"), rate("request_percentage"), rate("controller_mutation_rate"),
		rate("connection_creation_rate"),
	}
}

// QuotaValue is one quota as DescribeClientQuotas shows it.
type QuotaValue struct {
	Key   string
	Value float64
}

// DescribeQuotas returns the quotas among the values of an entity, by key.
func DescribeQuotas(values map[string]string) (list []QuotaValue) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if clientQuotaTable.byName[name] == nil && ipQuotaTable.byName[name] == nil {
			continue
		}
		if v, err := strconv.ParseFloat(values[name], 64); err == nil {
			list = append(list, QuotaValue{name, v})
		}
	}
	return list
}

// QuotaChange sets one quota, or removes it.
type QuotaChange struct {
	Key    string
	Value  float64
	Remove bool
}

// AlterQuotas returns the values of an entity, of an address or another, with these changes; old is not modified. Errors carry
// INVALID_REQUEST, with the words of 4.4's ClientQuotaControlManager or 3.9's ZkAdminManager.
func AlterQuotas(s *Snapshot, address bool, old map[string]string, changes []QuotaChange) (map[string]string, error) {
	table := clientQuotaTable
	if address {
		table = ipQuotaTable
	}
	next := maps.Clone(old)
	if next == nil {
		next = map[string]string{}
	}
	for _, c := range changes {
		k := table.byName[c.Key]
		if c.Remove { // Kafka does not mind if there cannot be such a quota
			if k != nil {
				delete(next, c.Key)
			}
			continue
		}
		if k == nil {
			return nil, errcode.Newf(kerr.InvalidRequest, "Invalid configuration key %s", c.Key)
		}
		written, err := k.quota(s, c.Value)
		if err != nil {
			return nil, err
		}
		next[c.Key] = written
	}
	return next, nil
}

// quota writes a value as Kafka stores it: numbers of bytes and connections without a fraction, others with one.
func (k *Key) quota(s *Snapshot, v float64) (string, error) {
	switch {
	case s.mode == Kafka44 && !(v > 0):
		return "", errcode.Newf(kerr.InvalidRequest, "Quota %s must be greater than 0", k.Name)
	case !(v >= 0) || math.IsInf(v, 0):
		return "", errcode.Newf(kerr.InvalidRequest, "Quota %s must be a number that is not negative", k.Name)
	case k.Type == Double:
		return formatDouble(v), nil
	case v > math.MaxInt64, k.Type == Int && v > math.MaxInt32:
		return "", errcode.Newf(kerr.InvalidRequest, "Proposed value for %s is too large for a %s.", k.Name, typeWords[k.Type].kafka)
	case math.Abs(v-math.Round(v)) > 1e-6 && s.mode == Kafka44:
		return "", errcode.Newf(kerr.InvalidRequest, "%s cannot be a fractional value.", k.Name)
	case math.Abs(v-math.Round(v)) > 1e-6:
		return "", errcode.Newf(kerr.InvalidRequest, "Configuration %s must be a %s value", k.Name, typeWords[k.Type].kafka)
	case v >= math.MaxInt64: // as a double it is one more
		return strconv.FormatInt(math.MaxInt64, 10), nil
	}
	return strconv.FormatInt(int64(math.Round(v)), 10), nil
}
