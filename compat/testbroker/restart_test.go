package testbroker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

// TestStop: nothing of it runs after that, and it may be said again.
func TestStop(t *testing.T) {
	before := goleak.IgnoreCurrent()
	b := Start(t, Topic("t", 1))
	for range 2 {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}
	goleak.VerifyNone(t, before)
	if conn, err := b.Dial(t.Context(), "", ""); err == nil {
		conn.Close()
		t.Error("a stopped broker is there")
	}
}

// TestRestart: a client lives through it, and finds the records, the commits and the faults.
func TestRestart(t *testing.T) {
	t.Run("sockets", func(t *testing.T) { restart(t) })
	t.Run("in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { restart(t, InMemory()) })
	})
}

func restart(t *testing.T, opts ...Option) {
	b := Start(t, append(opts, Topic("t", 1))...)
	fault := b.Inject(Fault{Key: kmsg.Produce, Times: 2, Error: kerr.NotLeaderForPartition})
	cl, addr := client(t, b), b.Addr()
	admin := kadm.NewClient(cl)
	for i := range int64(3) {
		if i == 2 {
			if err := b.Stop(); err != nil { // first, or in Restart
				t.Fatal(err)
			}
		}
		if i > 0 {
			if err := b.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		if offset, err := put(t, cl, "t", 0); err != nil || offset != i {
			t.Errorf("offset %d, %v", offset, err)
		}
		if i > 0 {
			committed, err := admin.FetchOffsets(t.Context(), "g")
			if o, _ := committed.Lookup("t", 0); err != nil || o.At != i {
				t.Errorf("committed %+v, %v", o, err)
			}
		}
		if err := admin.CommitAllOffsets(t.Context(), "g", kadm.Offsets{"t": {0: {Topic: "t", At: i + 1, LeaderEpoch: -1}}}); err != nil {
			t.Fatal(err)
		}
	}
	if b.Addr() != addr || fault.Struck() != 2 {
		t.Errorf("at %s, before at %s; struck %d times", b.Addr(), addr, fault.Struck())
	}
}

// TestFaultSurvivesRestart: what is injected while the broker is down strikes when it is back.
func TestFaultSurvivesRestart(t *testing.T) {
	b := Start(t, Topic("t", 1))
	cl := client(t, b)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	fault := b.Inject(Fault{Key: kmsg.Produce, Times: 1, Drop: true})
	if err := b.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, cl, "t", 0); err != nil || fault.Struck() != 1 {
		t.Errorf("%v, struck %d times", err, fault.Struck())
	}
}

// TestNew: a broker without a test goes on with the data of another.
func TestNew(t *testing.T) {
	dir := t.TempDir()
	for i := range int64(2) {
		b, err := New(dir, Topic("t", 1))
		if err != nil {
			t.Fatal(err)
		}
		if offset, err := put(t, client(t, b), "t", 0); err != nil || offset != i {
			t.Errorf("offset %d, %v", offset, err)
		}
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefused: options that cannot be are named, and nothing is left running.
func TestRefused(t *testing.T) {
	for want, o := range map[string]Option{
		`num.partitions: "abc"`:              Property("num.partitions", "abc"),
		"topic a: retention.ms has no value": Topic("a", 1, "retention.ms"),
		"topic a/b: INVALID_TOPIC_EXCEPTION": Topic("a/b", 1),
		"topic a: INVALID_CONFIG":            Topic("a", 1, "retention.ms", "soon"),
		"there must be a listener PLAINTEXT": func(o *options) {
			Property("listeners", "OTHER://127.0.0.1:0")(o)
			Property("listener.security.protocol.map", "OTHER:PLAINTEXT")(o)
			Property("inter.broker.listener.name", "OTHER")(o)
		},
	} {
		if _, err := New(t.TempDir(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// logs is a test that keeps what is logged.
type logs struct {
	testing.TB
	lines []string
}

func (l *logs) Log(args ...any) { l.lines = append(l.lines, fmt.Sprint(args...)) }

func TestMisspeltPropertyIsLogged(t *testing.T) {
	l := &logs{TB: t}
	if err := Start(l, Property("num.partition", "3")).Restart(); err != nil {
		t.Fatal(err)
	}
	if len(l.lines) != 1 || !strings.Contains(l.lines[0], "did you mean num.partitions?") {
		t.Errorf("%q", l.lines)
	}
}

// TestClientOfAGroup: a member that a test forgets does not keep it from ending.
func TestClientOfAGroup(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		b := Start(t, Topic("t", 1))
		cl := client(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if _, err := put(t, cl, "t", 0); err != nil {
			t.Fatal(err)
		}
		if fetches := cl.PollFetches(t.Context()); fetches.Err() != nil || fetches.NumRecords() != 1 {
			t.Errorf("%v", fetches)
		}
	})
}
