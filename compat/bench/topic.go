//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// perRequest keeps requests within what a KRaft controller takes: 10,000 metadata records for one request.
const perRequest = 5000

func adminOf(t *server) (*kadm.Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(t.seeds()...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(300_000)
	return admin, nil
}

// until calls check again and again until it returns nil or the limit has passed. A check that takes long is called less often, so that
// who is measured has more to do than to answer.
func until(limit time.Duration, check func() error) error {
	const shortest, longest = 5 * time.Millisecond, 500 * time.Millisecond
	for began := time.Now(); ; {
		asked := time.Now()
		err := check()
		if err == nil || time.Since(began) > limit {
			return err
		}
		time.Sleep(min(max(3*time.Since(asked), shortest), longest))
	}
}

// createTopic makes an empty topic and returns once every partition is served. Its files go soon after it is deleted.
func createTopic(t *server, topic string, partitions int) error {
	ctx := context.Background()
	admin, err := adminOf(t)
	if err != nil {
		return err
	}
	defer admin.Close()
	configs := map[string]*string{"file.delete.delay.ms": kadm.StringPtr("1000")}
	err = until(time.Minute, func() error { // one of that name may still be on its way out
		_, err := admin.CreateTopic(ctx, int32(min(partitions, perRequest)), t.replicas(), configs, topic)
		return err
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", topic, err)
	}
	for n := perRequest; n < partitions; {
		n = min(n+perRequest, partitions)
		if _, err := admin.UpdatePartitions(ctx, n, topic); err != nil {
			return fmt.Errorf("grow %s: %w", topic, err)
		}
	}
	if err := awaitServed(admin, topic, partitions); err != nil || t.replicas() == 1 {
		return err
	}
	return awaitInSync(admin, partitions, topic)
}

// awaitInSync waits until the topics have so many partitions together, and all replicas of each are in sync.
func awaitInSync(admin *kadm.Client, partitions int, names ...string) error {
	return until(startLimit, func() error {
		list, err := admin.ListTopics(context.Background(), names...)
		if err != nil {
			return err
		}
		n := 0
		for _, topic := range list {
			for _, p := range topic.Partitions {
				if len(p.ISR) != len(p.Replicas) || p.Leader < 0 {
					return fmt.Errorf("%s-%d has leader %d, in sync %v of %v", topic.Topic, p.Partition, p.Leader, p.ISR, p.Replicas)
				}
				n++
			}
		}
		if n != partitions {
			return fmt.Errorf("%d of %d partitions are known", n, partitions)
		}
		return nil
	})
}

// awaitServed waits until the broker answers for every partition: Metadata alone may name a leader that still refuses.
func awaitServed(admin *kadm.Client, topic string, partitions int) error {
	return until(startLimit, func() error {
		offsets, err := admin.ListEndOffsets(context.Background(), topic)
		if err == nil {
			err = offsets.Error()
		}
		if n := len(offsets[topic]); err == nil && n != partitions {
			err = fmt.Errorf("%d of %d partitions of %s are served", n, partitions, topic)
		}
		return err
	})
}

// deleteTopic deletes a topic and waits until the broker no longer knows it.
func deleteTopic(t *server, topic string) error {
	ctx := context.Background()
	admin, err := adminOf(t)
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.DeleteTopic(ctx, topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("delete %s: %w", topic, err)
	}
	return until(time.Minute, func() error {
		topics, err := admin.ListTopics(ctx, topic)
		if err == nil && !errors.Is(topics[topic].Err, kerr.UnknownTopicOrPartition) {
			err = fmt.Errorf("%s is still there", topic)
		}
		return err
	})
}

// endOffsets returns the end offsets of a topic's partitions.
func endOffsets(t *server, topic string) (map[int32]int64, error) {
	admin, err := adminOf(t)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	listed, err := admin.ListEndOffsets(context.Background(), topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w", err)
	}
	ends := map[int32]int64{}
	for _, o := range listed[topic] {
		ends[o.Partition] = o.Offset
	}
	return ends, nil
}
