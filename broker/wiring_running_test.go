package broker

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/wire/clock"
)

// seenRunning are keys whose effect is seen in what a running broker does; without the setting it does not do it.
var seenRunning = []struct {
	set  string
	does func(t *testing.T, b *Broker, cl *kgo.Client) bool
}{
	{"broker.id=5", func(_ *testing.T, b *Broker, _ *kgo.Client) bool { return b.registration().ID == 5 }},
	{"node.id=6", func(_ *testing.T, b *Broker, _ *kgo.Client) bool { return b.registration().ID == 6 }},
	{"broker.rack=r", func(_ *testing.T, b *Broker, _ *kgo.Client) bool { return b.registration().Rack == "r" }},
	{"advertised.listeners=PLAINTEXT://elsewhere:9", func(_ *testing.T, b *Broker, _ *kgo.Client) bool {
		at := b.registration().Endpoints[0]
		return at.Host == "elsewhere" && at.Port == 9
	}},
	{"log.cleaner.enable=false", func(_ *testing.T, b *Broker, _ *kgo.Client) bool { return b.cleaner.Load() == nil }},
	{"auto.create.topics.enable=false", noTopicByMetadata},
	{"telemetry.max.bytes=77", func(t *testing.T, _ *Broker, cl *kgo.Client) bool {
		return ask[*kmsg.GetTelemetrySubscriptionsResponse](t, cl, kmsg.NewPtrGetTelemetrySubscriptionsRequest()).TelemetryMaxBytes == 77
	}},
	{"max.request.partition.size.limit=2", func(t *testing.T, _ *Broker, cl *kgo.Client) bool {
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		r.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
		r.ResponsePartitionLimit = 100
		answer := ask[*kmsg.DescribeTopicPartitionsResponse](t, cl, r)
		return len(answer.Topics[0].Partitions) == 2 && answer.NextCursor != nil
	}},
	{"fetch.max.bytes=1024", func(t *testing.T, b *Broker, cl *kgo.Client) bool {
		answer := fetched(t, b, cl)
		return len(answer.Topics[0].Partitions[0].RecordBatches) < 2000
	}},
	{"max.incremental.fetch.session.cache.slots=0", func(t *testing.T, b *Broker, cl *kgo.Client) bool { return fetched(t, b, cl).SessionID == 0 }},
}

func ask[R kmsg.Response](t *testing.T, cl *kgo.Client, r kmsg.Request) R {
	t.Helper()
	answer, err := cl.Request(t.Context(), r)
	if err != nil {
		t.Fatalf("%T: %v", r, err)
	}
	return answer.(R)
}

func noTopicByMetadata(t *testing.T, b *Broker, cl *kgo.Client) bool {
	name := "new"
	r := kmsg.NewPtrMetadataRequest()
	r.AllowAutoTopicCreation, r.Topics = true, []kmsg.MetadataRequestTopic{{Topic: &name}}
	ask[*kmsg.MetadataResponse](t, cl, r)
	synctest.Wait()
	return b.services.Metadata.Image().Topic(name) == nil
}

// fetched begins a session in which all of partition 0 of the topic t is asked for.
func fetched(t *testing.T, b *Broker, cl *kgo.Client) *kmsg.FetchResponse {
	t.Helper()
	r := kmsg.NewPtrFetchRequest()
	r.ReplicaID, r.MaxBytes, r.SessionEpoch = -1, 1<<20, 0
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	r.Topics = []kmsg.FetchRequestTopic{{Topic: "t", TopicID: b.services.Metadata.Image().Topic("t").ID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return ask[*kmsg.FetchResponse](t, cl, r)
}

func TestSeenRunning(t *testing.T) {
	for _, row := range seenRunning {
		t.Run(row.set, func(t *testing.T) {
			for _, set := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					var settings []string
					if set {
						settings = []string{row.set}
					}
					b, _ := start(t, t.TempDir(), settings...)
					cl := client(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
					defer cl.Close()
					createTopic(t, cl, "t", 3, nil)
					for range 3 {
						if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: make([]byte, 1000)}).FirstErr(); err != nil {
							t.Fatal(err)
						}
					}
					if does := row.does(t, b, cl); does != set {
						t.Errorf("set %v: it is so %v", set, does)
					}
				})
			}
		})
	}
}

// heard is a request that reached a broker, and when.
type heard[R kmsg.Request] struct {
	request R
	at      time.Duration
}

// listen has the next broker of a cluster tell of requests of a kind, and do with them what then says.
func listen[R kmsg.Request](c *cluster, then func(call *api.Call, serve func())) <-chan heard[R] {
	told := make(chan heard[R], 100)
	c.intercept = func(call *api.Call, r kmsg.Request, serve func()) {
		if wanted, ok := r.(R); ok {
			told <- heard[R]{wanted, clock.System.Monotonic()}
			then(call, serve)
			return
		}
		serve()
	}
	return told
}

// TestFollowersFetchAsTold: what a follower asks its leader for is what replica.fetch.* say, also if they say 0, and it asks again when an
// answer has not come in replica.socket.timeout.ms and the first rest is over, a thirty-second of replica.fetch.backoff.ms.
func TestFollowersFetchAsTold(t *testing.T) {
	type told struct{ wait, least, most, partition, backoff int32 }
	for _, want := range []told{{301, 302, 303, 304, 3200}, {}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			requests := listen[*kmsg.FetchRequest](c, func(*api.Call, func()) {}) // no answer ever
			c.start(1, "offsets.topic.replication.factor=1")
			c.intercept = nil
			c.start(2, "offsets.topic.replication.factor=1", "replica.socket.timeout.ms=3050",
				fmt.Sprint("replica.fetch.wait.max.ms=", want.wait), fmt.Sprint("replica.fetch.min.bytes=", want.least),
				fmt.Sprint("replica.fetch.response.max.bytes=", want.most), fmt.Sprint("replica.fetch.max.bytes=", want.partition),
				fmt.Sprint("replica.fetch.backoff.ms=", want.backoff))
			c.assign("t", 1, 2)
			first, second := <-requests, <-requests
			f, rest := first.request, second.at-first.at-3050*ms
			got := told{f.MaxWaitMillis, f.MinBytes, f.MaxBytes, f.Topics[0].Partitions[0].PartitionMaxBytes, int32(32 * rest / ms)}
			if got != want {
				t.Errorf("asked for %+v, want %+v", got, want)
			}
		})
	}
}

// assign makes a topic with one partition.
func (c *cluster) assign(name string, replicas ...int32) {
	c.t.Helper()
	cl := c.client()
	defer cl.Close()
	r := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: replicas}}
	r.Topics = append(r.Topics, topic)
	if code := ask[*kmsg.CreateTopicsResponse](c.t, cl, r).Topics[0].ErrorCode; code != 0 {
		c.t.Fatal(kerr.ErrorForCode(code))
	}
}

// TestHandsOverAsTold: a broker that stops asks the controller to move its leaderships if controlled.shutdown.enable says so, as often and
// with such pauses as the other keys say.
func TestHandsOverAsTold(t *testing.T) {
	for _, c := range []struct {
		settings []string
		asks     int
		pause    time.Duration
	}{
		{[]string{"controlled.shutdown.enable=false"}, 0, 0},
		{[]string{"controlled.shutdown.max.retries=2", "controlled.shutdown.retry.backoff.ms=1234"}, 2, 1234 * ms},
		{nil, 3, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster := newCluster(t)
			told := listen[*kmsg.ControlledShutdownRequest](cluster, func(call *api.Call, serve func()) {
				call.Amend = func(r kmsg.Response) { r.(*kmsg.ControlledShutdownResponse).ErrorCode = kerr.UnknownServerError.Code }
				serve()
			})
			cluster.start(1, "offsets.topic.replication.factor=1")
			cluster.intercept = nil
			cluster.start(2, append(c.settings, "offsets.topic.replication.factor=1")...)
			cluster.stop(2)
			if len(told) != c.asks {
				t.Fatalf("%v: %d questions, want %d", c.settings, len(told), c.asks)
			}
			if c.asks > 1 {
				if first, second := <-told, <-told; second.at-first.at != c.pause {
					t.Errorf("%v: again after %v, want %v", c.settings, second.at-first.at, c.pause)
				}
			}
		})
	}
}

// seenElsewhere are the keys that other tests hold to what they do, by the test.
var seenElsewhere = map[string][2]string{
	"group.coordinator.rebalance.protocols": {"protocols_test.go", "TestConsumerProtocolIsSwitchedOff"},
	"listener.security.protocol.map":        {"config/listeners_test.go", "TestListeners"},
	"controlled.shutdown.enable":            {"wiring_running_test.go", "TestHandsOverAsTold"},
	"controlled.shutdown.max.retries":       {"wiring_running_test.go", "TestHandsOverAsTold"},
	"controlled.shutdown.retry.backoff.ms":  {"wiring_running_test.go", "TestHandsOverAsTold"},
	"replica.fetch.max.bytes":               {"wiring_running_test.go", "TestFollowersFetchAsTold"},
	"replica.fetch.backoff.ms":              {"wiring_running_test.go", "TestFollowersFetchAsTold"},
	"replica.fetch.min.bytes":               {"wiring_running_test.go", "TestFollowersFetchAsTold"},
	"replica.fetch.response.max.bytes":      {"wiring_running_test.go", "TestFollowersFetchAsTold"},
	"replica.fetch.wait.max.ms":             {"wiring_running_test.go", "TestFollowersFetchAsTold"},
}

// TestEveryHonouredKeyIsSeen: each broker key that the documentation calls honoured is in one of the lists.
func TestEveryHonouredKeyIsSeen(t *testing.T) {
	seen := map[string]bool{}
	for _, part := range wired {
		for _, row := range part.rows {
			seen[settingKey(row.set)] = true
		}
	}
	for _, row := range seenRunning {
		seen[settingKey(row.set)] = true
	}
	for key, test := range seenElsewhere {
		seen[key] = true
		if text, err := os.ReadFile(test[0]); err != nil || !strings.Contains(string(text), "func "+test[1]+"(") {
			t.Errorf("%s: there is no %s in %s: %v", key, test[1], test[0], err)
		}
	}
	var docs strings.Builder
	if err := config.Docs(&docs); err != nil {
		t.Fatal(err)
	}
	n := 0
	_, text, _ := strings.Cut(docs.String(), "### Broker keys")
	text, _, _ = strings.Cut(text, "\n### ")
	for line := range strings.Lines(text) {
		columns := strings.Split(line, " | ")
		if len(columns) < 7 || !strings.HasPrefix(line, "| `") {
			continue
		}
		switch key := strings.Trim(columns[0], "| `"); columns[len(columns)-3] {
		case "yes", "on ZooKeeper", "without ZooKeeper, or with gregor.extensions":
			if n++; !seen[key] {
				t.Errorf("nothing shows that %s is honoured", key)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d keys are honoured?", n)
	}
}

func settingKey(setting string) string {
	key, _, _ := strings.Cut(setting, "=")
	return key
}
