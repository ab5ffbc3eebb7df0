package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/txn/bank"
)

const (
	bankTopic      = "bank"
	bankPartitions = 3
	bankTellers    = 3
	bankAccounts   = 4 // of each teller
	bankOpening    = 100
	bankTimeout    = time.Second // of a transaction
	bankPatience   = time.Minute // for anything that must come in the end
)

// office is the tellers that transfer while brokers are broken. Each owns accounts, a transactional id, and a read_committed
// reader from which it learns after every doubt what became of its transfers.
type office struct {
	seeds []string
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu                 sync.Mutex
	committed, aborted []string
	faults             map[string]int
	violations         []string
}

func openOffice(t *testing.T, seed uint64, seeds []string) *office {
	t.Helper()
	t.Logf("replay with GREGOR_SEED=%d", seed)
	o := &office{seeds: seeds, faults: map[string]int{}}
	o.ctx, o.stop = context.WithCancel(t.Context())
	for i := range bankTellers {
		tl := &teller{office: o, name: fmt.Sprint("teller-", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		o.wg.Go(func() {
			if err := tl.work(); err != nil {
				o.violated("%s: %v", tl.name, err)
			}
		})
	}
	return o
}

// close ends the tellers.
func (o *office) close() {
	o.stop()
	o.wg.Wait()
}

func (o *office) violated(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations = append(o.violations, fmt.Sprintf(format, args...))
}

func (o *office) transfers() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.committed)
}

func (o *office) note(list *[]string, transfer string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*list = append(*list, transfer)
}

func (o *office) fault(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults[kind]++
}

func (o *office) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(o.seeds...), kgo.MetadataMinAge(10 * time.Millisecond), kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(3 * time.Second), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}, options...)...)
}

// teller owns some accounts. One goroutine.
type teller struct {
	*office
	name   string
	random *rand.Rand
	reader *reader
	client *kgo.Client // nil after a doubt
	state  [bankAccounts]bank.Account
	sent   [bankAccounts]bank.Account // with the transfer that is under way
	next   int
}

// work transfers until the office closes.
func (tl *teller) work() error {
	var err error
	if tl.reader, err = tl.newReader(); err != nil {
		return err
	}
	defer tl.reader.client.Close()
	for tl.ctx.Err() == nil {
		if tl.client == nil {
			if err := tl.recover(); err != nil {
				return err
			}
		}
		if err := tl.turn(); err != nil {
			tl.client.CloseAllowingRebalance()
			tl.client = nil
		}
	}
	return tl.recover() // so that nothing is left open
}

// recover begins anew as the same producer, which decides about whatever is open, and compares what is there with what is
// known: nothing that was committed is lost, and the total is what it was.
func (tl *teller) recover() error {
	if tl.client != nil {
		tl.client.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), bankPatience)
	defer cancel()
	var err error
	if tl.client, err = tl.producer(ctx); err != nil {
		return err
	}
	if err := tl.reader.catchUp(ctx); err != nil {
		return err
	}
	total := 0
	for i := range tl.state {
		a := tl.reader.ledger.Account(tl.account(i))
		if a.Version < tl.state[i].Version || a.Version > max(tl.sent[i].Version, tl.state[i].Version) {
			return fmt.Errorf("account %d is %+v, committed was %+v, sent %+v", i, a, tl.state[i], tl.sent[i])
		}
		total += a.Balance
		tl.state[i], tl.sent[i] = a, a
	}
	if want := bankAccounts * bankOpening; total != want && (total != 0 || tl.transfersBegun()) {
		return fmt.Errorf("the accounts hold %d, not %d", total, want)
	}
	if v := tl.reader.ledger.Violations(); len(v) > 0 {
		return errors.New(strings.Join(v, "\n"))
	}
	return nil
}

func (tl *teller) transfersBegun() bool { return tl.state[0].Version > 0 }

// producer returns a client that has its producer id, so that the one before it is fenced.
func (tl *teller) producer(ctx context.Context) (*kgo.Client, error) {
	for {
		client, err := tl.office.client(kgo.TransactionalID(tl.name), kgo.TransactionTimeout(bankTimeout), kgo.DefaultProduceTopic(bankTopic),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		if err != nil {
			return nil, err
		}
		if _, _, err = client.ProducerID(ctx); err == nil {
			return client, nil
		}
		client.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no producer id: %w", err)
		}
	}
}

func (tl *teller) account(i int) string { return tl.name + "/" + strconv.Itoa(i) }

// partition spreads a teller's accounts.
func (tl *teller) partition(i int) int32 { return int32(i % bankPartitions) }

// turn is one transaction, with some malice. An error leaves its outcome in doubt.
func (tl *teller) turn() error {
	transfer := fmt.Sprintf("%s-%d", tl.name, tl.next)
	tl.next++
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	after, err := tl.send(ctx, tl.client, transfer)
	if err != nil {
		return err
	}
	switch n := tl.random.IntN(100); {
	case n < 10:
		tl.fault("abort")
		if err := tl.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
			return err
		}
		tl.note(&tl.aborted, transfer)
		tl.sent = tl.state
		return nil
	case n < 13:
		tl.fault("pause past the timeout")
		pause(ctx, 2*bankTimeout)
	case n < 16:
		tl.fault("zombie")
		return tl.zombie(ctx, transfer)
	}
	if err := tl.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	tl.note(&tl.committed, transfer)
	tl.state = after
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// zombie has a second producer of the same id take over in the middle: the first must not be able to commit or to write.
func (tl *teller) zombie(ctx context.Context, transfer string) error {
	old := tl.client
	defer old.CloseAllowingRebalance()
	next, err := tl.producer(ctx)
	if err != nil {
		return err
	}
	tl.client = next
	if err := old.EndTransaction(ctx, kgo.TryCommit); err == nil {
		tl.violated("%s was committed by a zombie", transfer)
	}
	tl.note(&tl.aborted, transfer)
	tl.sent = tl.state
	if err := old.BeginTransaction(); err != nil {
		return nil
	}
	late := transfer + "-late"
	if _, err := tl.send(ctx, old, late); err == nil {
		if err := old.EndTransaction(ctx, kgo.TryCommit); err == nil {
			tl.violated("%s was written and committed by a zombie", late)
		}
	}
	tl.note(&tl.aborted, late)
	tl.sent = tl.state
	return nil
}

// send writes a transfer between all accounts of the teller, which are in different partitions; the first one opens them.
func (tl *teller) send(ctx context.Context, client *kgo.Client, transfer string) (after [bankAccounts]bank.Account, err error) {
	if err := client.BeginTransaction(); err != nil {
		return after, err
	}
	left := 0
	var records []*kgo.Record
	for i := range tl.state {
		delta := bankOpening
		if tl.transfersBegun() {
			delta = tl.random.IntN(21) - 10
			if i == bankAccounts-1 {
				delta = -left
			}
			left += delta
		}
		after[i] = bank.Account{Version: tl.state[i].Version + 1, Balance: tl.state[i].Balance + delta}
		e := bank.Entry{Transfer: transfer, Of: bankAccounts, Account: tl.account(i), Version: after[i].Version, Delta: delta, Balance: after[i].Balance}
		records = append(records, &kgo.Record{Partition: tl.partition(i), Key: []byte(e.Account), Value: e.Value()})
	}
	tl.sent = after
	return after, client.ProduceSync(ctx, records...).FirstErr()
}

// reader reads the bank under read_committed into a ledger.
type reader struct {
	client *kgo.Client
	ledger *bank.Ledger
	at     map[int32]int64
}

func (o *office) newReader() (*reader, error) {
	client, err := o.client(kgo.ConsumeTopics(bankTopic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	return &reader{client, bank.NewLedger(), map[int32]int64{}}, err
}

// catchUp reads up to the ends of now, which open transactions of others may hold back for a while.
func (r *reader) catchUp(ctx context.Context) error {
	admin := kadm.NewClient(r.client)
	ends, err := admin.ListEndOffsets(ctx, bankTopic)
	for ; err != nil || ends.Error() != nil; ends, err = admin.ListEndOffsets(ctx, bankTopic) {
		if ctx.Err() != nil {
			return fmt.Errorf("no end offsets: %w", errors.Join(err, ends.Error()))
		}
	}
	missing := func() (all []string) {
		ends.Each(func(o kadm.ListedOffset) {
			if r.at[o.Partition] < o.Offset {
				all = append(all, fmt.Sprintf("partition %d: %d of %d", o.Partition, r.at[o.Partition], o.Offset))
			}
		})
		return all
	}
	for len(missing()) > 0 {
		r.client.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			r.at[rec.Partition] = rec.Offset + 1
			if !rec.Attrs.IsControl() {
				r.ledger.Note(rec.Partition, rec.Offset, rec.Value)
			}
		})
		if ctx.Err() != nil {
			return fmt.Errorf("the last stable offset stands still: %v", missing())
		}
	}
	return nil
}

// audit reads everything once more and compares it with what the tellers know.
func (o *office) audit(t *testing.T) {
	t.Helper()
	r, err := o.newReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.client.Close()
	ctx := harness.Context(t, bankPatience)
	if err := r.catchUp(ctx); err != nil {
		t.Fatal(err)
	}
	for _, v := range append(o.violations, r.ledger.Check(o.committed, o.aborted)...) {
		t.Error(v)
	}
	if got, want := r.ledger.Total(), bankTellers*bankAccounts*bankOpening; got != want {
		t.Errorf("the total is %d, not %d", got, want)
	}
	for _, kind := range []string{"abort", "zombie", "pause past the timeout"} {
		if o.faults[kind] == 0 {
			t.Logf("in this run there was no %s", kind)
		}
	}
	producers, err := kadm.NewClient(r.client).DescribeProducers(ctx, topicSet(bankTopic))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range producers.SortedPartitions() {
		for _, one := range p.ActiveProducers {
			if one.CurrentTxnStartOffset >= 0 {
				t.Errorf("partition %d: producer %d has a transaction open from %d on", p.Partition, one.ProducerID, one.CurrentTxnStartOffset)
			}
		}
	}
	t.Logf("%d transfers committed, %d aborted, %v", len(o.committed), len(o.aborted), o.faults)
}

func topicSet(topic string) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	for p := range int32(bankPartitions) {
		set.Add(topic, p)
	}
	return set
}

// bankSeed is GREGOR_SEED, or chance.
func bankSeed(t *testing.T) uint64 {
	t.Helper()
	if text := os.Getenv("GREGOR_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed
	}
	return rand.Uint64()
}

// progress waits until the tellers have committed n more transfers.
func (o *office) progress(t *testing.T, n int) {
	t.Helper()
	want := o.transfers() + n
	for end := time.Now().Add(2 * bankPatience); o.transfers() < want; pause(o.ctx, 10*time.Millisecond) {
		if time.Now().After(end) {
			o.close()
			t.Fatalf("%d transfers, want %d\n%s", o.transfers(), want, strings.Join(o.violations, "\n"))
		}
	}
}

// TestSoakBank: a broker that is killed and restarted under transfers, with producers that pause past their timeout and zombies:
// read_committed readers see every transfer whole, once, and none that was aborted. GREGOR_SOAK says for how long ("make soak").
func TestSoakBank(t *testing.T) { runBank(t, rounds(t, 4)) }

// rounds says whether there is to be another round of faults: for as long as GREGOR_SOAK says, or a few.
func rounds(t *testing.T, few int) (again func(round int) bool) {
	t.Helper()
	text := os.Getenv("GREGOR_SOAK")
	if text == "" {
		return func(round int) bool { return round < few }
	}
	limit, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(limit)
	return func(int) bool { return time.Now().Before(end) }
}

func runBank(t *testing.T, again func(round int) bool) {
	b := harness.Start(t, harness.Options{Props: few})
	harness.CreateTopic(t, b, bankTopic, bankPartitions, "segment.bytes", "1048576")
	seed := bankSeed(t)
	o := openOffice(t, seed, []string{b.Addr})
	defer o.close()
	random := rand.New(rand.NewPCG(seed, 99))
	for round := 0; again(round); round++ {
		o.progress(t, 20+random.IntN(50))
		if round%2 == 0 {
			o.fault("kill -9")
			b.Kill()
		} else {
			o.fault("restart")
			b.Stop()
		}
		b.Restart(nil)
	}
	o.progress(t, 50)
	o.close()
	o.audit(t)
}
