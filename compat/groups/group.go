package groups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// limit is how long anything may take on a busy machine.
const limit = 2 * time.Minute

// partitions is how many the topic of each group has.
const partitions = 4

// group is a group and what its members do. Safe for concurrent use.
type group struct {
	id, topic string
	seeds     []string
	client    *kgo.Client
	admin     *kadm.Client

	mu struct {
		sync.Mutex
		users  map[int32]*member
		acked  map[int32]int64 // the largest offset that a member was told is stored
		seen   map[int32]int64 // the last offset that was fetched
		faults []error
		gates  []*gate
	}
}

func newGroup(id string, seeds []string, client *kgo.Client) *group {
	g := &group{id: id, topic: id, seeds: seeds, client: client, admin: kadm.NewClient(client)}
	g.mu.users = map[int32]*member{}
	g.begin()
	return g
}

// begin forgets what was committed: the group is a new one.
func (g *group) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.acked, g.mu.seen = map[int32]int64{}, map[int32]int64{}
}

func (g *group) fault(format string, args ...any) {
	g.mu.faults = append(g.mu.faults, fmt.Errorf(g.id+": "+format, args...))
}

// take notes that a member uses partitions, which nobody else may.
func (g *group) take(m *member, list []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range list {
		if other := g.mu.users[p]; other != nil && other != m {
			g.fault("partition %d is given to a member while another uses it", p)
		}
		g.mu.users[p] = m
	}
}

func (g *group) release(m *member, list []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range list {
		if g.mu.users[p] == m {
			delete(g.mu.users, p)
		}
	}
}

// forget notes that a process has ended.
func (g *group) forget(m *member) {
	g.release(m, []int32{0, 1, 2, 3})
}

// acknowledge notes what a member was told of its commit.
func (g *group) acknowledge(r *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, t := range resp.Topics {
		for j, p := range t.Partitions {
			if p.ErrorCode == 0 {
				g.mu.acked[p.Partition] = max(g.mu.acked[p.Partition], r.Topics[i].Partitions[j].Offset)
			}
		}
	}
}

// look fetches the committed offsets once and returns their sum.
func (g *group) look(ctx context.Context) (sum int64, err error) {
	g.mu.Lock()
	least := map[int32]int64{}
	for p := range int32(partitions) {
		least[p] = max(g.mu.acked[p], g.mu.seen[p])
	}
	g.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	offsets, err := g.admin.FetchOffsets(limited, g.id)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range int32(partitions) {
		o, ok := offsets.Lookup(g.topic, p)
		if !ok {
			o.At = 0
		}
		if o.At < least[p] {
			g.fault("the offset of partition %d is %d, was %d", p, o.At, least[p])
		}
		g.mu.seen[p] = max(g.mu.seen[p], o.At)
		sum += o.At
	}
	return sum, nil
}

// state is type, state and number of members, like "consumer Stable 2".
func (g *group) state(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	groups, err := g.admin.DescribeGroups(limited, g.id)
	if err != nil {
		return "", err
	}
	told := groups[g.id]
	if told.Err == nil && told.State != "Dead" {
		return fmt.Sprintf("classic %s %d", told.State, len(told.Members)), nil
	}
	if told.Err != nil && !errors.Is(told.Err, kerr.GroupIDNotFound) {
		return "", told.Err
	}
	modern, err := g.admin.DescribeConsumerGroups(limited, g.id)
	if err != nil {
		return "", err
	}
	switch other := modern[g.id]; {
	case errors.Is(other.Err, kerr.GroupIDNotFound), errors.Is(other.Err, kerr.UnsupportedVersion):
		return "none", nil
	case other.Err != nil:
		return "", other.Err
	default:
		return fmt.Sprintf("consumer %s %d", other.State, len(other.Members)), nil
	}
}

// await waits for a state.
func (g *group) await(t testing.TB, want ...string) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		got, err := g.state(t.Context())
		if err == nil && !slices.Contains(want, got) {
			err = fmt.Errorf("%s is %q, want %q", g.id, got, want)
		}
		return err
	})
}

// produce writes a record to each partition.
func (g *group) produce(t testing.TB) {
	t.Helper()
	for p := range int32(partitions) {
		record := &kgo.Record{Topic: g.topic, Partition: p, Value: []byte("v")}
		if err := g.client.ProduceSync(harness.Context(t, limit), record).FirstErr(); err != nil {
			t.Fatalf("%s: %v", g.id, err)
		}
	}
}

// settle waits until the group is in a state with members that use every partition and have read and committed all that there is.
func (g *group) settle(t testing.TB, want string) {
	t.Helper()
	g.await(t, want)
	harness.Eventually(t, limit, func() error {
		ends, err := g.admin.ListEndOffsets(t.Context(), g.topic)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return err
		}
		end := int64(0)
		ends.Each(func(o kadm.ListedOffset) { end += o.Offset })
		sum, err := g.look(t.Context())
		if err != nil {
			return err
		}
		g.mu.Lock()
		used := len(g.mu.users)
		g.mu.Unlock()
		if used != partitions || sum != end {
			return fmt.Errorf("%s: %d partitions are in use, %d of %d records committed", g.id, used, sum, end)
		}
		return nil
	})
}

// offsets returns what was fetched last.
func (g *group) offsets() map[int32]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.mu.seen)
}

// check fails the test for whatever was not in order.
func (g *group) check(t testing.TB) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, err := range g.mu.faults {
		t.Error(err)
	}
}

// configure sets a configuration of the group.
func (g *group) configure(t testing.TB, key, value string) {
	t.Helper()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeGroupConfig, g.id
	of.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}}
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources = append(r.Resources, of)
	resp, err := r.RequestWith(harness.Context(t, limit), g.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
