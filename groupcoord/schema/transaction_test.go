package schema

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
)

// The segments hold the states of transactional ids as Apache Kafka 3.9.2 and 4.4.0 wrote them; what is read and written again must
// be the same bytes.
func TestTransactionsOfKafka(t *testing.T) {
	for file, wantVersion := range map[string]int16{"testdata/transaction-state-3.9.2.log": 0, "testdata/transaction-state-4.4.0.log": 1} {
		seen := map[TxnStatus]int{}
		each(t, file, func(r record.Record) {
			id, err := DecodeTxnKey(r.Key)
			if err != nil {
				t.Fatal(err)
			}
			if got := AppendTxnKey(nil, string(id)); !bytes.Equal(got, r.Key) {
				t.Errorf("key %x became %x", r.Key, got)
			}
			v, version, err := DecodeTxnValue(r.Value)
			if err != nil || version != wantVersion {
				t.Fatalf("%s: version %d, %v", file, version, err)
			}
			t.Logf("%s %s %+v", file, id, *v)
			seen[v.Status]++
			if got := v.Append(nil, version); !bytes.Equal(got, r.Value) {
				t.Errorf("value %x became %x", r.Value, got)
			}
		})
		for _, status := range []TxnStatus{TxnEmpty, TxnOngoing, TxnPrepareCommit, TxnCompleteCommit} {
			if seen[status] == 0 {
				t.Errorf("%s: no %v", file, status)
			}
		}
	}
}

func TestTransactionValues(t *testing.T) {
	full := TxnValue{ProducerID: 7, ProducerEpoch: 3, TimeoutMs: 60000, Status: TxnOngoing, UpdateMs: 11, StartMs: 10, PreviousProducerID: 6,
		NextProducerID: 8, ClientVersion: 2, Topics: []TxnTopic{{"a", []int32{0, 5}}, {"b", []int32{}}}}
	for version := range int16(2) {
		want := full
		if version == 0 {
			want.PreviousProducerID, want.NextProducerID, want.ClientVersion = -1, -1, 0
		}
		b := full.Append(nil, version)
		got, v, err := DecodeTxnValue(b)
		if err != nil || v != version || !reflect.DeepEqual(*got, want) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
		for n := range b {
			if got, _, err := DecodeTxnValue(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("version %d cut to %d of %d bytes: %+v, %v", version, n, len(b), got, err)
			}
		}
	}
	var unknown *UnknownVersionError
	if _, _, err := DecodeTxnValue([]byte{0, 2}); !errors.As(err, &unknown) {
		t.Error(err)
	}
	if _, err := DecodeTxnKey([]byte{0, 1, 0, 0}); !errors.As(err, &unknown) {
		t.Error(err)
	}
	claims := append(full.Append(nil, 0)[:17], 0x7f, 0xff, 0xff, 0xff)
	if _, _, err := DecodeTxnValue(claims); !errors.Is(err, ErrMalformed) {
		t.Error("a claim of two thousand million topics:", err)
	}
}

func FuzzTransaction(f *testing.F) {
	for version := range int16(2) {
		v := TxnValue{ProducerID: 7, Status: TxnOngoing, Topics: []TxnTopic{{"a", []int32{0}}}, PreviousProducerID: 1, NextProducerID: -1, ClientVersion: 2}
		f.Add(AppendTxnKey(nil, "id"), v.Append(nil, version))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if id, err := DecodeTxnKey(key); err == nil {
			if got := AppendTxnKey(nil, string(id)); !bytes.HasPrefix(key, got) {
				t.Errorf("key %x became %x", key, got)
			}
		}
		v, version, err := DecodeTxnValue(value)
		if err != nil {
			return
		}
		again, _, err := DecodeTxnValue(v.Append(nil, version))
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Errorf("%+v became %+v, %v", v, again, err)
		}
	})
}
