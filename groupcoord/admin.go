package groupcoord

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// byPartition groups the indexes of ids by the partition that stores them.
func (c *Coordinator) byPartition(ids []string) map[int32][]int {
	m := map[int32][]int{}
	for i, id := range ids {
		p := c.PartitionFor(id)
		m[p] = append(m[p], i)
	}
	return m
}

// send hands each partition its part of a request.
func (c *Coordinator) send(p int32, ev runtime.Event) {
	if p < 0 {
		ev.Refuse(runtime.ErrNotCoordinator)
		return
	}
	c.runtime.Submit(p, ev)
}

// DescribeGroups tells the members of groups. A group that does not exist is Dead, from version 6 on with GROUP_ID_NOT_FOUND.
// AuthorizedOperations are left for the caller to fill in.
func (c *Coordinator) DescribeGroups(_ Caller, r *kmsg.DescribeGroupsRequest, reply func(kmsg.Response)) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = r.Version
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(r.Groups))
	for i, id := range r.Groups {
		resp.Groups[i].Default()
		resp.Groups[i].Group = id
	}
	parts := c.byPartition(r.Groups)
	all := runtime.NewGather(len(parts), func() { reply(resp) })
	for p, indexes := range parts {
		c.send(p, &describe{resp, indexes, all.Done})
	}
}

// describe is the part of a DescribeGroups request that one partition answers.
type describe struct {
	response *kmsg.DescribeGroupsResponse
	indexes  []int
	done     func()
}

// Refuse implements runtime.Event.
func (ev *describe) Refuse(err error) {
	for _, i := range ev.indexes {
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode = ev.response.Groups[i].Group, errcode.Of(err)
		ev.response.Groups[i] = g
	}
	ev.done()
}

func (m *machine) describe(ev *describe, out *runtime.Out) {
	for _, i := range ev.indexes {
		g := &ev.response.Groups[i]
		e := m.groups[g.Group]
		if e != nil && e.consumer == nil {
			e.Describe(m.settings.Kafka4, g)
			continue
		}
		g.State = group.Dead
		if ev.response.Version >= 6 {
			text := "Group " + g.Group + " not found."
			if e != nil {
				text = "Group " + g.Group + " is not a classic group."
			}
			g.ErrorCode, g.ErrorMessage = kerr.GroupIDNotFound.Code, &text
		}
	}
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.done()
	})
}

// ListGroups lists the groups of all partitions that this broker leads. v4 filter by state · v5 filter by type.
// If one of the partitions cannot answer, neither does the whole.
func (c *Coordinator) ListGroups(_ Caller, r *kmsg.ListGroupsRequest, reply func(kmsg.Response)) {
	w := &wanted{types: r.TypesFilter}
	for _, s := range r.StatesFilter {
		if c.o.Config.Kafka4 {
			s = strings.TrimSpace(s)
		}
		w.states = append(w.states, strings.ToLower(s))
	}
	ask := func(p runtime.Part[kmsg.ListGroupsResponseGroup]) runtime.Event { return &list{p, w} }
	runtime.List(c.runtime, ask, func(found []kmsg.ListGroupsResponseGroup, err error) {
		resp := kmsg.NewPtrListGroupsResponse()
		resp.Version = r.Version
		resp.Groups, resp.ErrorCode = found, errcode.Of(err)
		reply(resp)
	})
}

// wanted are the filters of a ListGroups request.
type wanted struct{ states, types []string }

// has reports whether a group passes them.
func (w *wanted) has(e *entry) bool {
	return (len(w.states) == 0 || slices.Contains(w.states, strings.ToLower(e.state()))) &&
		(len(w.types) == 0 || slices.ContainsFunc(w.types, func(t string) bool { return strings.EqualFold(t, e.kind()) }))
}

// list is the part of a ListGroups request that one partition answers.
type list struct {
	runtime.Part[kmsg.ListGroupsResponseGroup]
	wanted *wanted
}

func (m *machine) list(ev *list, out *runtime.Out) {
	var found []kmsg.ListGroupsResponseGroup
	for id, e := range m.groups {
		if ev.wanted.has(e) {
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.ProtocolType, g.GroupState, g.GroupType = id, e.protocolType(), e.state(), e.kind()
			found = append(found, g)
		}
	}
	ev.Answer(out, found)
}

// DeleteGroups deletes groups without members, with their offsets.
func (c *Coordinator) DeleteGroups(_ Caller, r *kmsg.DeleteGroupsRequest, reply func(kmsg.Response)) {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = r.Version
	var ids []string // each once
	seen := map[string]bool{}
	for _, id := range r.Groups {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(ids))
	for i, id := range ids {
		resp.Groups[i].Group = id
	}
	parts := c.byPartition(ids)
	all := runtime.NewGather(len(parts), func() { reply(resp) })
	for p, indexes := range parts {
		c.send(p, &deleteGroups{resp, indexes, all.Done})
	}
}

// deleteGroups is the part of a DeleteGroups request that one partition answers.
type deleteGroups struct {
	response *kmsg.DeleteGroupsResponse
	indexes  []int
	done     func()
}

// Refuse implements runtime.Event.
func (ev *deleteGroups) Refuse(err error) {
	for _, i := range ev.indexes {
		if g := &ev.response.Groups[i]; g.ErrorCode == 0 {
			g.ErrorCode = errcode.Of(err)
		}
	}
	ev.done()
}

func (m *machine) deleteGroups(ev *deleteGroups, out *runtime.Out) {
	out.Split()
	for _, i := range ev.indexes {
		g := &ev.response.Groups[i]
		e, err := m.groups[g.Group], error(nil)
		if e == nil {
			err = errGroupNotFound
		} else {
			err = e.checkDelete()
		}
		if err != nil {
			g.ErrorCode = errcode.Of(err)
			g.ErrorMessage = errcode.Message(err)
			continue
		}
		m.deleteGroup(out, e)
	}
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.done()
	})
}

// deleteGroup writes that a group and all its offsets are deleted.
func (m *machine) deleteGroup(out *runtime.Out, e *entry) {
	for topic, list := range e.offsets.Topics() {
		for i := range list {
			m.forgetOffset(out, e.ID(), topic, list[i].Partition)
		}
	}
	m.pending.Each(e.ID(), func(topic string, partition int32) {
		if e.offsets.Get(topic, partition) == nil {
			m.forgetOffset(out, e.ID(), topic, partition)
		}
	})
	m.forgetGroup(out, e)
}
