package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/metadata"
)

// transact produces a record to each of some partitions in one transaction.
func transact(t *testing.T, cl *kgo.Client, topic, value string, commit bool, partitions ...int32) error {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	var records []*kgo.Record
	for _, p := range partitions {
		records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		return err
	}
	return cl.EndTransaction(t.Context(), kgo.TransactionEndTry(commit))
}

// committed reads the values that a reader of committed records gets, n of them.
func committed(t *testing.T, b *Broker, topic string, n int) (values []string) {
	t.Helper()
	cl := client(t, b, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer cl.Close()
	for len(values) < n {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	slices.Sort(values)
	return values
}

// Transactions of a producer commit and abort, in both protocols, and again after a restart; an older producer with the same
// transactional id is fenced.
func TestTransactions(t *testing.T) {
	for _, level := range []int16{2, 1, 0} {
		t.Run(fmt.Sprintf("transaction.version %d", level), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTransactions(t, level) })
		})
	}
}

func testTransactions(t *testing.T, level int16) {
	dir := t.TempDir()
	b, stop := start(t, dir, "transaction.state.log.num.partitions=3")
	admin := client(t, b)
	if level < 2 {
		if _, err := kadm.NewClient(admin).UpdateFeatures(t.Context(), false, kadm.FeatureUpdate{Feature: "transaction.version", MaxVersionLevel: level, UpgradeType: 2}); err != nil {
			t.Fatal(err)
		}
	}
	createTopic(t, admin, "t", 3, nil)
	producer := func() *kgo.Client {
		return client(t, b, kgo.TransactionalID("id"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	first := producer()
	for i := range 6 {
		if err := transact(t, first, "t", fmt.Sprint("first ", i), i%2 == 0, 0, 1, 2); err != nil {
			t.Fatal(i, err)
		}
	}
	second := producer()
	if err := transact(t, second, "t", "second", true, 1); err != nil {
		t.Fatal(err)
	}
	if err := transact(t, first, "t", "late", true, 1); err == nil {
		t.Error("the first producer was not fenced")
	}
	first.Close()
	want := []string{"first 0", "first 0", "first 0", "first 2", "first 2", "first 2", "first 4", "first 4", "first 4", "second"}
	if got := committed(t, b, "t", 10); !slices.Equal(got, want) {
		t.Errorf("committed %q", got)
	}
	admin.Close()
	second.Close()
	stop()
	b, stop = start(t, dir, "transaction.state.log.num.partitions=3")
	defer stop()
	third := producer()
	defer third.Close()
	if err := transact(t, third, "t", "third", true, 0); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, b, "t", 11); got[10] != "third" {
		t.Errorf("after the restart %q", got)
	}
}

// A transaction whose producer falls silent is aborted when its time is over, and its records are never seen.
func TestTransactionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := start(t, t.TempDir(), "transaction.state.log.num.partitions=3")
		defer stop()
		admin := client(t, b)
		defer admin.Close()
		createTopic(t, admin, "t", 1, nil)
		cl := client(t, b, kgo.TransactionalID("id"), kgo.TransactionTimeout(30*time.Second))
		defer cl.Close()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("lost")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		produce(t, admin, "t", 1, 2)
		if got := committed(t, b, "t", 1); !slices.Equal(got, []string{"1"}) { // waits for the abort
			t.Errorf("committed %q", got)
		}
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
			t.Error("a transaction that was aborted could be committed")
		}
	})
}

// On ZooKeeper, with three brokers of which one after the other stops and comes back: the coordinator moves, markers go to leaders
// elsewhere, and of every transaction that was committed all is seen, of the others nothing. 3.9 can read what is stored.
func TestTransactionsInACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		settings := []string{"min.insync.replicas=2", "default.replication.factor=3", "transaction.state.log.num.partitions=3"}
		for id := int32(1); id <= 3; id++ {
			c.start(id, settings...)
		}
		admin := c.client()
		defer admin.Close()
		createTopic(t, admin, "t", 6, nil)
		producers := make([]*kgo.Client, 3)
		begin := func(i int) {
			producers[i] = c.client(kgo.TransactionalID(fmt.Sprint("id-", i)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		}
		for i := range producers {
			begin(i)
			defer func() { producers[i].Close() }()
		}
		var want []string
		round := func(n int) {
			for i, p := range producers {
				value, commit := fmt.Sprintf("%d-%d", n, i), (n+i)%2 == 0
				err := transact(t, p, "t", value, commit, 0, 1, 2, 3, 4, 5)
				if err != nil && err.Error() == "unknown broker" {
					// franz-go 1.22.3 repeats an AddPartitionsToTxn at the same broker, and gives the producer up when that has left the
					// metadata meanwhile. An application goes on with a new one, which ends what the other had begun.
					p.Close()
					begin(i)
					err = transact(t, producers[i], "t", value, commit, 0, 1, 2, 3, 4, 5)
				}
				if err != nil {
					t.Fatal(value, err)
				}
				for range 6 {
					if commit {
						want = append(want, value)
					}
				}
			}
		}
		for id := int32(1); id <= 3; id++ {
			round(int(2 * id))
			eventually(t, "all in sync", func() bool { return c.inSync("t", 3) && c.inSync("__transaction_state", 3) })
			c.stop(id)
			round(int(2*id) + 1)
			c.start(id, settings...)
		}
		slices.Sort(want)
		reader := c.client(kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		defer reader.Close()
		var got []string
		for len(got) < len(want) {
			fetches := reader.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("committed %q, want %q", got, want)
		}
		for path, data := range c.tree.Dump() {
			if path == "/config/topics/__transaction_state" && !strings.Contains(data, `"cleanup.policy":"compact"`) {
				t.Errorf("%s: %s", path, data)
			}
		}
	})
}

// TestMarkersOfWhatIsNotKnownYet: a partition counts as deleted only once the broker was told of the whole cluster.
func TestMarkersOfWhatIsNotKnownYet(t *testing.T) {
	b := &Broker{services: &api.Services{Metadata: metadata.NewCache()}}
	b.services.HoldClients()
	for _, known := range []bool{false, true} {
		if known {
			b.services.ServeClients()
		}
		if leader, exists := (markerTransport{b}).Leader("t", 0); leader != -1 || exists != !known {
			t.Errorf("the cluster is known: %t; leader %d, exists %t", known, leader, exists)
		}
	}
}
