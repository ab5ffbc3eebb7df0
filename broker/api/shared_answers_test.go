package api

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataRequests ask in every version for everything, and for two topics, one of which is large.
func metadataRequests() (all []*kmsg.MetadataRequest) {
	for version := int16(0); version <= metadataAPI.Kafka4.Max; version++ {
		large, small := "large", "small"
		named := kmsg.NewPtrMetadataRequest()
		named.Topics = []kmsg.MetadataRequestTopic{{Topic: &small}, {Topic: &large}}
		named.IncludeTopicAuthorizedOperations = true
		everything := kmsg.NewPtrMetadataRequest()
		if version == 0 {
			everything.Topics = []kmsg.MetadataRequestTopic{}
		}
		for _, r := range []*kmsg.MetadataRequest{named, everything} {
			r.Version = version
			all = append(all, r)
		}
	}
	return all
}

func (c *wireClient) rawAnswer(r kmsg.Request) []byte {
	c.t.Helper()
	c.send(r)
	corr, body, ok := c.frame()
	if !ok || corr != c.corr {
		c.t.Fatalf("request %d is answered as %d, connected: %v", c.corr, corr, ok)
	}
	return body
}

// TestSharedAnswers: a large answer to Metadata is the same to the byte whether it is made for one client or shared.
func TestSharedAnswers(t *testing.T) {
	shared, plain := newPlane(t), newPlane(t)
	plain.services.Intercept = func(_ *Call, _ kmsg.Request, serve func()) { serve() } // so that nothing is shared
	var clients [2]*wireClient
	for i, p := range []*plane{shared, plain} {
		p.announce("large", log.TopicID{1}, 2*sharedPartitions, planeBroker)
		p.announce("small", log.TopicID{2}, 1, 2)
		clients[i] = p.client()
	}
	for _, r := range metadataRequests() {
		first := clients[0].rawAnswer(r)
		if want := clients[1].rawAnswer(r); !bytes.Equal(first, want) {
			t.Fatalf("v%d: %d bytes, want %d:\n%x\n%x", r.Version, len(first), len(want), first, want)
		}
		if again := clients[0].rawAnswer(r); !bytes.Equal(again, first) {
			t.Errorf("v%d: asked again, the answer differs", r.Version)
		}
	}
	if n, bytes := len(shared.services.shared.answers), shared.services.shared.bytes; n != len(metadataRequests()) || bytes == 0 {
		t.Errorf("%d answers of %d bytes are kept, want one for each of %d requests", n, bytes, len(metadataRequests()))
	}
	if n := len(plain.services.shared.answers); n != 0 {
		t.Errorf("%d answers are shared although each may be changed", n)
	}
}

// TestSharedAnswersFollowTheImage: what has changed is told at once, and no answer of before is kept.
func TestSharedAnswersFollowTheImage(t *testing.T) {
	p := newPlane(t)
	p.announce("large", log.TopicID{1}, 2*sharedPartitions, planeBroker)
	c := p.client()
	r := metadataOfAll()
	for _, leader := range []int32{planeBroker, 2, planeBroker} {
		p.announce("large", log.TopicID{1}, 2*sharedPartitions, leader)
		for range 2 {
			for _, got := range ask[*kmsg.MetadataResponse](c, r).Topics[0].Partitions {
				if got.Leader != leader {
					t.Fatalf("partition %d is led by %d, want %d", got.Partition, got.Leader, leader)
				}
			}
		}
		if n := len(p.services.shared.answers); n != 1 {
			t.Errorf("%d answers are kept", n)
		}
	}
}

// TestSharedAnswersAreBounded: neither many different requests nor large answers fill the memory.
func TestSharedAnswersAreBounded(t *testing.T) {
	for _, w := range []struct {
		name                 string
		partitions, requests int
	}{{"many answers", sharedPartitions, sharedCount + 5}, {"large answers", 60_000, 12}} {
		t.Run(w.name, func(t *testing.T) {
			p := newPlane(t)
			p.announce("large", log.TopicID{1}, w.partitions, planeBroker)
			c := p.client()
			kept, most := &p.services.shared, 0
			for i := range w.requests {
				large, unknown := "large", fmt.Sprint("unknown-", i) // another list each time
				r := metadataOfAll()
				r.Topics = []kmsg.MetadataRequestTopic{{Topic: &large}, {Topic: &unknown}}
				c.rawAnswer(r)
				if len(kept.answers) > sharedCount || kept.bytes > sharedBytes {
					t.Fatalf("%d answers of %d bytes are kept", len(kept.answers), kept.bytes)
				}
				most = max(most, len(kept.answers))
			}
			if most == w.requests {
				t.Error("the bound is not reached")
			}
		})
	}
}

// TestSharedAnswersTellEachClientItsWait: the bytes are shared, the throttle time is not.
func TestSharedAnswersTellEachClientItsWait(t *testing.T) {
	inQuotas(t, map[quota.Kind]float64{quota.Request: 0.01}, func(t *testing.T, p *plane) {
		p.announce("large", log.TopicID{1}, 2*sharedPartitions, planeBroker)
		p.services.Clock = slowClock{p.services.Clock}
		throttled, free := p.client(), p.client()
		free.id = "free"
		for range 2 {
			if got := ask[*kmsg.MetadataResponse](throttled, metadataOfAll()); got.ThrottleMillis == 0 || len(got.Topics[0].Partitions) == 0 {
				t.Errorf("above the quota: a wait of %d ms, %d topics", got.ThrottleMillis, len(got.Topics))
			}
			if got := ask[*kmsg.MetadataResponse](free, metadataOfAll()); got.ThrottleMillis != 0 {
				t.Errorf("without a quota: a wait of %d ms", got.ThrottleMillis)
			}
		}
	})
}
