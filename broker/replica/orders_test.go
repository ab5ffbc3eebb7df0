package replica

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
)

func codes(r *kmsg.LeaderAndISRResponse) []int16 {
	var cs []int16
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			cs = append(cs, p.ErrorCode)
		}
	}
	return cs
}

func TestLeaderAndISR(t *testing.T) {
	f := newFixture(t)
	f.epoch = 5
	f.mustObey(f.order("t", idOf(1), 2, 3, self))
	stale := kerr.StaleControllerEpoch.Code
	notReplica := f.order("t", idOf(1), 1, 9, self)
	notReplica.TopicStates[0].PartitionStates[0].Replicas = []int32{7}
	for _, c := range []struct {
		name  string
		order *kmsg.LeaderAndISRRequest
		codes []int16
	}{
		{"same leader epoch", f.order("t", idOf(1), 2, 3, self), []int16{stale, stale}},
		{"older leader epoch", f.order("t", idOf(1), 1, 2, self), []int16{stale}},
		{"other topic id", f.order("t", idOf(2), 1, 4, self), []int16{kerr.InconsistentTopicID.Code}},
		{"not a replica", notReplica, []int16{kerr.UnknownTopicOrPartition.Code}},
		{"one more partition", f.order("t", idOf(1), 3, 3, self), []int16{stale, stale, 0}},
		{"new leader epoch", f.order("t", idOf(1), 1, 4, self), []int16{0}},
	} {
		if got := codes(f.LeaderAndISR(c.order, 0)); !slices.Equal(got, c.codes) {
			t.Errorf("%s: codes %v, want %v", c.name, got, c.codes)
		}
	}
	f.epoch = 4
	if r := f.LeaderAndISR(f.order("u", idOf(3), 1, 0, self), 0); r.ErrorCode != stale || f.find("u", 0) != nil {
		t.Errorf("an old controller's order: code %d", r.ErrorCode)
	}
	want := []string{"t-0 epoch 3 true", "t-1 epoch 3 true", "t-2 epoch 3 true", "t-0 epoch 4 true"}
	if !slices.Equal(f.led, want) {
		t.Errorf("told of leaderships %q, want %q", f.led, want)
	}
	if epoch, ok := f.find("t", 0).log.LatestEpoch(); !ok || epoch != 4 {
		t.Errorf("the log's latest epoch is %d", epoch)
	}
}

func TestFollowerServesNothing(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	r := f.order("t", idOf(1), 1, 1, 2, self)
	r.TopicStates[0].PartitionStates[0].Leader = 2
	f.mustObey(r)
	if err := f.put("t", 0, one(t, "v")).Err; !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("produce to a follower: %v", err)
	}
	if err := f.get(look(), from("t", 0, 0))[0].Err; !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("fetch from a follower: %v", err)
	}
	if want := []string{"t-0 epoch 0 true", "t-0 epoch 1 false"}; !slices.Equal(f.led, want) {
		t.Errorf("told of leaderships %q, want %q", f.led, want)
	}
}

func TestStopReplica(t *testing.T) {
	f := newFixture(t)
	f.mustObey(f.order("t", idOf(1), 1, 3, self))
	stop := func(epoch int32, remove bool) *kmsg.StopReplicaResponse {
		r := kmsg.NewPtrStopReplicaRequest()
		r.Version, r.ControllerEpoch = 4, f.epoch
		p := kmsg.NewStopReplicaRequestTopicPartitionState()
		p.LeaderEpoch, p.Delete = epoch, remove
		topic := kmsg.NewStopReplicaRequestTopic()
		topic.Topic, topic.PartitionStates = "t", []kmsg.StopReplicaRequestTopicPartitionState{p}
		r.Topics = append(r.Topics, topic)
		return f.StopReplica(r, 0)
	}
	if got := stop(2, true).Partitions[0].ErrorCode; got != kerr.FencedLeaderEpoch.Code {
		t.Errorf("an older leader epoch: code %d", got)
	}
	if got := stop(3, false).Partitions[0].ErrorCode; got != 0 || f.find("t", 0) == nil {
		t.Errorf("without deletion: code %d, held %v", got, f.find("t", 0) != nil)
	}
	f.epoch = -1
	if got := stop(3, true).ErrorCode; got != kerr.StaleControllerEpoch.Code {
		t.Errorf("an old controller: code %d", got)
	}
	f.epoch = 0
	if got := stop(epochDuringDelete, true).Partitions[0].ErrorCode; got != 0 || f.find("t", 0) != nil {
		t.Errorf("with deletion: code %d, held %v", got, f.find("t", 0) != nil)
	}
	if f.logs.Get(log.TopicPartition{Topic: "t"}) != nil {
		t.Error("the log is still there")
	}
	if got := stop(epochDuringDelete, true).Partitions[0].ErrorCode; got != 0 {
		t.Errorf("again: code %d", got)
	}
}

// TestMetadataIsAnOrder: a deposed controller does not say any more what clients are told.
func TestMetadataIsAnOrder(t *testing.T) {
	f := newFixture(t)
	applied := 0
	update := func(epoch int32) int16 {
		r := kmsg.NewPtrUpdateMetadataRequest()
		r.ControllerEpoch = epoch
		return f.UpdateMetadata(r, 0, func() { applied++ }).ErrorCode
	}
	f.epoch = 5
	f.lead("t", idOf(1), 1)
	stale := kerr.StaleControllerEpoch.Code
	for _, c := range []struct {
		epoch   int32
		code    int16
		applied int
	}{{5, 0, 1}, {4, stale, 1}, {6, 0, 2}, {5, stale, 2}, {6, 0, 3}} {
		if code := update(c.epoch); code != c.code || applied != c.applied {
			t.Errorf("epoch %d: code %d, %d applied", c.epoch, code, applied)
		}
	}
	f.epoch = 5
	if code := f.LeaderAndISR(f.order("t", idOf(1), 1, 9, self), 0).ErrorCode; code != stale {
		t.Errorf("after metadata of a newer controller: %d", code)
	}
}

// TestRecreation: a topic of the same name starts anew, and what belongs to the old one is refused.
func TestRecreation(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 2)
	for seq := range int32(3) {
		f.mustPut("t", 0, producerBatch(t, 7, seq, 0, "old", 1))
	}
	f.remove("t", 2)
	if err := f.put("t", 0, one(t, "v")).Err; !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("produce to a deleted topic: %v", err)
	}
	byID := from("t", 0, 0)
	byID.TopicID = idOf(1)
	if err := f.get(look(), byID)[0].Err; !errors.Is(err, kerr.UnknownTopicID) {
		t.Errorf("fetch of a deleted topic by id: %v", err)
	}
	f.lead("t", idOf(2), 1)
	if err := f.get(look(), byID)[0].Err; !errors.Is(err, kerr.InconsistentTopicID) {
		t.Errorf("fetch of the new topic by the old id: %v", err)
	}
	if err := f.get(look(), from("t", 1, 0))[0].Err; !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("fetch of a partition that the new topic lacks: %v", err)
	}
	if ps, err := f.Producers("t", 0); err != nil || len(ps) != 0 {
		t.Errorf("the new topic knows producers %v, %v", ps, err)
	}
	if r := f.mustPut("t", 0, producerBatch(t, 7, 0, 0, "new", 1)); r.BaseOffset != 0 {
		t.Errorf("the first record of the new topic got offset %d", r.BaseOffset)
	}
}

// TestFormerTopicsLog: the log of a topic that was deleted while this broker was away does not keep a new topic of that name from having
// a replica here; but only a replica that the controller calls new takes its place.
func TestFormerTopicsLog(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.elect(1)
		c.nodes[1].mustProduce("old")
		c.settle()
		c.restart(2)
		c.rejoin(2)
		r := c.state(2)
		r.TopicStates[0].TopicID = idOf(2)
		code := func() int16 {
			t.Helper()
			return c.nodes[2].LeaderAndISR(r, 0).Topics[0].Partitions[0].ErrorCode
		}
		if got := code(); got != kerr.InconsistentTopicID.Code {
			t.Errorf("one that is not new: %d", got)
		}
		if l := c.nodes[2].logs.Get(log.TopicPartition{Topic: "t"}); l == nil || l.Bounds().End != 1 {
			t.Error("the log is gone")
		}
		p := &r.TopicStates[0].PartitionStates[0]
		p.IsNew, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = true, 2, 0, []int32{2}, []int32{2}
		if got := code(); got != 0 {
			t.Errorf("a new one: %d", got)
		}
		if b := c.nodes[2].bounds(); b.End != 0 {
			t.Errorf("it has what the former topic had: %+v", b)
		}
		c.nodes[2].mustProduce("new")
	})
}
