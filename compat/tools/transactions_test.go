package tools

import (
	"fmt"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openTransaction begins a transaction and writes one record in it.
func openTransaction(t *testing.T, b *harness.Broker, topic, id string) *kgo.Client {
	t.Helper()
	cl := harness.Client(t, b, kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute), kgo.DefaultProduceTopic(topic))
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
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic, id := name("transactions"), name("txn")
		harness.CreateTopic(t, b, topic, 1)
		cl := openTransaction(t, b, topic, id)
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-transactions", append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}
		pid, _, err := cl.ProducerID(harness.Context(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		wantMatch(t, run("list"), fmt.Sprintf(`^%s\s+\S+\s+%d\s+Ongoing`, id, pid))
		wantMatch(t, run("describe", "--transactional-id", id), fmt.Sprintf(`\s%s\s+%d\s+\d+\s+Ongoing\s+600000\s+\S+\s+\S+\s+%s-0`, id, pid, topic))
		wantMatch(t, run("describe-producers", "--topic", topic, "--partition", "0"), fmt.Sprintf(`^%d\s+\d+\s`, pid))
		if out := run("list", "--duration-filter", "3600000"); matches(out, "^"+id) {
			t.Errorf("listed as open for an hour:\n%s", out)
		}
		if tools.Version == harness.V44 {
			wantMatch(t, run("list", "--transactional-id-pattern", id[:len(id)-1]+"."), "^"+id)
			if out := run("list", "--transactional-id-pattern", "other.*"); matches(out, "^"+id) {
				t.Errorf("listed by another pattern:\n%s", out)
			}
			run("forceTerminateTransaction", "--transactionalId", id)
			harness.Eventually(t, time.Minute, func() error {
				if out := run("describe", "--transactional-id", id); !matches(out, "Empty|CompleteAbort") {
					return fmt.Errorf("not ended:\n%s", out)
				}
				return nil
			})
			return
		}
		run("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
		for _, p := range activeProducers(t, b, topic) {
			if p.CurrentTxnStartOffset >= 0 {
				t.Errorf("the transaction is open at offset %d after it was aborted", p.CurrentTxnStartOffset)
			}
		}
	})
}

func activeProducers(t *testing.T, b *harness.Broker, topic string) []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	t.Helper()
	r := kmsg.NewPtrDescribeProducersRequest()
	r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	a, err := r.RequestWith(harness.Context(t, time.Minute), harness.Client(t, b))
	if err != nil {
		t.Fatal(err)
	}
	return a.Topics[0].Partitions[0].ActiveProducers
}

// TestFeatures: features are described and finalised at other levels, and what is not there is refused in words.
func TestFeatures(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Start(t, harness.Options{})
	for _, version := range []string{harness.V39, harness.V44} {
		tools := harness.JavaTools(t, version)
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-features", append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}
		wantMatch(t, run("describe"), `Feature: transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2\s`)
		wantMatch(t, run("downgrade", "--feature", "transaction.version=1"), `transaction.version was downgraded to 1\.`)
		wantMatch(t, run("describe"), `Feature: transaction.version\s.*FinalizedVersionLevel: 1\s`)
		wantMatch(t, run("disable", "--feature", "transaction.version"), `transaction.version was disabled\.`)
		wantMatch(t, run("upgrade", "--feature", "transaction.version=2"), `transaction.version was upgraded to 2\.`)
		wantMatch(t, tools.Try(t, "kafka-features", "", "--bootstrap-server", b.Addr, "upgrade", "--feature", "transaction.version=9"),
			`only supports versions 0-2`)
		if version == harness.V44 { // these need no broker
			wantMatch(t, run("version-mapping"), `transaction\.version=2`)
			wantMatch(t, run("feature-dependencies", "--feature", "transaction.version=2"), `transaction\.version=2`)
		}
	}
}
