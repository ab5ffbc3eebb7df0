package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/peer"
	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/broker/replica/fetcher"
	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/gregor-broker/gregor/wire/frame"
)

// cluster is some brokers' managers, connected by pipes, and a controller that writes down ISRs. One topic, "t", with
// one partition on all of them.
type cluster struct {
	t     *testing.T
	nodes map[int32]*node
	racks map[int32]string

	mu struct {
		sync.Mutex
		cut       map[[2]int32]bool // pairs that cannot reach each other; the controller is 0
		conns     map[net.Conn][2]int32
		leader    int32
		epoch     int32 // leader epoch
		version   int32 // partition epoch
		isr       []int32
		proposals int
		offline   int32 // has no replica to serve
		adding    []int32
		added     map[int32][2]int // bytes that came for, and went to, a replica that is being added, by broker
	}
}

// node is one broker.
type node struct {
	*fixture
	cluster  *cluster
	id       int32
	fs       *vfs.Mem
	logs     *log.Manager
	sessions *fetchsession.Cache
	serving  sync.WaitGroup
	failed   chan string // what DirFailed was told
}

const clusterLag = 30 * time.Second

func newCluster(t *testing.T, n int32) *cluster {
	t.Helper()
	c := &cluster{t: t, nodes: map[int32]*node{}, racks: map[int32]string{}}
	c.mu.cut, c.mu.conns = map[[2]int32]bool{}, map[net.Conn][2]int32{}
	for id := int32(1); id <= n; id++ {
		c.nodes[id] = c.newNode(id, c.disk(1<<32))
		c.mu.isr = append(c.mu.isr, id)
	}
	t.Cleanup(c.close)
	return c
}

func (c *cluster) disk(capacity int64) *vfs.Mem {
	fs := vfs.NewMem(capacity, clock.System.Now)
	if err := fs.Mkdir("/logs"); err != nil {
		c.t.Fatal(err)
	}
	return fs
}

func (c *cluster) newNode(id int32, fs *vfs.Mem) *node {
	logger := zap.NewNop()
	if testing.Verbose() {
		logger = zaptest.NewLogger(c.t).With(zap.Int32("self", id))
	}
	logs, err := log.OpenManager(context.Background(), log.Options{
		Dirs: []string{"/logs"}, FS: fs, Clock: clock.System, Logger: logger, BrokerID: id, ClusterID: "c",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n := &node{
		fixture: &fixture{t: c.t, configs: map[string]*log.Config{}, minISR: map[string]int{}}, cluster: c, id: id, fs: fs, logs: logs,
		sessions: fetchsession.NewCache(100, clock.System), failed: make(chan string, 1),
	}
	n.pool.Add(1) // so that the last to go is end
	n.Manager = New(Options{
		BrokerID: id, Logs: logs, Clock: clock.System, Logger: logger,
		Pool:      func(fn func()) { n.pool.Go(fn) },
		ConfigFor: n.configFor, MinISR: func(topic string) int { return max(1, n.minISR[topic]) },
		Peers: n.peer, BrokerEpoch: func() int64 { return 100 + int64(id) },
		Online: func(broker int32, _ log.TopicPartition) bool { return !c.isCut(broker, 0) && !c.isOffline(broker) },
		OnReplicated: func(bytes int, added bool) {
			if added {
				c.count(id, bytes, 0)
			}
		},
		AlterPartition: n.alterPartition, ReplicaLagMax: clusterLag, Fetchers: 2,
		DirFailed:   func(dir string, left int) { n.failed <- fmt.Sprintf("%s, %d left", dir, left) },
		NearReplica: SameRack(func(broker int32) string { return c.racks[broker] }),
	})
	return n
}

// count counts bytes that came for, and went to, a replica that is being added.
func (c *cluster) count(id int32, in, out int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.added == nil {
		c.mu.added = map[int32][2]int{}
	}
	sum := c.mu.added[id]
	c.mu.added[id] = [2]int{sum[0] + in, sum[1] + out}
}

func (c *cluster) close() {
	for id, n := range c.nodes {
		n.Manager.Close()
		c.isolate(id)
	}
	for _, n := range c.nodes {
		n.end()
	}
}

func (n *node) end() {
	n.serving.Wait()
	n.pool.Done()
	n.pool.Wait()
	if err := n.logs.Close(context.Background()); err != nil {
		n.t.Errorf("closing the logs of %d: %v", n.id, err)
	}
}

// restart kills a node, which is cut off then, and starts it again with what was on its disk.
func (c *cluster) restart(id int32) { c.restartOn(id, c.nodes[id].fs.Kill) }

// restartOn is restart on the disk that is there then.
func (c *cluster) restartOn(id int32, disk func() *vfs.Mem) {
	old := c.nodes[id]
	c.isolate(id)
	found := disk()
	old.Manager.Close()
	old.end()
	n := c.newNode(id, found)
	n.minISR = old.minISR
	c.mu.Lock()
	c.nodes[id] = n
	c.mu.Unlock()
}

func (c *cluster) isOffline(id int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.offline == id
}

func (c *cluster) setOffline(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.offline = id
}

func pair(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

func (c *cluster) isCut(a, b int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.cut[pair(a, b)]
}

// isolate cuts a node off the others and the controller.
func (c *cluster) isolate(id int32) {
	for other := int32(0); other <= int32(len(c.nodes)); other++ {
		if other != id {
			c.cut(id, other)
		}
	}
}

func (c *cluster) cut(a, b int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cut[pair(a, b)] = true
	for conn, between := range c.mu.conns {
		if between == pair(a, b) {
			_ = conn.Close()
		}
	}
}

// mend undoes cut.
func (c *cluster) mend(a, b int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.cut, pair(a, b))
}

func (c *cluster) rejoin(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.mu.cut {
		if p[0] == id || p[1] == id {
			delete(c.mu.cut, p)
		}
	}
}

// peer connects to another node.
func (n *node) peer(broker int32, clientID string) fetcher.Client {
	return peer.New(peer.Options{
		ClientID: clientID, RequestTimeout: 10 * time.Second, Clock: clock.System,
		Dial: func(context.Context) (net.Conn, error) {
			c := n.cluster
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.mu.cut[pair(n.id, broker)] {
				return nil, errors.New("no route")
			}
			ours, theirs := net.Pipe()
			c.mu.conns[ours], c.mu.conns[theirs] = pair(n.id, broker), pair(n.id, broker)
			other := c.nodes[broker]
			other.serving.Go(func() { other.serve(theirs) })
			return ours, nil
		},
	})
}

// serve answers a follower.
func (n *node) serve(conn net.Conn) {
	defer conn.Close()
	var prefix [4]byte
	for {
		if _, err := io.ReadFull(conn, prefix[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(prefix[:]))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		h, rest, err := frame.ParseHeader(body)
		if err != nil {
			n.t.Errorf("a request that cannot be parsed: %v", err)
			return
		}
		r := kmsg.RequestForKey(h.Key)
		r.SetVersion(h.Version)
		if err := r.ReadFrom(rest); err != nil {
			n.t.Errorf("a request that cannot be decoded: %v", err)
			return
		}
		var response kmsg.Response
		switch r := r.(type) {
		case *kmsg.FetchRequest:
			response = n.fetch(r)
		case *kmsg.ListOffsetsRequest:
			response = n.listOffsets(r)
		}
		response.SetVersion(h.Version)
		out := frame.AppendResponseHeader(make([]byte, 4), h.Key, h.Version, h.CorrelationID)
		out = response.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func (n *node) fetch(r *kmsg.FetchRequest) *kmsg.FetchResponse {
	response := kmsg.NewPtrFetchResponse()
	q := &fetchsession.Request{SessionID: r.SessionID, Epoch: r.SessionEpoch, ByID: true, Follower: true, Changes: new(purgatory.List)}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			q.Partitions = append(q.Partitions, fetchsession.Partition{
				Key: fetchsession.Key{ID: t.TopicID, Partition: p.Partition}, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
				LastFetchedEpoch: p.LastFetchedEpoch, MaxBytes: p.PartitionMaxBytes, FetchOffset: p.FetchOffset, LogStartOffset: p.LogStartOffset,
			})
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, p := range t.Partitions {
			q.Forgotten = append(q.Forgotten, fetchsession.Key{ID: t.TopicID, Partition: p})
		}
	}
	x, code := n.sessions.Open(q)
	if response.ErrorCode = code; code != 0 {
		return response
	}
	var entries []FetchEntry
	more := func() {
		for _, w := range x.Partitions()[len(entries):] {
			e := FetchEntry{
				Topic: "t", TopicID: w.ID, Partition: w.Partition, CurrentLeaderEpoch: w.CurrentLeaderEpoch, LastFetchedEpoch: w.LastFetchedEpoch,
				MaxBytes: int(w.MaxBytes), Offset: w.FetchOffset, LogStart: w.LogStartOffset,
			}
			if x.Standing() {
				e.Place = x.Place(len(entries))
			}
			entries = append(entries, e)
		}
	}
	more()
	params := FetchParams{
		ReplicaID: r.ReplicaState.ID, MaxWait: time.Duration(r.MaxWaitMillis) * time.Millisecond, MinBytes: int(r.MinBytes), MaxBytes: int(r.MaxBytes),
	}
	if x.Standing() {
		params.Standing = &Standing{Changes: x.Changes().(*purgatory.List), Looked: x.Looked, More: func() ([]FetchEntry, []int) {
			touched := x.More()
			more()
			return entries, touched
		}}
	}
	answered := make(chan []FetchResult, 1)
	n.Manager.Fetch(params, entries, func(rs []FetchResult) { answered <- rs })
	results := <-answered
	wanted := x.Partitions()
	told := make([]fetchsession.Result, len(results))
	for i := range results {
		f := &results[i]
		if f.Added {
			n.cluster.count(n.id, 0, f.Records.Size())
		}
		told[i] = fetchsession.Result{
			RecordBytes: f.Records.Size(), HighWatermark: f.HighWatermark, LogStartOffset: f.LogStartOffset, Code: errcode.Of(f.Err), Always: f.Diverging != nil,
			Settled: f.Settled,
		}
	}
	response.SessionID, response.ErrorCode = x.Finish(told)
	for i := range results {
		f := &results[i]
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode, p.HighWatermark, p.LogStartOffset = wanted[i].Partition, told[i].Code, f.HighWatermark, f.LogStartOffset
		p.RecordBatches = contents(n.t, f)
		if f.Diverging != nil {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = f.Diverging.Epoch, f.Diverging.End
		}
		if !told[i].Omit {
			response.Topics = append(response.Topics, kmsg.FetchResponseTopic{TopicID: wanted[i].ID, Partitions: []kmsg.FetchResponseTopicPartition{p}})
		}
	}
	return response
}

// contents copies the records of a result, and releases them.
func contents(t testing.TB, r *FetchResult) []byte {
	if r.Records.File == nil {
		return r.Records.Bytes
	}
	defer r.Records.File.Release()
	buf := make([]byte, r.Records.Len)
	if _, err := r.Records.File.ReadAt(buf, r.Records.Pos); err != nil && err != io.EOF {
		t.Errorf("reading a result: %v", err)
	}
	return buf
}

func (n *node) listOffsets(r *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	response := kmsg.NewPtrListOffsetsResponse()
	for _, rt := range r.Topics {
		for _, rp := range rt.Partitions {
			o, err := n.Offset(&OffsetQuery{
				Topic: rt.Topic, Partition: rp.Partition, Timestamp: rp.Timestamp, CurrentLeaderEpoch: rp.CurrentLeaderEpoch, ReplicaID: r.ReplicaID,
			})
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Offset, p.ErrorCode = rp.Partition, o.Offset, errcode.Of(err)
			response.Topics = append(response.Topics, kmsg.ListOffsetsResponseTopic{Topic: rt.Topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}})
		}
	}
	return response
}

// alterPartition is the controller's part: it writes down what builds on the newest state.
func (n *node) alterPartition(p insync.Proposal, done func(insync.Outcome)) {
	c := n.cluster
	n.pool.Go(func() {
		if c.isCut(n.id, 0) {
			return // it never arrives
		}
		c.mu.Lock()
		c.mu.proposals++
		o := insync.Outcome{}
		switch {
		case p.LeaderEpoch < c.mu.epoch:
			o.Code = kerr.FencedLeaderEpoch.Code
		case p.PartitionEpoch < c.mu.version:
			o.Code = kerr.InvalidUpdateVersion.Code
		case slices.ContainsFunc(p.ISR, func(id int32) bool { return c.mu.cut[pair(id, 0)] }):
			o.Code = kerr.IneligibleReplica.Code
		default:
			c.mu.isr = p.ISR
			c.mu.version++
			o = insync.Outcome{LeaderEpoch: c.mu.epoch, PartitionEpoch: c.mu.version, ISR: p.ISR}
		}
		c.mu.Unlock()
		done(o)
	})
}

// elect makes a broker the leader of a new epoch, and tells all whom the controller reaches. isr is the new ISR; none
// means as it is.
func (c *cluster) elect(leader int32, isr ...int32) {
	c.t.Helper()
	c.mu.Lock()
	c.mu.leader = leader
	c.mu.epoch++
	c.mu.version++
	if len(isr) > 0 {
		c.mu.isr = isr
	}
	c.mu.Unlock()
	for id := range c.nodes {
		c.tell(id)
	}
}

// tell sends a node the state of the partition.
func (c *cluster) tell(id int32) {
	c.t.Helper()
	if !c.isCut(id, 0) {
		c.nodes[id].mustObey(c.state(id))
	}
}

// state is the order that tells a node the state of the partition.
func (c *cluster) state(id int32) *kmsg.LeaderAndISRRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.nodes[id].order("t", idOf(1), 1, c.mu.epoch, c.mu.isr...)
	p := &r.TopicStates[0].PartitionStates[0]
	p.Leader, p.ZKVersion, p.Replicas = c.mu.leader, c.mu.version, nil
	p.AddingReplicas = c.mu.adding
	for n := int32(1); n <= int32(len(c.nodes)); n++ {
		p.Replicas = append(p.Replicas, n)
	}
	return r
}

func (c *cluster) isr() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.mu.isr))
}

// produce sends values with acks=all and returns where the answer will come.
func (n *node) produce(timeout time.Duration, value string) <-chan ProduceResult {
	answered := make(chan ProduceResult, 1)
	n.Produce(ProduceParams{Version: 11, Acks: AcksAll, Timeout: timeout}, []ProduceEntry{{Topic: "t", Records: one(n.t, value)}},
		func(rs []ProduceResult) { answered <- rs[0] })
	return answered
}

func (n *node) mustProduce(value string) {
	n.t.Helper()
	if r := <-n.produce(time.Minute, value); r.Err != nil {
		n.t.Fatalf("produce to %d: %v", n.id, r.Err)
	}
}

// bytes is everything in a node's log.
func (n *node) bytes() []byte {
	n.t.Helper()
	l := n.find("t", 0).log
	b := l.Bounds()
	if b.Start == b.End {
		return nil
	}
	r, err := l.Read(b.Start, 1<<30, log.LogEnd, true)
	if err != nil {
		n.t.Fatal(err)
	}
	return contents(n.t, &FetchResult{Records: r.Part})
}

func (n *node) bounds() log.Bounds { return n.find("t", 0).log.Bounds() }

// settle waits until all followers have what their leader has, and know its high watermark.
func (c *cluster) settle() { sleep(3 * time.Second) }

// same checks that all nodes have the same log.
func (c *cluster) same() {
	c.t.Helper()
	want := c.nodes[1].bytes()
	for id, n := range c.nodes {
		if got := n.bytes(); !bytes.Equal(got, want) || n.bounds() != c.nodes[1].bounds() {
			c.t.Errorf("the log of %d has %d bytes, %+v; that of 1 has %d, %+v", id, len(got), n.bounds(), len(want), c.nodes[1].bounds())
		}
	}
}

// inCluster runs a test with n brokers on virtual time.
func inCluster(t *testing.T, n int32, do func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) { do(newCluster(t, n)) })
}

func value(i int) string { return fmt.Sprintf("value %d", i) }
