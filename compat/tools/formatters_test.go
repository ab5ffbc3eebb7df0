package tools

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestFormatters: Kafka's own formatters, and kafka-dump-log, read the records of groups and transactions that the broker wrote.
func TestFormatters(t *testing.T) {
	harness.Need(t, "java")
	t.Run("alone", func(t *testing.T) { formatters(t, started(t, harness.Options{})) })
	t.Run("cluster", func(t *testing.T) { formatters(t, clustered(t)) })
}

func formatters(t *testing.T, p *place) {
	ctx := harness.Context(t, 2*time.Minute)
	topic, id := name("formatted"), name("formatted-txn")
	p.createTopic(t, topic, 1)
	tx := p.client(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
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
		member := p.client(t, append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("formatter"))...)
		harness.ReadAndCommit(t, member, 1)
		member.Close()
	}
	format := func(version, internal, key, formatter string) harness.Output {
		partition, end := p.keptIn(t, internal, key)
		return harness.JavaTools(t, version).Run(t, "kafka-console-consumer", "--bootstrap-server", p.Addr, "--topic", internal,
			"--partition", fmt.Sprint(partition), "--offset", "earliest", "--timeout-ms", "60000", "--max-messages", fmt.Sprint(end),
			"--formatter", "org.apache.kafka.tools.consumer."+formatter)
	}
	committed := func(group string) string {
		return `"group":"` + group + `","topic":"` + topic + `","partition":0\}.*"offset":1\D`
	}
	classic, modern := name("classic"), name("modern")
	consume(classic)
	partition, _ := p.keptIn(t, "__transaction_state", id)
	dir := p.partitionDir(t, "__transaction_state", partition)
	for _, version := range []string{harness.V39, harness.V44} {
		wantMatch(t, format(version, "__consumer_offsets", classic, "OffsetsMessageFormatter"), committed(classic))
		wantMatch(t, format(version, "__consumer_offsets", classic, "GroupMetadataMessageFormatter"),
			`"group":"`+classic+`"\}.*"protocolType":"consumer","generation":1,.*"clientId":"formatter","clientHost":"/127\.0\.0\.1"`)
		wantMatch(t, format(version, "__transaction_state", id, "TransactionLogMessageFormatter"),
			`"transactionalId":"`+id+`"\}.*"transactionTimeoutMs":\d+,"transactionStatus":("CompleteCommit"|4),`, `"partitionIds":\[0\]`)
		dump := harness.JavaTools(t, version).Run(t, "kafka-dump-log", "--transaction-log-decoder", "--files", filepath.Join(dir, "00000000000000000000.log"))
		wantMatch(t, dump, `key: transaction_metadata.*`+id+`|"transactionalId":"`+id+`"`)
	}
	if p.onZooKeeper() { // where it has no groups of the consumer protocol
		return
	}
	// 3.9's formatters take the records of these groups for something else, and fail, on Kafka's too.
	consume(modern, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	wantMatch(t, format(harness.V44, "__consumer_offsets", modern, "OffsetsMessageFormatter"), committed(modern))
	// This one leaves the others out.
	wantMatch(t, format(harness.V44, "__consumer_offsets", classic, "GroupMetadataMessageFormatter"), `"group":"`+classic+`"\}`)
}

// keptIn is the partition of an internal topic that holds a group or a transactional id, and its end.
func (p *place) keptIn(t testing.TB, internal, key string) (partition int, end int64) {
	t.Helper()
	ends, err := kadm.NewClient(p.client(t)).ListEndOffsets(harness.Context(t, time.Minute), internal)
	if err = errors.Join(err, ends.Error()); err != nil {
		t.Fatal(err)
	}
	hash := int32(0) // Java's
	for _, c := range []byte(key) {
		hash = 31*hash + int32(c)
	}
	partition = int(max(hash, -hash)) % len(ends[internal])
	return partition, ends[internal][int32(partition)].Offset
}

// segments are the logs of a topic that hold anything, of all brokers.
func (p *place) segments(t *testing.T, topic string) string {
	t.Helper()
	var logs []string
	for _, b := range p.brokers {
		found, err := filepath.Glob(filepath.Join(b.DataDir(), topic+"-*", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, nonEmpty(found)...)
	}
	return strings.Join(logs, ",")
}
