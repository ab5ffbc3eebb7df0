package logdump

import (
	"bytes"
	"os"
	"testing"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDecode(t *testing.T) {
	range0, leader := "range", "m1"
	offset := kmsg.OffsetCommitValue{Version: 3, Offset: 5, LeaderEpoch: 2, Metadata: "x", CommitTimestamp: 7}
	withTopic := kmsg.OffsetCommitValue{Version: 4, Offset: 5, TopicID: [16]byte(bytes.Repeat([]byte{0xff}, 16))}
	withTopic.TopicID[1] = 0xfe
	group := kmsg.GroupMetadataValue{Version: 3, ProtocolType: "consumer", Generation: 1, Protocol: &range0, Leader: &leader, CurrentStateTimestamp: 9,
		Members: []kmsg.GroupMetadataValueMember{{MemberID: "m1", ClientID: "c", ClientHost: "/h", RebalanceTimeoutMillis: 1, SessionTimeoutMillis: 2, Subscription: []byte{1}}}}
	txn := kmsg.TxnMetadataValue{Version: 0, ProducerID: 3, ProducerEpoch: 1, TimeoutMillis: 4, State: kmsg.TransactionStateOngoing,
		Topics: []kmsg.TxnMetadataValueTopic{{Topic: "t", Partitions: []int32{0}}}, LastUpdateTimestamp: 5, StartTimestamp: 6}
	offsetKey := (&kmsg.OffsetCommitKey{Version: 1, Group: "g", Topic: "t", Partition: 3}).AppendTo(nil)
	groupKey := (&kmsg.GroupMetadataKey{Version: 2, Group: "g"}).AppendTo(nil)
	txnKey := (&kmsg.TxnMetadataKey{Version: 0, TransactionalID: "tx"}).AppendTo(nil)
	for _, c := range []struct {
		decode    func(k, v []byte) (string, string)
		k, v      []byte
		key, text string
	}{
		{decodeOffsets, offsetKey, offset.AppendTo(nil), `{"type":"1","data":{"group":"g","topic":"t","partition":3}}`,
			`{"version":"3","data":{"offset":5,"leaderEpoch":2,"metadata":"x","commitTimestamp":7}}`},
		{decodeOffsets, offsetKey, withTopic.AppendTo(nil), `{"type":"1","data":{"group":"g","topic":"t","partition":3}}`,
			`{"version":"4","data":{"offset":5,"leaderEpoch":0,"metadata":"","commitTimestamp":0,"topicId":"__7__________________w"}}`},
		{decodeOffsets, offsetKey, nil, `{"type":"1","data":{"group":"g","topic":"t","partition":3}}`, "<DELETE>"},
		{decodeOffsets, offsetKey, []byte{0, 3, 1}, `{"type":"1","data":{"group":"g","topic":"t","partition":3}}`, "<not an offset: 3 bytes>"},
		{decodeOffsets, groupKey, group.AppendTo(nil), `{"type":"2","data":{"group":"g"}}`,
			`{"version":"3","data":{"protocolType":"consumer","generation":1,"protocol":"range","leader":"m1","currentStateTimestamp":9,` +
				`"members":[{"memberId":"m1","groupInstanceId":null,"clientId":"c","clientHost":"/h","rebalanceTimeout":1,"sessionTimeout":2,"subscription":"AQ==","assignment":""}]}}`},
		{decodeOffsets, groupKey, nil, `{"type":"2","data":{"group":"g"}}`, "<DELETE>"},
		{decodeOffsets, []byte{0}, nil, "<not a key of __consumer_offsets: 1 bytes>", ""},
		{decodeOffsets, []byte{0, 9}, nil, "<a key of type 9>", ""},
		{decodeTransactions, txnKey, txn.AppendTo(nil), `{"type":"0","data":{"transactionalId":"tx"}}`,
			`{"version":"0","data":{"producerId":3,"producerEpoch":1,"transactionTimeoutMs":4,"transactionStatus":"Ongoing",` +
				`"transactionPartitions":[{"topic":"t","partitionIds":[0]}],"transactionLastUpdateTimestampMs":5,"transactionStartTimestampMs":6}}`},
		{decodeTransactions, txnKey, nil, `{"type":"0","data":{"transactionalId":"tx"}}`, "<DELETE>"},
		{decodeTransactions, []byte{1}, nil, "<not a key of __transaction_state: 1 bytes>", ""},
	} {
		if k, v := c.decode(c.k, c.v); k != c.key || v != c.text {
			t.Errorf("\n  got  %s %s\n  want %s %s", k, v, c.key, c.text)
		}
	}
}

// What we show of files that Kafka 3.9.2 wrote is what kafka-dump-log of 4.4.0 shows.
func TestDumpAsKafka(t *testing.T) {
	for _, c := range []struct{ name, flag string }{
		{"__consumer_offsets-2", "--offsets-decoder"}, {"__transaction_state-0", "--transaction-log-decoder"},
	} {
		want, err := os.ReadFile("testdata/" + c.name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		cmd := Command()
		var out, problems bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&problems)
		cmd.SetArgs([]string{"dump", "testdata/" + c.name + "/00000000000000000000.log", c.flag})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		if out.String() != string(want) || problems.Len() > 0 {
			t.Errorf("%s: got\n%s%s", c.name, out.String(), problems.String())
		}
	}
	cmd := Command()
	cmd.SetArgs([]string{"dump", "x", "--offsets-decoder", "--transaction-log-decoder"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); cli.ExitCode(err) != 2 {
		t.Error(err)
	}
}

// Nobody's bytes make the decoders fail.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 'g'}, []byte{0, 3})
	f.Add([]byte{0, 2, 0, 1, 'g'}, []byte{0, 3, 0, 1, 'c'})
	f.Fuzz(func(_ *testing.T, k, v []byte) {
		decodeOffsets(k, v)
		decodeTransactions(k, v)
	})
}
