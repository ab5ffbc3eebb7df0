package metadata

import (
	"context"
	"slices"
	"testing"

	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func update(topics ...kmsg.UpdateMetadataRequestTopicState) *kmsg.UpdateMetadataRequest {
	r := kmsg.NewPtrUpdateMetadataRequest()
	r.ControllerID = 1
	r.LiveBrokers = []kmsg.UpdateMetadataRequestLiveBroker{{
		ID: 1, Endpoints: []kmsg.UpdateMetadataRequestLiveBrokerEndpoint{{ListenerName: "PLAINTEXT", Host: "h", Port: 9}},
	}}
	r.TopicStates = topics
	return r
}

func topicState(name string, id byte, partitions ...kmsg.UpdateMetadataRequestTopicPartition) kmsg.UpdateMetadataRequestTopicState {
	return kmsg.UpdateMetadataRequestTopicState{Topic: name, TopicID: [16]byte{id}, PartitionStates: partitions}
}

func led(partition, leader, epoch int32) kmsg.UpdateMetadataRequestTopicPartition {
	return kmsg.UpdateMetadataRequestTopicPartition{
		Partition: partition, Leader: leader, LeaderEpoch: epoch, Replicas: []int32{1}, ISR: []int32{1},
	}
}

func TestApplyMergesPartitionsAndReplacesBrokers(t *testing.T) {
	c := NewCache()
	c.Apply(update(topicState("t", 7, led(1, 1, 0))))
	before := c.Image()
	c.Apply(update(topicState("t", 7, led(0, 1, 4)), topicState("a", 8, led(0, 1, 0))))
	now := c.Image()
	if before.Partition("t", 0) != nil {
		t.Error("an older image changed under its reader, or shows a partition it was never told of")
	}
	if p := now.Partition("t", 0); p == nil || p.LeaderEpoch != 4 {
		t.Errorf("partition 0 is %+v, want epoch 4", p)
	}
	if now.Partition("t", 1) == nil || now.Partition("t", 2) != nil || now.Partition("t", -1) != nil {
		t.Error("partition 1 must stay, 2 and -1 must not exist")
	}
	if got := now.TopicNames(); !slices.Equal(got, []string{"a", "t"}) {
		t.Errorf("topics %v", got)
	}
	if b := now.Broker(1); b == nil || b.Endpoints["PLAINTEXT"].Port != 9 || now.Broker(2) != nil {
		t.Errorf("broker 1 is %+v", b)
	}
}

func TestApplyDeletesAndRecreates(t *testing.T) {
	c := NewCache()
	c.Apply(update(topicState("t", 7, led(0, 1, 5), led(1, 1, 5))))
	if gone := c.Apply(update(topicState("t", 9, led(0, leaderDuringDelete, 0)))); gone != nil {
		t.Errorf("deleting another topic of that name removed %v", gone)
	}
	gone := c.Apply(update(topicState("t", 8, led(0, 1, 0))))
	if len(gone) != 1 || gone[0].ID != (log.TopicID{7}) {
		t.Errorf("a new topic of the same name must replace the old one, got %v", gone)
	}
	if c.Image().Partition("t", 1) != nil || c.Image().TopicByID(log.TopicID{7}) != nil {
		t.Error("the old topic's partitions or id survived")
	}
	gone = c.Apply(update(topicState("t", 8, led(0, leaderDuringDelete, 0))))
	if len(gone) != 1 || c.Image().Topic("t") != nil || c.Image().TopicByID(log.TopicID{8}) != nil {
		t.Errorf("the topic was not deleted: %v", gone)
	}
}

func TestAwaitSeesTheChange(t *testing.T) {
	c := NewCache()
	ended := make(chan error, 1)
	go func() {
		ended <- c.Await(t.Context(), func(i *Image) bool { return i.Topic("t") != nil })
	}()
	c.Apply(update(topicState("other", 1, led(0, 1, 0))))
	c.Apply(update(topicState("t", 2, led(0, 1, 0))))
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Await(ctx, func(*Image) bool { return false }); err == nil {
		t.Error("Await outlived its context")
	}
}

// TestSweep: after a new registration topics go that nobody names any more, but only then, and only once everything was told.
func TestSweep(t *testing.T) {
	c := NewCache()
	registered := func(epoch int64) bool { return c.Registered(epoch) }
	if registered(5) || registered(5) || registered(-1) {
		t.Error("the first registration has nothing to sweep")
	}
	c.Apply(update(topicState("stays", 1, led(0, 1, 0)), topicState("goes", 2, led(0, 1, 0))))
	if gone := c.Sweep(5); gone != nil {
		t.Errorf("%v went within a registration", gone)
	}
	if !registered(7) || registered(7) || registered(6) {
		t.Error("a later registration is another, once")
	}
	c.Apply(update(topicState("stays", 1, led(0, 1, 0)), topicState("new", 3, led(0, 1, 0))))
	c.Apply(update(topicState("goes", 4, led(0, leaderDuringDelete, 0)))) // another one of its name, that came and went
	if c.Image().Topic("goes") == nil {
		t.Error("it went before everything was told")
	}
	if gone := c.Sweep(5); gone != nil {
		t.Errorf("%v went by the sweep of an older registration", gone)
	}
	if gone := c.Sweep(7); !slices.Equal(gone, []string{"goes"}) {
		t.Errorf("%v went", gone)
	}
	i := c.Image()
	if i.Topic("goes") != nil || i.TopicByID(log.TopicID{2}) != nil || i.Topic("stays") == nil || i.Topic("new") == nil || i.Broker(1) == nil {
		t.Errorf("left are %v", i.TopicNames())
	}
}
