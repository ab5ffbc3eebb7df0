package tools

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// openTransaction begins a transaction and writes one record in it.
func openTransaction(t *testing.T, p *place, topic, id string) *kgo.Client {
	t.Helper()
	cl := p.client(t, kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute), kgo.DefaultProduceTopic(topic))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(harness.Context(t, time.Minute), kgo.StringRecord("open")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return cl
}

// TestTransactions: what kafka-transactions shows, and that it ends transactions: in the partition (abort), or by the coordinator
// (forceTerminateTransaction).
func TestTransactions(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic, id := name("transactions"), name("txn")
		p.createTopic(t, topic, 1)
		cl := openTransaction(t, p, topic, id)
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-transactions", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		pid, _, err := cl.ProducerID(harness.Context(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		wantMatch(t, run("list"), fmt.Sprintf(`^%s\s+\d+\s+%d\s+Ongoing`, id, pid))
		wantMatch(t, run("describe", "--transactional-id", id), fmt.Sprintf(`\s%s\s+%d\s+\d+\s+Ongoing\s+600000\s+\S+\s+\S+\s+%s-0`, id, pid, topic))
		wantMatch(t, run("describe-producers", "--topic", topic, "--partition", "0"), fmt.Sprintf(`^%d\s+\d+\s`, pid))
		if out := run("list", "--duration-filter", "3600000"); matches(out, "^"+id) {
			t.Errorf("listed as open for an hour:\n%s", out)
		}
		leader := p.leader(t, topic, 0)
		wantMatch(t, run("describe-producers", "--topic", topic, "--partition", "0", "--broker-id", p.idOf(t, leader, tools)), fmt.Sprintf(`^%d\s+\d+\s`, pid))
		if tools.Version == harness.V44 {
			if !p.onZooKeeper() {
				wantMatch(t, run("list", "--transactional-id-pattern", id[:len(id)-1]+"."), "^"+id)
				if out := run("list", "--transactional-id-pattern", "other.*"); matches(out, "^"+id) {
					t.Errorf("listed by another pattern:\n%s", out)
				}
			}
			run("forceTerminateTransaction", "--transactionalId", id)
			awaitMatch(t, func() harness.Output { return run("describe", "--transactional-id", id) }, "Empty|CompleteAbort")
			return
		}
		run("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
		for _, producer := range activeProducers(t, p, topic) {
			if producer.CurrentTxnStartOffset >= 0 {
				t.Errorf("the transaction is open at offset %d after it was aborted", producer.CurrentTxnStartOffset)
			}
		}
	})
}

func activeProducers(t *testing.T, p *place, topic string) []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	t.Helper()
	r := kmsg.NewPtrDescribeProducersRequest()
	r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	a, err := r.RequestWith(harness.Context(t, time.Minute), p.client(t))
	if err != nil {
		t.Fatal(err)
	}
	return a.Topics[0].Partitions[0].ActiveProducers
}

// TestHanging: a transaction of which the coordinator knows nothing, as brokers before KIP-890 let in, is found and aborted.
func TestHanging(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		const key = "transaction.partition.verification.enable"
		all := []string{"--bootstrap-server", p.Addr, "--entity-type", "brokers", "--entity-default", "--alter"}
		tools.Run(t, "kafka-configs", append(all, "--add-config", key+"=false")...)
		defer tools.Run(t, "kafka-configs", append(all, "--delete-config", key)...)
		topic := name("hanging")
		p.createTopic(t, topic, 1)
		pid := hang(t, p, topic)
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-transactions", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		leader := p.idOf(t, p.leader(t, topic, 0), tools)
		found := fmt.Sprintf(`^%s\s+0\s+%d\s`, topic, pid)
		wantMatch(t, run("find-hanging", "--topic", topic), found)
		wantMatch(t, run("find-hanging", "--topic", topic, "--partition", "0", "--max-transaction-timeout", "1"), found)
		wantMatch(t, run("find-hanging", "--broker-id", leader), found)
		if out := run("find-hanging", "--topic", topic, "--max-transaction-timeout", "120"); matches(out, found) {
			t.Errorf("a transaction of an hour hangs where two are allowed:\n%s", out)
		}
		abort := []string{"abort", "--topic", topic, "--partition", "0"}
		run(append(abort, "--start-offset", "0")...)
		if out := run("find-hanging", "--topic", topic); matches(out, topic) {
			t.Errorf("after the abort:\n%s", out)
		}
		pid = hang(t, p, topic) // as brokers before 3.0 want it
		run(append(abort, "--producer-id", fmt.Sprint(pid), "--producer-epoch", "0", "--coordinator-epoch", "0")...)
		if out := run("find-hanging", "--topic", topic); matches(out, topic) {
			t.Errorf("after the second abort:\n%s", out)
		}
	})
}

// hang writes a record, of an hour ago, in a transaction that was not begun, and returns the producer's id.
func hang(t *testing.T, p *place, topic string) (pid int64) {
	t.Helper()
	client, id, ctx := p.client(t), name("hanging-txn"), harness.Context(t, limit)
	harness.Eventually(t, limit, func() error { // the brokers hear of the configuration one after the other
		begin := kmsg.NewPtrInitProducerIDRequest()
		begin.TransactionalID, begin.TransactionTimeoutMillis = &id, 60_000
		begun, err := begin.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(begun.ErrorCode)
		}
		if err != nil {
			return err
		}
		pid = begun.ProducerID
		batch := raw.NewBatch(time.Now().Add(-time.Hour).UnixMilli(), "v").By(pid, begun.ProducerEpoch, 0)
		const transactional = 0x10
		batch.Attributes |= transactional
		conn := raw.Dial(t, p.leader(t, topic, 0).Addr)
		r := raw.With(kmsg.NewPtrProduceRequest(), 9)
		r.TransactionID, r.Acks, r.TimeoutMillis = &id, -1, 10_000
		r.Topics = []kmsg.ProduceRequestTopic{{
			Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: batch.Encode()}},
		}}
		return kerr.ErrorForCode(raw.Do[*kmsg.ProduceResponse](conn, r).Topics[0].Partitions[0].ErrorCode)
	})
	return pid
}
