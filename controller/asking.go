package controller

import "github.com/twmb/franz-go/pkg/kmsg"

// Asking is the event that a request to the active controller makes, for whoever drives a Machine: a broker that asks itself, or
// a simulation. nil for a request that only clients send through a Controller's methods.
func Asking(request kmsg.Request, done func(kmsg.Response)) Event {
	switch r := request.(type) {
	case *kmsg.AlterPartitionRequest:
		return asking(r, (*Machine).alterPartition, done)
	case *kmsg.ControlledShutdownRequest:
		return asking(r, (*Machine).controlledShutdown, done)
	case *kmsg.CreateTopicsRequest:
		return asking(r, func(m *Machine, r *kmsg.CreateTopicsRequest, done func(*kmsg.CreateTopicsResponse)) {
			m.createTopics(r, nil, done)
		}, done)
	case *kmsg.DeleteTopicsRequest:
		return asking(r, func(m *Machine, r *kmsg.DeleteTopicsRequest, done func(*kmsg.DeleteTopicsResponse)) {
			m.deleteTopics(r, nil, done)
		}, done)
	case *kmsg.ElectLeadersRequest:
		return asking(r, (*Machine).electLeaders, done)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return asking(r, (*Machine).alterReassignments, done)
	}
	return nil
}

func asking[Q any, S kmsg.Response](r Q, serve func(*Machine, Q, func(S)), done func(kmsg.Response)) Event {
	return Request{func(m *Machine) { m.reigning(func() { serve(m, r, func(s S) { done(s) }) }) }}
}
