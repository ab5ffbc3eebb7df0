package replica

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

func TestProducers(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	f.mustPut("t", 0, producerBatch(t, 7, 0, record.None, "v", 10))
	f.mustPut("t", 0, producerBatch(t, 7, 1, record.None, "v", 20, 30))
	ps, err := f.Producers("t", 0)
	if err != nil || len(ps) != 1 || ps[0].ProducerID != 7 || ps[0].LastSequence != 2 || ps[0].TxnStartOffset != -1 {
		t.Errorf("%+v, %v", ps, err)
	}
	if _, err := f.Producers("t", 1); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("%v", err)
	}
}

func TestLogDirs(t *testing.T) {
	f := newFixture(t)
	f.lead("b", idOf(1), 2)
	f.lead("a", idOf(2), 1)
	f.mustPut("b", 1, one(t, "v"))
	all := f.LogDirs(func(log.TopicPartition) bool { return true })
	if len(all) != 1 || all[0].Path != "/logs" || all[0].Total <= 0 || all[0].Usable <= 0 || len(all[0].Replicas) != 3 {
		t.Fatalf("%+v", all)
	}
	r := all[0].Replicas
	if r[0].Topic != "a" || r[1].Partition != 0 || r[2].Partition != 1 || r[2].Size != int64(len(one(t, "v"))) || r[2].Lag != 0 {
		t.Errorf("%+v", r)
	}
	if some := f.LogDirs(func(tp log.TopicPartition) bool { return tp.Topic == "a" }); len(some[0].Replicas) != 1 {
		t.Errorf("%+v", some)
	}
}
