package cases

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

var rewriteTransactions = flag.Bool("rewrite-transactions", false, "write what the broker answers into testdata, which only Apache Kafka should do")

// TestTransactionAnswers: the answers to requests about transactions, one after the other, and what the transactional id is then,
// are Apache Kafka's. Cases T2 to T5. The scripts are testdata/transactions*.txt; a paragraph has a transactional id of its own, P0
// is the first producer id that is told there.
func TestTransactionAnswers(t *testing.T) { everywhere(t, transactionAnswers) }

func transactionAnswers(t *testing.T, b *server) {
	if b.Kind == harness.Kafka39 {
		checkTransactions(t, b, "transactions", "transactions-3.9.2")
		return
	}
	checkTransactions(t, b, "transactions", "transactions-4.4.0")
	checkTransactions(t, b, "transactions-second", "transactions-second-4.4.0")
}

// TestTransactionAnswersOfTheFirstProtocol: where transaction.version is below 2 the answers are those of 3.9.
func TestTransactionAnswersOfTheFirstProtocol(t *testing.T) {
	if harness.Peer() == harness.Kafka39 {
		t.Skip("3.9 knows no other")
	}
	b := start(t, harness.Options{})
	for _, level := range []int16{1, 0} {
		r := kmsg.NewPtrUpdateFeaturesRequest()
		f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		f.Feature, f.MaxVersionLevel, f.UpgradeType = "transaction.version", level, 2
		r.FeatureUpdates, r.TimeoutMillis = []kmsg.UpdateFeaturesRequestFeatureUpdate{f}, 60000
		if a, err := r.RequestWith(harness.Context(t, time.Minute), harness.Client(t, b.Broker)); err != nil || a.ErrorCode != 0 {
			t.Fatal(a, err)
		}
		checkTransactions(t, b, "transactions", "transactions-3.9.2")
	}
}

// checkTransactions plays a script and compares with what is expected.
func checkTransactions(t *testing.T, b *server, script, expected string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", script+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	got, file := playTransactions(t, b, string(text)), filepath.Join("testdata", expected+".txt")
	if *rewriteTransactions {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Errorf("%s, line %d:\n%s\nwant\n%s", expected, i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Errorf("%s: %d lines, want %d", expected, len(gotLines), len(wantLines))
	}
}

// playTransactions returns the script with the answers in it.
func playTransactions(t *testing.T, b *server, text string) string {
	var out strings.Builder
	s := &txnScript{t: t, conn: raw.Dial(t, b.Addr), topic: topic(t, b, 2)}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			s.id, s.known = name(t), nil
			fmt.Fprintln(&out, line)
			continue
		}
		answer := s.do(strings.Fields(line))
		fmt.Fprintf(&out, "%s → %s · %s\n", line, answer, s.state())
	}
	return out.String()
}

// txnScript is one transactional id's dialogue.
type txnScript struct {
	t     *testing.T
	conn  *raw.Conn
	topic string
	id    string
	known []int64 // producer ids, in the order in which they were told
}

// producer returns the producer id for a word.
func (s *txnScript) producer(word string) int64 {
	n, err := strconv.Atoi(strings.TrimPrefix(word, "P"))
	if err != nil {
		s.t.Fatal(err)
	}
	if n < len(s.known) {
		return s.known[n]
	}
	return 1<<40 + int64(n)
}

// word is the opposite of producer.
func (s *txnScript) word(id int64) string {
	if id < 0 {
		return "-"
	}
	at := slices.Index(s.known, id)
	if at < 0 {
		at = len(s.known)
		s.known = append(s.known, id)
	}
	return fmt.Sprint("P", at)
}

func number[T int16 | int32](s *txnScript, word string) T {
	n, err := strconv.ParseInt(word, 10, 32)
	if err != nil {
		s.t.Fatal(err)
	}
	return T(n)
}

func codeName(code int16) string {
	if err := kerr.ErrorForCode(code); err != nil {
		word, _, _ := strings.Cut(err.Error(), ":")
		return word
	}
	return "ok"
}

// do sends one request and returns the answer in words.
func (s *txnScript) do(words []string) string {
	switch words[0] {
	case "init":
		return s.init(words[1:])
	case "add", "verify":
		return s.add(words)
	case "offsets":
		r := raw.With(kmsg.NewPtrAddOffsetsToTxnRequest(), number[int16](s, words[1]))
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = s.id, s.producer(words[2]), number[int16](s, words[3]), s.id
		return codeName(raw.Do[*kmsg.AddOffsetsToTxnResponse](s.conn, r).ErrorCode)
	case "end":
		r := raw.With(kmsg.NewPtrEndTxnRequest(), number[int16](s, words[1]))
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = s.id, s.producer(words[2]), number[int16](s, words[3]), words[4] == "commit"
		a := raw.Do[*kmsg.EndTxnResponse](s.conn, r)
		if r.Version < 5 {
			return codeName(a.ErrorCode)
		}
		return fmt.Sprint(codeName(a.ErrorCode), " ", s.word(a.ProducerID), " ", a.ProducerEpoch)
	}
	s.t.Fatalf("no such request: %s", words)
	return ""
}

// init asks until the coordinator has loaded.
func (s *txnScript) init(words []string) string {
	r := raw.With(kmsg.NewPtrInitProducerIDRequest(), number[int16](s, words[0]))
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &s.id, number[int32](s, words[1]), -1, -1
	if len(words) > 2 {
		r.ProducerID, r.ProducerEpoch = s.producer(words[2]), number[int16](s, words[3])
	}
	s.find()
	var a *kmsg.InitProducerIDResponse
	harness.Eventually(s.t, time.Minute, func() error {
		a = raw.Do[*kmsg.InitProducerIDResponse](s.conn, r)
		switch a.ErrorCode {
		case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code:
			return kerr.ErrorForCode(a.ErrorCode)
		}
		return nil
	})
	return fmt.Sprint(codeName(a.ErrorCode), " ", s.word(a.ProducerID), " ", a.ProducerEpoch)
}

// find makes the topic of transactions, and of groups, exist.
func (s *txnScript) find() {
	for _, kind := range []int8{0, 1} {
		r := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 3)
		r.CoordinatorKey, r.CoordinatorType = s.id, kind
		harness.Eventually(s.t, time.Minute, func() error {
			return kerr.ErrorForCode(raw.Do[*kmsg.FindCoordinatorResponse](s.conn, r).ErrorCode)
		})
	}
}

func (s *txnScript) add(words []string) string {
	var partitions []int32
	for word := range strings.SplitSeq(words[len(words)-1], ",") {
		partitions = append(partitions, number[int32](s, word))
	}
	verify := words[0] == "verify"
	if verify {
		words = append([]string{"add", "4"}, words[1:]...)
	}
	version, id, epoch := number[int16](s, words[1]), s.producer(words[2]), number[int16](s, words[3])
	r := raw.With(kmsg.NewPtrAddPartitionsToTxnRequest(), version)
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = s.id, id, epoch
	r.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: s.topic, Partitions: partitions}}
	r.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{
		TransactionalID: s.id, ProducerID: id, ProducerEpoch: epoch, VerifyOnly: verify,
		Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: s.topic, Partitions: partitions}},
	}}
	a := raw.Do[*kmsg.AddPartitionsToTxnResponse](s.conn, r)
	var said []string
	for _, topic := range a.Topics {
		for _, p := range topic.Partitions {
			said = append(said, fmt.Sprint(p.Partition, " ", codeName(p.ErrorCode)))
		}
	}
	for _, transaction := range a.Transactions {
		for _, topic := range transaction.Topics {
			for _, p := range topic.Partitions {
				said = append(said, fmt.Sprint(p.Partition, " ", codeName(p.ErrorCode)))
			}
		}
	}
	slices.Sort(said)
	return strings.Join(append(said, codeName(a.ErrorCode)), ", ")
}

// state waits for the end of what is being completed and tells what the transactional id is.
func (s *txnScript) state() (said string) {
	harness.Eventually(s.t, time.Minute, func() error {
		r := raw.With(kmsg.NewPtrDescribeTransactionsRequest(), 0)
		r.TransactionalIDs = []string{s.id}
		d := raw.Do[*kmsg.DescribeTransactionsResponse](s.conn, r).TransactionStates[0]
		if strings.HasPrefix(d.State, "Prepare") {
			return fmt.Errorf("%s", d.State)
		}
		if d.ErrorCode != 0 {
			said = codeName(d.ErrorCode)
			return nil
		}
		partitions := 0
		for _, topic := range d.Topics {
			partitions += len(topic.Partitions)
		}
		said = fmt.Sprintf("%s %s %d, %d partitions, timeout %d", d.State, s.word(d.ProducerID), d.ProducerEpoch, partitions, d.TimeoutMillis)
		return nil
	})
	return said
}
