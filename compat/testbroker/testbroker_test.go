package testbroker

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t testing.TB, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return b.Client(t, append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
}

func put(t testing.TB, cl *kgo.Client, topic string, partition int32) (offset int64, err error) {
	t.Helper()
	r, err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte("v")}).First()
	return r.Offset, err
}

func TestSeededTopics(t *testing.T) {
	b := Start(t, Topic("orders", 3), Topic("state", 1, "cleanup.policy", "compact"))
	admin := kadm.NewClient(client(t, b))
	topics, err := admin.ListTopics(t.Context())
	if err != nil || len(topics["orders"].Partitions) != 3 {
		t.Errorf("%v, %v", topics, err)
	}
	configs, err := admin.DescribeTopicConfigs(t.Context(), "state")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "cleanup.policy" && c.MaybeValue() != "compact" {
			t.Errorf("cleanup.policy is %s", c.MaybeValue())
		}
	}
}

// TestUnderVirtualTime: a day of retention passes at once.
func TestUnderVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Start(t, InMemory(), Topic("short", 1, "retention.ms", "3600000", "segment.ms", "600000"))
		cl := client(t, b)
		if _, err := put(t, cl, "short", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		starts, err := kadm.NewClient(cl).ListStartOffsets(t.Context(), "short")
		if o, _ := starts.Lookup("short", 0); err != nil || o.Offset != 1 {
			t.Errorf("the log starts at %+v, %v", o, err)
		}
	})
}

// TestErrorOfAPartition: only that partition fails, nothing of it is stored, and the client's next try succeeds.
func TestErrorOfAPartition(t *testing.T) {
	b := Start(t, Topic("t", 2))
	fault := b.Inject(Fault{Key: kmsg.Produce, Topic: "t", Partitions: []int32{1}, Times: 2, Error: kerr.NotLeaderForPartition})
	cl := client(t, b)
	results := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: 0}, &kgo.Record{Topic: "t", Partition: 1})
	if err := results.FirstErr(); err != nil {
		t.Fatal(err)
	}
	if fault.Struck() != 2 {
		t.Errorf("struck %d times", fault.Struck())
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset != 1 {
			t.Errorf("partition %d ends at %d", o.Partition, o.Offset)
		}
	})
}

func TestErrorThatLasts(t *testing.T) {
	b := Start(t, Topic("t", 1))
	fault := b.Inject(Fault{Key: kmsg.Produce, Error: kerr.MessageTooLarge})
	cl := client(t, b)
	if _, err := put(t, cl, "t", 0); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("%v", err)
	}
	fault.Remove()
	if offset, err := put(t, cl, "t", 0); err != nil || offset != 0 {
		t.Errorf("offset %d, %v", offset, err)
	}
}

func TestDroppedConnection(t *testing.T) {
	b := Start(t, Topic("t", 1))
	fault := b.Inject(Fault{Key: kmsg.Produce, Drop: true, Times: 1})
	if _, err := put(t, client(t, b), "t", 0); err != nil || fault.Struck() != 1 {
		t.Errorf("%v, struck %d times", err, fault.Struck())
	}
}

// TestFetchErrors: a consumer with a session meets an error of one partition, and reads on.
func TestFetchErrors(t *testing.T) {
	b := Start(t, Topic("t", 1))
	cl := client(t, b, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(100*time.Millisecond))
	for i := range int64(3) {
		if i == 1 {
			b.Inject(Fault{Key: kmsg.Fetch, Topic: "t", Partitions: []int32{0}, Times: 1, Error: kerr.NotLeaderForPartition})
		}
		if _, err := put(t, cl, "t", 0); err != nil {
			t.Fatal(err)
		}
		for got := false; !got; {
			fetches := cl.PollFetches(t.Context())
			if err := fetches.Err0(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				got = true
				if r.Offset != i {
					t.Errorf("offset %d, want %d", r.Offset, i)
				}
			})
		}
	}
}

func TestMetadataError(t *testing.T) {
	b := Start(t, Topic("t", 1), Topic("u", 1))
	b.Inject(Fault{Key: kmsg.Metadata, Topic: "t", Error: kerr.LeaderNotAvailable})
	r := kmsg.NewPtrMetadataRequest()
	answer, err := r.RequestWith(t.Context(), client(t, b))
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range answer.Topics {
		if want := *topic.Topic == "t"; want != (topic.ErrorCode == kerr.LeaderNotAvailable.Code) {
			t.Errorf("topic %s: error %d", *topic.Topic, topic.ErrorCode)
		}
	}
}

// TestDelay: the answer comes late, what was asked is done at once.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Start(t, InMemory(), Topic("t", 1))
		b.Inject(Fault{Key: kmsg.Produce, Times: 1, Delay: 5 * time.Second})
		cl := client(t, b)
		began := time.Now()
		if _, err := put(t, cl, "t", 0); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second { // of virtual time
			t.Errorf("answered after %v", took)
		}
	})
}

// TestStopsWithAnswersKeptBack: a test may end while a fault holds an answer.
func TestStopsWithAnswersKeptBack(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		b := Start(t, Topic("t", 1))
		fault := b.Inject(Fault{Key: kmsg.ListOffsets, Delay: time.Hour})
		askForEnds(t, b)
		if err := fault.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	})
}

// askForEnds asks in the background; what it is answered arrives in the channel.
func askForEnds(t *testing.T, b *Broker) <-chan error {
	admin := kadm.NewClient(client(t, b))
	answered := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		_, err := admin.ListEndOffsets(ctx, "t")
		answered <- err
	}()
	return answered
}

// TestRemoveLetsAnswersGo: what is held is held until the test says so.
func TestRemoveLetsAnswersGo(t *testing.T) {
	b := Start(t, Topic("t", 1))
	fault := b.Inject(Fault{Key: kmsg.ListOffsets, Times: 1, Delay: time.Hour})
	answered := askForEnds(t, b)
	if err := fault.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-answered:
		t.Error("it was answered before")
	default:
	}
	fault.Remove()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	b := Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Inject(Fault{Key: kmsg.Fetch}).Wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAnswer: requests that a function chooses are answered by another.
func TestAnswer(t *testing.T) {
	b := Start(t, Topic("t", 1))
	fault := b.Inject(Fault{
		Key:  kmsg.DescribeCluster,
		When: func(r kmsg.Request) bool { return !r.(*kmsg.DescribeClusterRequest).IncludeFencedBrokers },
		Answer: func(r kmsg.Request) kmsg.Response {
			if r.(*kmsg.DescribeClusterRequest).IncludeClusterAuthorizedOperations {
				return nil
			}
			answer := kmsg.NewPtrDescribeClusterResponse()
			answer.ClusterID = "another"
			return answer
		},
	})
	for _, c := range []struct {
		fenced, operations, another bool
		struck                      int
	}{{true, false, false, 0}, {false, true, false, 1}, {false, false, true, 2}} {
		r := kmsg.NewPtrDescribeClusterRequest()
		r.IncludeFencedBrokers, r.IncludeClusterAuthorizedOperations = c.fenced, c.operations
		answer, err := r.RequestWith(t.Context(), client(t, b))
		if err != nil || (answer.ClusterID == "another") != c.another || fault.Struck() != c.struck {
			t.Errorf("%+v: %v, %v, struck %d times", c, answer, err, fault.Struck())
		}
	}
}

// TestEveryRequestCanFail: whatever a client asks, an injected error is in the answer.
func TestEveryRequestCanFail(t *testing.T) {
	b := Start(t)
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), client(t, b))
	if err != nil {
		t.Fatal(err)
	}
	for _, served := range versions.ApiKeys {
		key := kmsg.Key(served.ApiKey)
		request := key.Request()
		request.SetVersion(served.MaxVersion)
		fill(body(request), 3)
		answer := request.ResponseKind()
		s := selection{fault: &Fault{Error: kerr.UnknownServerError}, name: func([16]byte) string { return "" }}
		if !s.mirror(body(request), body(answer)) {
			t.Errorf("%s: no place for an error in its answer", key.Name())
		}
	}
}

// fill gives every list one element.
func fill(v reflect.Value, depth int) {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() == reflect.Uint8 || depth == 0 {
			continue
		}
		element := reflect.New(f.Type().Elem()).Elem()
		if element.Kind() == reflect.Struct {
			fill(element, depth-1)
		}
		f.Set(reflect.Append(f, element))
	}
}

// BenchmarkStart is how long a test waits for its broker.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		broker, err := New(filepath.Join(dir, strconv.Itoa(i)), Topic("t", 1))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := broker.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
