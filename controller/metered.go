package controller

import "github.com/twmb/franz-go/pkg/kmsg"

// Permit is asked before partitions are made or removed, once a change is known to be right: an error, that of a quota, refuses
// it. It must be quick, and is called on the controller's goroutine; nil permits everything.
type Permit func(partitions int) error

func (p Permit) take(partitions int) error {
	if p == nil {
		return nil
	}
	return p(partitions)
}

// Metered is a Controller for one who needs a permit (KIP-599).
type Metered struct {
	c      *Controller
	permit Permit
}

// Metered returns the controller for who has this permit.
func (c *Controller) Metered(p Permit) Metered { return Metered{c, p} }

// CreateTopics is the Controller's.
func (w Metered) CreateTopics(r *kmsg.CreateTopicsRequest, done func(*kmsg.CreateTopicsResponse)) {
	w.c.request(func(m *Machine) { m.reigning(func() { m.createTopics(r, w.permit, done) }) })
}

// AutoCreate is the Controller's. For what another broker was asked to create the permit is asked once it is there: a quota that cannot refuse
// counts it.
func (w Metered) AutoCreate(topics []string, done func([]AutoCreated)) {
	w.c.request(func(m *Machine) { m.reigning(func() { m.autoCreate(topics, w.permit, done) }) })
}

// DeleteTopics is the Controller's.
func (w Metered) DeleteTopics(r *kmsg.DeleteTopicsRequest, done func(*kmsg.DeleteTopicsResponse)) {
	w.c.request(func(m *Machine) { m.reigning(func() { m.deleteTopics(r, w.permit, done) }) })
}

// CreatePartitions is the Controller's.
func (w Metered) CreatePartitions(r *kmsg.CreatePartitionsRequest, done func(*kmsg.CreatePartitionsResponse)) {
	w.c.request(func(m *Machine) { m.reigning(func() { m.createPartitions(r, w.permit, done) }) })
}
