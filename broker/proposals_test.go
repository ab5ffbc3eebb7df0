package broker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/wire/clock"
)

// TestProposalsAreBatchedAndRepeated: one request at a time; what came up meanwhile goes with the next; an error of the
// request repeats it, an error of a partition is that partition's answer.
func TestProposalsAreBatchedAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan *kmsg.AlterPartitionRequest)
		answers := make(chan error)
		p := &proposals{
			brokerID: 2, version: 3, epoch: func() int64 { return 415 }, clock: clock.System, logger: zap.NewNop(),
			ask: func(_ context.Context, r kmsg.Request) (kmsg.Response, error) {
				request := r.(*kmsg.AlterPartitionRequest)
				asked <- request
				if err := <-answers; err != nil {
					return nil, err
				}
				response := kmsg.NewPtrAlterPartitionResponse()
				response.Version = request.Version
				for _, topic := range request.Topics {
					answer := kmsg.AlterPartitionResponseTopic{TopidID: topic.TopicID}
					for _, part := range topic.Partitions {
						code := int16(0)
						if part.Partition == 9 {
							code = kerr.FencedLeaderEpoch.Code
						}
						answer.Partitions = append(answer.Partitions, kmsg.AlterPartitionResponseTopicPartition{
							Partition: part.Partition, ErrorCode: code, PartitionEpoch: part.PartitionEpoch + 1,
						})
					}
					response.Topics = append(response.Topics, answer)
				}
				return response, nil
			},
		}
		p.ctx, p.cancel = context.WithCancel(t.Context())
		defer p.close()
		var outcomes []insync.Outcome
		done := func(o insync.Outcome) { outcomes = append(outcomes, o) }
		propose := func(partition int32) {
			p.propose(insync.Proposal{TopicID: [16]byte{1}, Partition: partition, PartitionEpoch: 5, ISR: []int32{2, 1}}, done)
		}
		partitions := func(r *kmsg.AlterPartitionRequest) []int32 {
			var all []int32
			for _, part := range r.Topics[0].Partitions {
				all = append(all, part.Partition)
			}
			return all
		}
		propose(0)
		first := <-asked
		propose(1)
		propose(9)
		p.propose(insync.Proposal{TopicID: [16]byte{1}, PartitionEpoch: 5, LeaderEpoch: 7, ISR: []int32{2, 1}}, done) // of a later leadership
		answers <- errors.New("not reached")
		second := <-asked
		if !slices.Equal(partitions(first), []int32{0}) || !slices.Equal(partitions(second), []int32{0, 1, 9}) {
			t.Errorf("asked %v, then %v", partitions(first), partitions(second))
		}
		if got := second.Topics[0].Partitions[0].LeaderEpoch; got != 7 {
			t.Errorf("of two proposals for a partition that of epoch %d was sent", got)
		}
		if second.Version != 3 || second.BrokerID != 2 || second.BrokerEpoch != 415 || second.Topics[0].Partitions[0].NewEpochISR[1].BrokerID != 1 {
			t.Errorf("the request is %+v", second)
		}
		answers <- nil
		synctest.Wait()
		if len(outcomes) != 3 || outcomes[0].PartitionEpoch != 6 || outcomes[2].Code != kerr.FencedLeaderEpoch.Code {
			t.Errorf("outcomes %+v", outcomes)
		}
	})
}

// TestProposalsByName: before version 2 topics are named by their names.
func TestProposalsByName(t *testing.T) {
	p := &proposals{
		brokerID: 2, epoch: func() int64 { return 415 }, clock: clock.System, logger: zap.NewNop(), ctx: t.Context(),
		ask: func(_ context.Context, r kmsg.Request) (kmsg.Response, error) {
			request := r.(*kmsg.AlterPartitionRequest)
			response := kmsg.NewPtrAlterPartitionResponse()
			for i, topic := range request.Topics {
				if topic.Topic != []string{"a", "b"}[i] || !slices.Equal(topic.Partitions[0].NewISR, []int32{2, 1}) {
					t.Errorf("topic %d is %+v", i, topic)
				}
				answer := kmsg.AlterPartitionResponseTopic{Topic: topic.Topic}
				for _, part := range topic.Partitions {
					answer.Partitions = append(answer.Partitions, kmsg.AlterPartitionResponseTopicPartition{Partition: part.Partition, PartitionEpoch: int32(10 + i)})
				}
				response.Topics = append(response.Topics, answer)
			}
			return response, nil
		},
	}
	var batch []proposal
	var epochs []int32
	for _, topic := range []string{"a", "b", "a"} {
		one := insync.Proposal{Topic: topic, TopicID: [16]byte{topic[0]}, Partition: int32(len(batch)), ISR: []int32{2, 1}}
		batch = append(batch, proposal{one, func(o insync.Outcome) { epochs = append(epochs, o.PartitionEpoch) }})
	}
	if err := p.exchange(batch); err != nil || !slices.Equal(epochs, []int32{10, 11, 10}) {
		t.Errorf("%v %v", epochs, err)
	}
}
