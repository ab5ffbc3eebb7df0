package api

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/broker/telemetry"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	planeBroker      = 1
	planeListener    = "PLAINTEXT"
	planeUnconverted = "unconverted" // the topic that is not converted for old clients
)

// plane is what serves the data APIs: logs in memory, partitions, sessions, the table and the network layer over
// pipes, without a controller. Topics are made by the orders that a controller would give.
type plane struct {
	t        testing.TB
	services *Services
	configs  map[string]*log.Config
	dial     func() net.Conn
	topics   byte  // made so far
	brokers  int32 // in the metadata: a second one once it leads something
}

func newPlane(t testing.TB) *plane {
	t.Helper()
	snapshot, _, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem(1<<32, clock.System.Now)
	if err := fs.Mkdir("/logs"); err != nil {
		t.Fatal(err)
	}
	logs, err := log.OpenManager(context.Background(), log.Options{
		Dirs: []string{"/logs"}, FS: fs, Clock: clock.System, Logger: zap.NewNop(), BrokerID: planeBroker,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{t: t, configs: map[string]*log.Config{}}
	cache := metadata.NewCache()
	next := int64(1000)
	p.services = &Services{
		BrokerID: planeBroker, Embedded: true, Config: config.NewLive(snapshot), Metadata: cache, Logs: logs,
		Listeners:   Listeners{planeListener: {Host: "broker-1", Port: 9092}},
		Downconvert: func(topic string) bool { return topic != planeUnconverted },
		Features:    func() *controller.Finalised { return &controller.Finalised{} },
		Telemetry:   telemetry.New(telemetry.Options{Clock: clock.System, Logger: zap.NewNop(), MaxBytes: func() int { return 1 << 20 }}),
		Sessions:    fetchsession.NewCache(1000, clock.System), Clock: clock.System, Logger: zap.NewNop(),
		ProducerIDs: NewProducerIDs(func(done func(first, count int64, err error)) {
			next += 1000
			done(next, 1000, nil)
		}),
	}
	server, err := wire.New(wire.Config{Clock: clock.System, Logger: zap.NewNop(), Engine: "netloop"}, NewDispatcher(p.services))
	if err != nil {
		t.Fatal(err)
	}
	p.services.Replicas = replica.New(replica.Options{
		BrokerID: planeBroker, Logs: logs, Clock: clock.System, Logger: zap.NewNop(), Pool: server.Go,
		ConfigFor: p.configFor,
		Known:     func(topic string, i int32) bool { return cache.Image().Partition(topic, i) != nil },
	})
	p.dial = server.BindPipe(planeListener)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.services.Replicas.Close()
		if err := errors.Join(server.Close(), logs.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *plane) configFor(topic string) *log.Config {
	if c := p.configs[topic]; c != nil {
		return c
	}
	return log.DefaultConfig()
}

// configure gives a topic that does not exist yet a configuration.
func (p *plane) configure(topic string, change func(*log.Config)) {
	c := log.DefaultConfig()
	change(c)
	p.configs[topic] = c
}

// topic makes a topic that this broker leads, and returns its id.
func (p *plane) topic(name string, partitions int) log.TopicID {
	p.t.Helper()
	p.topics++
	id := log.TopicID{15: p.topics}
	order := kmsg.NewPtrLeaderAndISRRequest()
	order.Version = 7
	state := kmsg.NewLeaderAndISRRequestTopicState()
	state.Topic, state.TopicID = name, id
	for i := range partitions {
		ps := kmsg.NewLeaderAndISRRequestTopicPartition()
		ps.Partition, ps.Leader, ps.LeaderEpoch = int32(i), planeBroker, 0
		ps.ISR, ps.Replicas = []int32{planeBroker}, []int32{planeBroker}
		state.PartitionStates = append(state.PartitionStates, ps)
	}
	order.TopicStates = append(order.TopicStates, state)
	for _, t := range p.services.Replicas.LeaderAndISR(order, 0).Topics {
		for _, ps := range t.Partitions {
			if ps.ErrorCode != 0 {
				p.t.Fatalf("%s-%d: error %d", name, ps.Partition, ps.ErrorCode)
			}
		}
	}
	p.announce(name, id, partitions, planeBroker) // only now, as a controller does: who is named leader takes records
	return id
}

// announce puts a topic into the metadata.
func (p *plane) announce(name string, id log.TopicID, partitions int, leader int32) {
	update := kmsg.NewPtrUpdateMetadataRequest()
	update.ControllerID = planeBroker
	if leader == 2 {
		p.brokers = 2
	}
	for b := int32(planeBroker); b <= max(planeBroker, p.brokers); b++ {
		live := kmsg.NewUpdateMetadataRequestLiveBroker()
		live.ID = b
		live.Endpoints = []kmsg.UpdateMetadataRequestLiveBrokerEndpoint{{ListenerName: planeListener, Host: map[int32]string{1: "broker-1", 2: "broker-2"}[b], Port: 9092}}
		update.LiveBrokers = append(update.LiveBrokers, live)
	}
	state := kmsg.NewUpdateMetadataRequestTopicState()
	state.Topic, state.TopicID = name, id
	for i := range partitions {
		ps := kmsg.NewUpdateMetadataRequestTopicPartition()
		ps.Partition, ps.Leader = int32(i), leader
		if leader != planeBroker {
			ps.LeaderEpoch = 7
		}
		ps.ISR, ps.Replicas = []int32{leader}, []int32{leader}
		state.PartitionStates = append(state.PartitionStates, ps)
	}
	update.TopicStates = append(update.TopicStates, state)
	p.services.Metadata.Apply(update)
}

// delete carries out what a controller orders when a topic goes.
func (p *plane) delete(name string, partitions int) {
	id := p.services.Metadata.Image().Topic(name).ID
	p.announce(name, id, partitions, -2)
	stop := kmsg.NewPtrStopReplicaRequest()
	stop.Version = 4
	t := kmsg.NewStopReplicaRequestTopic()
	t.Topic = name
	for i := range partitions {
		ps := kmsg.NewStopReplicaRequestTopicPartitionState()
		ps.Partition, ps.LeaderEpoch, ps.Delete = int32(i), -2, true
		t.PartitionStates = append(t.PartitionStates, ps)
	}
	stop.Topics = append(stop.Topics, t)
	p.services.Replicas.StopReplica(stop, 0)
}

// wireClient speaks the protocol in the open: requests go out as they are, answers are read when asked for.
type wireClient struct {
	t    testing.TB
	conn net.Conn
	id   string
	corr int32
}

func (p *plane) client() *wireClient {
	c := &wireClient{t: p.t, conn: p.dial(), id: "test"}
	p.t.Cleanup(func() { c.conn.Close() })
	return c
}

func (c *wireClient) send(r kmsg.Request) {
	c.t.Helper()
	c.corr++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.id))
	if _, err := c.conn.Write(f.AppendRequest(nil, r, c.corr)); err != nil {
		c.t.Fatal(err)
	}
}

// frame reads the next answer; ok is false when the connection is closed instead.
func (c *wireClient) frame() (corr int32, body []byte, ok bool) {
	c.t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return 0, nil, false
	}
	body = make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		c.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(head[4:])), body, true
}

// answerTo reads the next answer, which must be that of the request sent last.
func answerTo[R kmsg.Response](c *wireClient, r kmsg.Request) R {
	c.t.Helper()
	corr, body, ok := c.frame()
	if !ok {
		c.t.Fatalf("the connection was closed instead of an answer to %T", r)
	}
	if corr != c.corr {
		c.t.Fatalf("an answer to request %d, want %d", corr, c.corr)
	}
	response := r.ResponseKind()
	response.SetVersion(r.GetVersion())
	if response.IsFlexible() {
		b := kbin.Reader{Src: body}
		kmsg.SkipTags(&b)
		body = b.Src
	}
	if err := response.ReadFrom(body); err != nil {
		c.t.Fatalf("%T v%d: %v", response, r.GetVersion(), err)
	}
	return response.(R)
}

func ask[R kmsg.Response](c *wireClient, r kmsg.Request) R {
	c.t.Helper()
	c.send(r)
	return answerTo[R](c, r)
}

// records is a record set as a client sends it, with one record per timestamp.
func records(t testing.TB, o record.BatchOptions, value string, timestamps ...int64) []byte {
	t.Helper()
	if o.ProducerID == 0 {
		o = o.NoProducer()
	}
	o.LeaderEpoch = -1
	recs := make([]record.Record, len(timestamps))
	for i, ts := range timestamps {
		recs[i] = record.Record{Offset: int64(i), Timestamp: ts, Key: []byte("k"), Value: []byte(value)}
	}
	b, err := record.Build(o, recs)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type to struct {
	topic     string
	partition int32
	records   []byte
}

func produceOf(version, acks int16, sets ...to) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = version, acks, 5000
	for _, s := range sets {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = s.partition, s.records
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.Partitions = s.topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}
	return r
}

// produce sends record sets with acks=-1 and returns the answers in their order.
func (c *wireClient) produce(version int16, sets ...to) []kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	var ps []kmsg.ProduceResponseTopicPartition
	for _, t := range ask[*kmsg.ProduceResponse](c, produceOf(version, -1, sets...)).Topics {
		ps = append(ps, t.Partitions...)
	}
	return ps
}

func (c *wireClient) mustProduce(topic string, partition int32, records []byte) {
	c.t.Helper()
	if p := c.produce(9, to{topic, partition, records})[0]; p.ErrorCode != 0 {
		c.t.Fatalf("produce to %s-%d: error %d", topic, partition, p.ErrorCode)
	}
}

type at struct {
	topic     string
	partition int32
	offset    int64
	maxBytes  int32
}

// fetchOf is a fetch that does not wait, outside of a session.
func fetchOf(version int16, wants ...at) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MinBytes, r.MaxBytes, r.SessionEpoch = version, 1, 50<<20, -1
	r.ReplicaID = -1
	for _, w := range wants {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = w.partition, w.offset, w.maxBytes
		if n := len(r.Topics); n > 0 && r.Topics[n-1].Topic == w.topic {
			r.Topics[n-1].Partitions = append(r.Topics[n-1].Partitions, p)
			continue
		}
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.Partitions = w.topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (c *wireClient) fetch(r *kmsg.FetchRequest) []kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	var ps []kmsg.FetchResponseTopicPartition
	for _, t := range ask[*kmsg.FetchResponse](c, r).Topics {
		ps = append(ps, t.Partitions...)
	}
	return ps
}

// end asks for a partition's log end.
func (c *wireClient) end(topic string, partition int32) int64 {
	c.t.Helper()
	return c.offset(5, topic, partition, replica.Latest).Offset
}

func (c *wireClient) offset(version int16, topic string, partition int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	return c.offsets(version, topic, partition, timestamp)[0]
}

// offsets asks for several timestamps of one partition in one request.
func (c *wireClient) offsets(version int16, topic string, partition int32, timestamps ...int64) []kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID = version, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, ts := range timestamps {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.MaxNumOffsets = partition, ts, 10
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return ask[*kmsg.ListOffsetsResponse](c, r).Topics[0].Partitions
}
