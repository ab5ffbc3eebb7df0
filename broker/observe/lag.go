package observe

import (
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord"
)

// lagLimit is how long a scrape waits for the group coordinator.
const lagLimit = 5 * time.Second

// lags tells, of each group that this broker coordinates, what it has committed and how far that is behind the high watermark.
// Only of partitions that this broker holds: others' high watermarks it does not know.
func (c *collector) lags(out sink) {
	states, offsets := map[string]int{}, 0
	for _, g := range c.groups() {
		out.gauge("gregor_consumergroup_state", 1, "group", g.Group, "state", g.GroupState)
		offsets += c.lagsOf(out, g.Group)
		if g.GroupType == "classic" {
			states[g.GroupState]++
			states[""]++
		}
	}
	for suffix, state := range map[string]string{
		"": "", "preparingrebalance": "PreparingRebalance", "completingrebalance": "CompletingRebalance", "stable": "Stable", "empty": "Empty", "dead": "Dead",
	} {
		out.gauge("kafka_coordinator_group_groupmetadatamanager_numgroups"+suffix, states[state])
	}
	out.gauge("kafka_coordinator_group_groupmetadatamanager_numoffsets", offsets)
}

var self = groupcoord.Caller{ClientID: "gregor-metrics", ClientHost: "/" + netip.IPv6Loopback().String()}

// await calls ask with a function that takes the answer, and returns it, or nil if it does not come in time.
func (c *collector) await(ask func(reply func(kmsg.Response))) kmsg.Response {
	answer := make(chan kmsg.Response, 1)
	var once sync.Once
	ask(func(r kmsg.Response) { once.Do(func() { answer <- r }) })
	late, timer := c.Services().Clock.NewTimer(lagLimit)
	defer timer.Stop()
	select {
	case r := <-answer:
		return r
	case <-late:
		return nil
	}
}

// groups returns the groups that are coordinated here.
func (c *collector) groups() []kmsg.ListGroupsResponseGroup {
	r := kmsg.NewPtrListGroupsRequest()
	r.Version = 5
	answer, _ := c.await(func(reply func(kmsg.Response)) { c.Services().Groups.ListGroups(self, r, reply) }).(*kmsg.ListGroupsResponse)
	if answer == nil {
		return nil
	}
	return answer.Groups
}

// lagsOf returns how many offsets the group has committed.
func (c *collector) lagsOf(out sink, group string) (offsets int) {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.Group = 7, group // all topics
	answer, _ := c.await(func(reply func(kmsg.Response)) { c.Services().Groups.OffsetFetch(self, r, reply) }).(*kmsg.OffsetFetchResponse)
	if answer == nil || answer.ErrorCode != 0 {
		return 0
	}
	for i := range answer.Topics {
		t := &answer.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			offsets++
			end, ok := c.Services().Replicas.HighWatermark(t.Topic, p.Partition)
			if !ok || p.ErrorCode != 0 || p.Offset < 0 {
				continue
			}
			pairs := labels{"group", group, "topic", t.Topic, "partition", strconv.Itoa(int(p.Partition))}
			out.gauge("gregor_consumergroup_offset", int(p.Offset), pairs...)
			out.gauge("gregor_consumergroup_lag", int(max(0, end-p.Offset)), pairs...)
		}
	}
	return offsets
}
