//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watchGone returns a channel that yields the time at which a node vanishes from ZooKeeper.
func watchGone(conn *zk.Conn, path string) (<-chan time.Time, error) {
	exists, _, events, err := conn.ExistsW(path)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("%s is not there", path)
	}
	gone := make(chan time.Time, 1)
	go func() {
		if e := <-events; e.Type == zk.EventNodeDeleted {
			gone <- time.Now()
		}
		close(gone)
	}()
	return gone, nil
}

// observe connects to the cluster's ZooKeeper, as one more client that only looks.
func (s *server) observe() (*zk.Conn, error) {
	conn, _, err := zk.Connect([]string{s.zookeeper.Addr}, 30*time.Second, zk.WithLogInfo(false))
	return conn, err
}

// controller returns the id of the broker that is the controller.
func controller(conn *zk.Conn) (int32, error) {
	text, _, err := conn.Get("/controller")
	if err != nil {
		return 0, err
	}
	var node struct {
		Brokerid int32 `json:"brokerid"`
	}
	err = json.Unmarshal(text, &node)
	return node.Brokerid, err
}

// awaitGone is when the node vanished.
func awaitGone(gone <-chan time.Time) (time.Time, error) {
	select {
	case at, ok := <-gone:
		if !ok {
			return at, errors.New("the observer lost ZooKeeper")
		}
		return at, nil
	case <-time.After(time.Minute):
		return time.Time{}, errors.New("the node of a killed broker did not vanish within a minute")
	}
}

// elected has every partition led by the first of its replicas again, after all of them have come back.
func elected(t *server, partitions int, topics ...string) error {
	admin, err := adminOf(t)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := awaitInSync(admin, partitions, topics...); err != nil {
		return err
	}
	set := kadm.TopicsSet{}
	for _, topic := range topics {
		for p := range int32(partitions / len(topics)) {
			set.Add(topic, p)
		}
	}
	results, err := admin.ElectLeaders(context.Background(), kadm.ElectPreferredReplica, set)
	if err != nil {
		return err
	}
	for _, byPartition := range results {
		for _, r := range byPartition {
			if r.Err != nil && !errors.Is(r.Err, kerr.ElectionNotNeeded) {
				return fmt.Errorf("elect %s-%d: %w", r.Topic, r.Partition, r.Err)
			}
		}
	}
	if err := awaitInSync(admin, partitions, topics...); err != nil {
		return err
	}
	for _, topic := range topics {
		for _, addr := range t.seeds() {
			if err := until(time.Minute, func() error { return preferred(addr, topic) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// preferred is an error unless a broker says that the first replica of each partition leads it. It carries out its orders before it is
// told the metadata.
func preferred(addr, topic string) error {
	state, err := stateOf(addr, topic)
	if err != nil {
		return err
	}
	for _, p := range state.Topics[0].Partitions {
		if p.Leader != p.Replicas[0] {
			return fmt.Errorf("%s-%d is led by %d, not %d", topic, p.Partition, p.Leader, p.Replicas[0])
		}
	}
	return nil
}

// killedLeader kills a broker that leads a third of the partitions and is not the controller, and takes the time from when its node
// vanishes until a record to each of those was acknowledged by all in-sync replicas. All of it is done once before, unmeasured.
type killedLeader struct{ partitions int }

func (k killedLeader) measure(b *bench, t *server) (sample, error) {
	if _, err := t.start(); err != nil {
		return nil, err
	}
	conn, err := t.observe()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := createTopic(t, benchTopic, k.partitions); err != nil {
		return nil, err
	}
	boss, err := controller(conn)
	if err != nil {
		return nil, err
	}
	victim := boss%clusterSize + 1
	if err := k.warm(t); err != nil {
		return nil, err
	}
	if _, err := k.kill(t, conn, victim); err != nil {
		return nil, fmt.Errorf("unmeasured: %w", err)
	}
	if _, err := t.member(victim).start(); err != nil {
		return nil, err
	}
	if err := elected(t, k.partitions, benchTopic); err != nil {
		return nil, err
	}
	if err := k.warm(t); err != nil {
		return nil, err
	}
	return k.kill(t, conn, victim)
}

// warm writes to every partition.
func (k killedLeader) warm(t *server) error {
	p := replay{record: 100, records: 1, partitions: k.partitions, conns: k.partitions, inflight: 2}
	_, err := p.send(t, encodeBatch(randomBytes(p.record), 1), 100, 0)
	return err
}

func (k killedLeader) kill(t *server, conn *zk.Conn, victim int32) (sample, error) {
	probes, err := probesOf(t, victim)
	if err != nil {
		return nil, err
	}
	gone, err := watchGone(conn, "/brokers/ids/"+strconv.Itoa(int(victim)))
	if err != nil {
		return nil, err
	}
	m := startMeter(t.others(victim))
	t.member(victim).kill()
	acked := make([]time.Time, len(probes))
	errs := make([]error, len(probes))
	var all sync.WaitGroup
	for i, p := range probes {
		all.Go(func() { acked[i], errs[i] = p.run() })
	}
	at, err := awaitGone(gone)
	all.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	s := m.stop(0)
	s["all_acked_ms"] = slices.MaxFunc(acked, time.Time.Compare).Sub(at).Seconds() * 1000
	return s, nil
}

// failoverProbe writes one record to each of some partitions that are to get the same new leader, again and again until each is
// acknowledged.
type failoverProbe struct {
	addr       string
	partitions []int32
}

// probesOf returns probes for the partitions that a broker leads: a few for each of the brokers that come after it.
func probesOf(t *server, victim int32) ([]*failoverProbe, error) {
	const each = 4
	state, err := stateOf(t.others(victim).seeds()[0], benchTopic)
	if err != nil {
		return nil, err
	}
	byHeir := map[int32][]int32{}
	for _, p := range state.Topics[0].Partitions {
		if p.Leader == victim {
			heir := p.Replicas[slices.IndexFunc(p.Replicas, func(id int32) bool { return id != victim })]
			byHeir[heir] = append(byHeir[heir], p.Partition)
		}
	}
	var probes []*failoverProbe
	for heir, partitions := range byHeir {
		for i := range min(each, len(partitions)) {
			p := &failoverProbe{addr: t.member(heir).addr}
			for j := i; j < len(partitions); j += each {
				p.partitions = append(p.partitions, partitions[j])
			}
			probes = append(probes, p)
		}
	}
	if len(probes) == 0 {
		return nil, fmt.Errorf("broker %d leads nothing", victim)
	}
	return probes, nil
}

// run returns when the last partition was acknowledged.
func (p *failoverProbe) run() (time.Time, error) {
	c, err := dial(p.addr)
	if err != nil {
		return time.Time{}, err
	}
	defer c.Close()
	batch := encodeBatch(randomBytes(100), 1)
	left := slices.Clone(p.partitions)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		refused, err := c.produceEach(benchTopic, left, batch)
		if err != nil {
			return time.Time{}, err
		}
		if left = refused; len(left) == 0 {
			return time.Now(), nil
		}
		if time.Since(began) > startLimit {
			return time.Time{}, fmt.Errorf("%s still refuses %v", p.addr, left)
		}
	}
}

// produceEach writes a batch to each of the partitions and returns those that refused it.
func (c *rawConn) produceEach(topic string, partitions []int32, batch []byte) (refused []int32, err error) {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = produceVersion, -1, 30_000
	t := kmsg.ProduceRequestTopic{Topic: topic}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p, Records: batch})
	}
	request.Topics = []kmsg.ProduceRequestTopic{t}
	response := kmsg.NewPtrProduceResponse()
	if err := c.call(request, response); err != nil {
		return nil, err
	}
	for _, p := range response.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			refused = append(refused, p.Partition)
		}
	}
	return refused, nil
}
