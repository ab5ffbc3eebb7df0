package testbroker_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/testbroker"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestOrderIsTriedAgain(t *testing.T) {
	b := testbroker.Start(t, testbroker.Topic("orders", 3))
	fault := b.Inject(testbroker.Fault{Key: kmsg.Produce, Topic: "orders", Times: 1, Error: kerr.NotLeaderForPartition})

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.MetadataMinAge(10*time.Millisecond)) // 5s: how soon it asks anew who leads
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("42")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if fault.Struck() != 1 {
		t.Error("the producer did not meet the error")
	}
}

// TestReadme: the README's example is the one above.
func TestReadme(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(source), "func TestOrderIsTriedAgain")
	example, _, _ = strings.Cut(example, "\n}\n")
	if !strings.Contains(string(readme), "func TestOrderIsTriedAgain"+example+"\n}\n") {
		t.Error("the README has another example")
	}
}
