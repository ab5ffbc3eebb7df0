package txn

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// TestHangingTransactions: a transaction of which the coordinator knows nothing, as brokers before KIP-890 let in, is found and
// aborted with kafka-transactions of both versions.
func TestHangingTransactions(t *testing.T) {
	harness.Need(t, "java")
	b := harness.SharedWith(t, few)
	const key = "transaction.partition.verification.enable"
	admin := kadm.NewClient(harness.Client(t, b))
	verify := func(on string) {
		t.Helper()
		answers, err := admin.AlterBrokerConfigs(harness.Context(t, time.Minute), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &on}})
		if err != nil || answers[0].Err != nil {
			t.Fatalf("%v %v", err, answers)
		}
	}
	verify("false")
	defer verify("true")
	for _, version := range []string{harness.V39, harness.V44} {
		t.Run(version, func(t *testing.T) {
			s := newSession(t, b, "hanging-"+version, false)
			s.init(60_000)
			harness.Eventually(t, time.Minute, func() error { return s.hang(time.Now().Add(-time.Hour)) })
			if got := s.stable(); got != 0 {
				t.Fatalf("last stable offset %d", got)
			}
			tools := harness.JavaTools(t, version)
			found := tools.Run(t, "kafka-transactions", "--bootstrap-server", b.Addr, "find-hanging", "--topic", s.topic)
			if row := fmt.Sprintf(`(?m)^%s\s+0\s+%d\s`, regexp.QuoteMeta(s.topic), s.pid); !regexp.MustCompile(row).MatchString(found.Stdout) {
				t.Errorf("find-hanging prints\n%s\nnot %q", found.Stdout, row)
			}
			tools.Run(t, "kafka-transactions", "--bootstrap-server", b.Addr, "abort", "--topic", s.topic, "--partition", "0", "--start-offset", "0")
			if got := s.stable(); got != 2 {
				t.Errorf("last stable offset %d after the abort, want 2", got)
			}
			found = tools.Run(t, "kafka-transactions", "--bootstrap-server", b.Addr, "find-hanging", "--topic", s.topic)
			if regexp.MustCompile(regexp.QuoteMeta(s.topic)).MatchString(found.Stdout) {
				t.Errorf("after the abort find-hanging prints\n%s", found.Stdout)
			}
			if got := len(readCommitted(t, b, s.topic)); got != 0 {
				t.Errorf("%d records of the aborted transaction are seen", got)
			}
		})
	}
}

// hang writes a record of that time in a transaction that was not begun.
func (s *session) hang(at time.Time) error {
	s.t.Helper()
	batch := raw.NewBatch(at.UnixMilli(), "v").By(s.pid, s.epoch, 0)
	const transactional = 0x10
	batch.Attributes |= transactional
	r := raw.With(kmsg.NewPtrProduceRequest(), 9)
	r.TransactionID, r.Acks, r.TimeoutMillis = &s.id, -1, 10_000
	r.Topics = []kmsg.ProduceRequestTopic{{
		Topic: s.topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: batch.Encode()}},
	}}
	return kerr.ErrorForCode(raw.Do[*kmsg.ProduceResponse](s.c, r).Topics[0].Partitions[0].ErrorCode)
}
