package txn

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestWriteTransaction(t *testing.T) {
	var topics kadm.TopicsSet
	topics.Add("t", 0, 2)
	d := kadm.DescribedTransaction{Coordinator: 1, TxnID: "pay", State: "Ongoing", TimeoutMillis: 60000, StartTimestamp: 1000, ProducerID: 7,
		ProducerEpoch: 3, Topics: topics}
	var b bytes.Buffer
	if err := writeTransaction(&b, d, time.UnixMilli(31_000)); err != nil {
		t.Fatal(err)
	}
	want := `id           pay
state        Ongoing
producer     7
epoch        3
timeout      1m0s
began        1970-01-01T00:00:01Z (30s ago)
coordinator  1

TOPIC  PARTITION
t      0
t      2
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	d.StartTimestamp, d.Topics = -1, nil
	if err := writeTransaction(&b, d, time.Now()); err != nil || bytes.Contains(b.Bytes(), []byte("TOPIC")) || !bytes.Contains(b.Bytes(), []byte("began        -\n")) {
		t.Errorf("%s %v", b.String(), err)
	}
}

func TestFindHanging(t *testing.T) {
	producers := kadm.DescribedProducers{1: {ProducerID: 1, CurrentTxnStartOffset: -1}, 2: {ProducerID: 2, CurrentTxnStartOffset: 9}}
	for _, c := range []struct {
		h    hanging
		want int64
	}{{hanging{start: 9, producer: -1}, 2}, {hanging{start: -1, producer: 2}, 2}, {hanging{start: -1, producer: 1}, 0}, {hanging{start: 8, producer: -1}, 0}} {
		if p, err := c.h.find(producers); p.ProducerID != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %+v, %v", c.h, p, err)
		}
	}
}
