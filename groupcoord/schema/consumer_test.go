package schema

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
)

// again reads a value of a consumer group's record and returns it written again.
func again(kind Type, value []byte) ([]byte, error) {
	switch kind {
	case ConsumerGroup:
		v, _, err := DecodeConsumerGroupValue(value)
		return v.Append(nil), err
	case ConsumerMember:
		v, _, err := DecodeConsumerMemberValue(value)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	case ConsumerTarget:
		v, _, err := DecodeTargetValue(value)
		return v.Append(nil), err
	case ConsumerTargetOf:
		v, _, err := DecodeTargetOfValue(value)
		return AppendTargetOfValue(nil, v), err
	case ConsumerCurrent:
		v, _, err := DecodeCurrentValue(value)
		return v.Append(nil), err
	case ConsumerExpression:
		v, _, err := DecodeExpressionValue(value)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	}
	return value, nil
}

// The segment holds what Apache Kafka 4.4.0 wrote while groupcoord's TestConsumerAnswersAsKafka spoke to it; what is read and
// written again must be the same bytes.
func TestConsumerRecordsOfKafka(t *testing.T) {
	values, tombstones := map[Type]int{}, map[Type]int{}
	each(t, "testdata/consumer-groups-4.4.0.log", func(r record.Record) {
		kind, err := TypeOf(r.Key)
		if err != nil || !kind.IsConsumer() {
			return
		}
		key, err := DecodeConsumerKey(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendConsumerKey(nil, kind, string(key.Group), string(key.Of)); !bytes.Equal(got, r.Key) {
			t.Errorf("%v: key %x became %x", kind, r.Key, got)
		}
		if r.Value == nil {
			tombstones[kind]++
			return
		}
		values[kind]++
		if got, err := again(kind, r.Value); err != nil || !bytes.Equal(got, r.Value) {
			t.Errorf("%v: value\n%x became\n%x, %v", kind, r.Value, got, err)
		}
	})
	for _, kind := range []Type{ConsumerGroup, ConsumerMember, ConsumerTarget, ConsumerTargetOf, ConsumerCurrent, ConsumerExpression} {
		if values[kind] == 0 || tombstones[kind] == 0 {
			t.Errorf("%v: %d values, %d tombstones", kind, values[kind], tombstones[kind])
		}
	}
}

// TestConsumerRecordsOfNewerKafka: a version that is not known is said to be so.
func TestConsumerRecordsOfNewerKafka(t *testing.T) {
	for _, kind := range []Type{ConsumerGroup, ConsumerMember, ConsumerTarget, ConsumerTargetOf, ConsumerCurrent, ConsumerExpression} {
		_, err := again(kind, []byte{0, 1, 0})
		var unknown *UnknownVersionError
		if !errors.As(err, &unknown) || unknown.Type != kind || unknown.Version != 1 {
			t.Errorf("%v: %v", kind, err)
		}
		if _, err := again(kind, []byte{0xff, 0xff}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v, version -1: %v", kind, err)
		}
	}
}

// FuzzConsumerRecords: what can be read and is written again can be read again, and is the same.
func FuzzConsumerRecords(f *testing.F) {
	buf := map[Type]bool{}
	each(f, "testdata/consumer-groups-4.4.0.log", func(r record.Record) {
		if kind, err := TypeOf(r.Key); err == nil && kind.IsConsumer() && r.Value != nil && !buf[kind] {
			buf[kind] = true
			f.Add(r.Key, r.Value)
		}
	})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		kind, err := TypeOf(key)
		if err != nil || !kind.IsConsumer() {
			return
		}
		_, _ = DecodeConsumerKey(key)
		once, err := again(kind, value)
		if err != nil {
			return
		}
		if twice, err := again(kind, once); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%v: %x became %x, then %x, %v", kind, value, once, twice, err)
		}
	})
}

// FuzzEmbedded: subscriptions and assignments of any bytes.
func FuzzEmbedded(f *testing.F) {
	f.Add(AppendAssignment(nil, 1, []NamedPartitions{{Topic: "t", Partitions: []int32{1, 2}}}))
	f.Add([]byte{0, 3, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 'r'})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = DecodeSubscription(b)
		_, _ = SubscribedTopics(b)
		_, _, _ = DecodeAssignment(b)
		SubscriptionVersion(b)
	})
}
