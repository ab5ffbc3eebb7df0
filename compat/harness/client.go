package harness

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// RetryEOF has a client go on when a broker ends just after it was dialed. Without it franz-go takes that for a lack of SASL, and the
// application gets an error that no other broken connection is.
func RetryEOF() kgo.Opt { return kgo.AlwaysRetryEOF() }

// Client returns a franz-go client of the broker that is closed at the end of the test.
func Client(t testing.TB, b *Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.Addr),
		kgo.MetadataMinAge(10 * time.Millisecond),
		RetryEOF(),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

// ReadAndCommit has the member of a group read n records and commit where it is.
func ReadAndCommit(t testing.TB, member *kgo.Client, n int) {
	t.Helper()
	ctx := Context(t, time.Minute)
	for read := 0; read < n; {
		fetches := member.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read += fetches.NumRecords()
	}
	if err := member.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
}

// Context returns a context that ends with the test or after the limit.
func Context(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// CreateTopic creates a topic, given key and value pairs of its configuration, and returns once the client sees a leader for
// every partition.
func CreateTopic(t testing.TB, b *Broker, name string, partitions int, pairs ...string) {
	t.Helper()
	configs := map[string]*string{}
	for i := 0; i < len(pairs); i += 2 {
		configs[pairs[i]] = &pairs[i+1]
	}
	ctx := Context(t, time.Minute)
	admin := kadm.NewClient(Client(t, b))
	if _, err := admin.CreateTopic(ctx, int32(partitions), 1, configs, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	Eventually(t, time.Minute, func() error {
		offsets, err := admin.ListEndOffsets(ctx, name)
		if err != nil {
			return err
		}
		return offsets.Error()
	})
}
