//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// loadingRows start a broker each time.
var loadingRows = []row{
	{name: "load 1 GB of __consumer_offsets", measure: loadOffsets, metrics: loadingMetrics},
	{name: "load 1 GB of __transaction_state", measure: loadTransactions, metrics: loadingMetrics},
}

var loadingMetrics = []metric{{name: "load_s", unit: "s", must: 0.5}}

// loadBytes is how much one partition of an internal topic holds, many records for each key, as between two rounds of compaction.
const loadBytes = 1_000_000_000

// What loadOffsets stores: commits of groups in one partition of __consumer_offsets.
const (
	loadTopic      = "load"
	loadPartitions = 200
	loadMetadata   = 4000
	loadGroups     = 25
)

// loadOffsets fills a partition of __consumer_offsets, restarts the broker, and takes the time from its first answer until the
// coordinator answers for a group of that partition.
func loadOffsets(b *bench, t *server) (sample, error) {
	if _, err := t.start(); err != nil {
		return nil, err
	}
	if err := createTopic(t, loadTopic, loadPartitions); err != nil {
		return nil, err
	}
	groups, err := fillOffsets(b, t)
	if err != nil {
		return nil, err
	}
	return loaded(t, func(c *rawConn) error {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Version, r.Group = 7, groups[0]
		r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: loadTopic, Partitions: []int32{0}}}
		response := kmsg.NewPtrOffsetFetchResponse()
		if err := c.call(r, response); err != nil {
			return err
		}
		return kerr.ErrorForCode(response.ErrorCode)
	})
}

// loaded restarts a broker and takes the time from its first answer until check, which asks its coordinator, returns nil.
func loaded(t *server, check func(*rawConn) error) (sample, error) {
	if err := t.stop(); err != nil {
		return nil, err
	}
	if _, err := t.start(); err != nil {
		return nil, err
	}
	m := startMeter(t)
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = until(5*time.Minute, func() error { return check(c) })
	s := m.stop(0)
	s["load_s"] = s["seconds"]
	return s, err
}

// notCompacted has a topic keep every record.
func notCompacted(admin *kadm.Client, topic string) error {
	never := "9223372036854775807"
	_, err := admin.AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.compaction.lag.ms", Value: &never}}, topic)
	return err
}

// fillOffsets commits for groups of one partition of __consumer_offsets, which is not compacted meanwhile.
func fillOffsets(b *bench, t *server) (groups []string, err error) {
	ctx := context.Background()
	admin, err := adminOf(t)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if err := until(time.Minute, func() error { _, err := admin.FetchOffsets(ctx, "first"); return err }); err != nil {
		return nil, err
	}
	if err := notCompacted(admin, "__consumer_offsets"); err != nil {
		return nil, err
	}
	groups = firstPartition("group-", loadGroups)
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	metadata := string(hexOf(randomBytes(loadMetadata / 2)))
	for n := range int(loadBytes * b.settings.scale / (loadPartitions * loadMetadata)) {
		if err := commitAll(c, groups[n%len(groups)], int64(n), metadata); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

func commitAll(c *rawConn, group string, offset int64, metadata string) error {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 8, group, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = loadTopic
	for p := range int32(loadPartitions) {
		topic.Partitions = append(topic.Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: p, Offset: offset, LeaderEpoch: -1, Metadata: &metadata})
	}
	r.Topics = append(r.Topics, topic)
	response := kmsg.NewPtrOffsetCommitResponse()
	if err := c.call(r, response); err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
}

// internalPartition is Java's hash of an ASCII string over the 50 partitions of an internal topic.
func internalPartition(group string) int32 {
	h := int32(0)
	for _, r := range group {
		h = 31*h + r
	}
	if h < 0 {
		h = -h
	}
	return h % 50
}

func hexOf(b []byte) []byte { return fmt.Appendf(nil, "%x", b) }

// firstPartition returns ids that are stored in partition 0.
func firstPartition(prefix string, count int) (ids []string) {
	for n := 0; len(ids) < count; n++ {
		if id := fmt.Sprint(prefix, n); internalPartition(id) == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// What loadTransactions stores: transactions of 12 partitions, three records each (ongoing, prepared, complete), in batches of
// some transactions as coordinators write them under load.
const (
	loadIDs        = 1000
	loadInBatch    = 20
	loadInFlight   = 20
	loadStateTopic = "__transaction_state"
)

// loadTransactions fills a partition of __transaction_state, restarts the broker, and takes the time from its first answer until
// the coordinator describes a transaction of that partition.
func loadTransactions(b *bench, t *server) (sample, error) {
	if _, err := t.start(); err != nil {
		return nil, err
	}
	ids := firstPartition("transactional-", loadIDs)
	if err := fillTransactionState(b, t, ids); err != nil {
		return nil, err
	}
	return loaded(t, func(c *rawConn) error {
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = ids
		described, err := ask(c, r, 0, kmsg.NewPtrDescribeTransactionsResponse())
		if err != nil {
			return err
		}
		for i, s := range described.TransactionStates {
			if err := kerr.ErrorForCode(s.ErrorCode); err != nil {
				return err
			}
			if s.State != "CompleteCommit" || s.ProducerID != firstProducer+int64(i) {
				return fmt.Errorf("%s is %s of producer %d", s.TransactionalID, s.State, s.ProducerID)
			}
		}
		return nil
	})
}

// firstProducer is the producer id of the first transactional id; no broker has come so far.
const firstProducer = 1_000_000

// fillTransactionState writes the records as a client that both brokers let write to their own topics.
func fillTransactionState(b *bench, t *server, ids []string) error {
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	err = until(time.Minute, func() error { // which creates the topic
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionalID, r.TransactionTimeoutMillis = &ids[0], 60_000
		got, err := ask(c, r, 4, kmsg.NewPtrInitProducerIDResponse())
		if err == nil && got.ErrorCode != 0 {
			find := kmsg.NewPtrFindCoordinatorRequest()
			find.CoordinatorKey, find.CoordinatorType = ids[0], 1
			_, err = ask(c, find, 3, kmsg.NewPtrFindCoordinatorResponse())
			return errors.Join(err, kerr.ErrorForCode(got.ErrorCode))
		}
		return err
	})
	if err != nil {
		return err
	}
	admin, err := adminOf(t)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := notCompacted(admin, loadStateTopic); err != nil {
		return err
	}
	as := kmsg.NewRequestFormatter(kmsg.FormatterClientID("__admin_client"))
	sent, waiting := 0, 0
	for n := 0; sent < int(loadBytes*b.settings.scale); n++ {
		batch := transactionBatch(ids, n*loadInBatch)
		sent += len(batch)
		if _, err := c.Write(as.AppendRequest(nil, produceRequest(loadStateTopic, 0, batch), 0)); err != nil {
			return err
		}
		if waiting++; waiting == loadInFlight {
			if err := stored(c); err != nil {
				return err
			}
			waiting--
		}
	}
	for ; waiting > 0; waiting-- {
		if err := stored(c); err != nil {
			return err
		}
	}
	return nil
}

// stored reads the answer to a batch.
func stored(c *rawConn) error {
	body, err := c.answer()
	if err != nil {
		return err
	}
	return produceError(loadStateTopic, body)
}

// transactionBatch is the records of some transactions, one of each id from the nth on.
func transactionBatch(ids []string, n int) []byte {
	states := []kmsg.TransactionState{kmsg.TransactionStateOngoing, kmsg.TransactionStatePrepareCommit, kmsg.TransactionStateCompleteCommit}
	var pairs [][2][]byte
	now := time.Now().UnixMilli()
	for i := n; i < n+loadInBatch; i++ {
		at := i % len(ids)
		key := kmsg.TxnMetadataKey{TransactionalID: ids[at]}
		for _, state := range states {
			value := kmsg.TxnMetadataValue{
				ProducerID: firstProducer + int64(at), TimeoutMillis: 60_000, State: state, LastUpdateTimestamp: now, StartTimestamp: now,
				Topics: []kmsg.TxnMetadataValueTopic{},
			}
			if state != kmsg.TransactionStateCompleteCommit {
				value.Topics = []kmsg.TxnMetadataValueTopic{{Topic: transactionTopic, Partitions: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}}
			}
			pairs = append(pairs, [2][]byte{key.AppendTo(nil), value.AppendTo(nil)})
		}
	}
	return encodePairs(pairs)
}
