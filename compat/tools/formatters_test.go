package tools

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// records counts those of a topic.
func records(t *testing.T, b *harness.Broker, topic string) (n int64) {
	t.Helper()
	ends, err := kadm.NewClient(harness.Client(t, b)).ListEndOffsets(harness.Context(t, time.Minute), topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// TestFormatters: Kafka's own formatters read the records of groups and transactions that the broker wrote.
func TestFormatters(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Start(t, harness.Options{Props: map[string]string{"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}})
	ctx := harness.Context(t, 2*time.Minute)
	const topic, id = "formatted", "formatted-txn"
	harness.CreateTopic(t, b, topic, 1)
	tx := harness.Client(t, b, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := tx.ProduceSync(ctx, kgo.StringRecord("a")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := tx.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	consume := func(group string, options ...kgo.Opt) {
		member := harness.Client(t, b, append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("formatter"))...)
		if err := member.PollFetches(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if err := member.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
		member.Close()
	}
	format := func(version, topic, formatter string) harness.Output {
		return harness.JavaTools(t, version).Run(t, "kafka-console-consumer", "--bootstrap-server", b.Addr, "--topic", topic, "--partition", "0",
			"--offset", "earliest", "--timeout-ms", "60000", "--max-messages", fmt.Sprint(records(t, b, topic)),
			"--formatter", "org.apache.kafka.tools.consumer."+formatter)
	}
	committed := func(group string) string {
		return `"group":"` + group + `","topic":"` + topic + `","partition":0\}.*"offset":1\D`
	}
	consume("classic")
	for _, version := range []string{harness.V39, harness.V44} {
		wantMatch(t, format(version, "__consumer_offsets", "OffsetsMessageFormatter"), committed("classic"))
		wantMatch(t, format(version, "__consumer_offsets", "GroupMetadataMessageFormatter"),
			`"group":"classic"\}.*"protocolType":"consumer","generation":1,.*"clientId":"formatter","clientHost":"/127\.0\.0\.1"`)
		wantMatch(t, format(version, "__transaction_state", "TransactionLogMessageFormatter"),
			`"transactionalId":"`+id+`"\}.*"transactionTimeoutMs":\d+,"transactionStatus":("CompleteCommit"|4),`, `"partitionIds":\[0\]`)
	}
	for _, version := range []string{harness.V39, harness.V44} {
		log := filepath.Join(b.PartitionDir(t, "__transaction_state", 0), "00000000000000000000.log")
		wantMatch(t, harness.JavaTools(t, version).Run(t, "kafka-dump-log", "--transaction-log-decoder", "--files", log), `key: transaction_metadata.*`+id+`|"transactionalId":"`+id+`"`)
	}
	if b.Kind == harness.Kafka39 { // in ZooKeeper mode it has no groups of the consumer protocol
		return
	}
	// 3.9's formatters take the records of these groups for something else, and fail, on Kafka's too.
	consume("modern", kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	wantMatch(t, format(harness.V44, "__consumer_offsets", "OffsetsMessageFormatter"), committed("modern"))
	wantMatch(t, format(harness.V44, "__consumer_offsets", "GroupMetadataMessageFormatter"), `"group":"classic"\}`) // it leaves the others out
}
