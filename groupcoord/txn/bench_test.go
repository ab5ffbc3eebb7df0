package txn

import (
	"fmt"
	"testing"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// BenchmarkReplay is what loading costs: a transaction's four records for each of 10,000 transactional ids.
func BenchmarkReplay(b *testing.B) {
	var keys, values [][]byte
	for i := range 10_000 {
		key := schema.AppendTxnKey(nil, fmt.Sprint("application-", i))
		for _, status := range []schema.TxnStatus{schema.TxnOngoing, schema.TxnOngoing, schema.TxnPrepareCommit, schema.TxnCompleteCommit} {
			v := schema.TxnValue{ProducerID: int64(i), TimeoutMs: 60000, Status: status, PreviousProducerID: int64(i), NextProducerID: -1, ClientVersion: 2,
				Topics: []schema.TxnTopic{}}
			if status != schema.TxnCompleteCommit {
				v.Topics = []schema.TxnTopic{{Topic: "orders", Partitions: []int32{1, 2, 3}}, {Topic: "payments", Partitions: []int32{7}}}
			}
			keys, values = append(keys, key), append(values, v.Append(nil, 1))
		}
	}
	size := 0
	for i := range keys {
		size += len(keys[i]) + len(values[i])
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		m := newMachine(&Options{Logger: zap.NewNop()}, 0, nil, nil)
		for i := range keys {
			m.Apply(&runtime.Record{Key: keys[i], Value: values[i], Order: int64(i), ProducerID: -1})
		}
		m.decodeAll()
	}
}
