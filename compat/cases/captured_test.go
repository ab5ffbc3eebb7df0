package cases

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// captured is a Fetch v10 answer to a consumer that reads a whole partition, as a Kafka sent it (testdata/captured).
type captured struct {
	frame []byte // from the correlation id on
	topic string
	set   []byte
}

func readCaptured(t *testing.T) []captured {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "captured", "*.hex"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	var all []captured
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		answer := kmsg.NewPtrFetchResponse()
		answer.Version = 10
		if err := answer.ReadFrom(b[8:]); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, captured{b[4:], answer.Topics[0].Topic, answer.Topics[0].Partitions[0].RecordBatches})
	}
	return all
}

// Places in the frame of a Fetch v10 answer, from the correlation id on.
const (
	afterCorrelation = 4
	sessionAt        = 10
	afterSession     = 14
)

// TestCapturedLogs: a log that mixes formats, as older Kafkas left it, is served as it is, in an answer that is the captured one byte for
// byte, and converted for consumers of old.
func TestCapturedLogs(t *testing.T) { everywhereAnew(t, nil, capturedLogs) }

func capturedLogs(t *testing.T, b *server) {
	all := readCaptured(t)
	for _, c := range all {
		harness.CreateTopic(t, b.Broker, c.topic, 1, "retention.ms", "-1")
	}
	b.Stop()
	for _, c := range all {
		replaceLog(t, b.PartitionDir(t, c.topic, 0), c.set)
	}
	if err := os.Remove(filepath.Join(b.DataDir(), ".kafka_cleanshutdown")); err != nil {
		t.Fatal(err)
	}
	b.Restart(nil)
	conn := raw.Dial(t, b.Addr)
	for _, c := range all {
		t.Run(c.topic, func(t *testing.T) {
			awaitLeader(t, conn, c.topic)
			r := fetchRequest(10, c.topic, 1<<20, 1<<20, at{0, 0})
			r.SessionEpoch = 0
			conn.SendNoAnswer(r)
			got := conn.Frame()
			if !bytes.Equal(got[afterCorrelation:sessionAt], c.frame[afterCorrelation:sessionAt]) || !bytes.Equal(got[afterSession:], c.frame[afterSession:]) {
				t.Errorf("the answer is\n%x, captured was\n%x", got, c.frame)
			}
			for _, version := range []int16{0, 1, 2, 3} {
				if b.Kind != harness.Kafka44 {
					readConverted(t, conn, version, c.topic)
				}
			}
		})
	}
}

// replaceLog puts a record set into the folder of a partition that was empty, whose broker has to recover it.
func replaceLog(t *testing.T, dir string, set []byte) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "partition.metadata" {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.log", 0)), set, 0o644); err != nil {
		t.Fatal(err)
	}
}
