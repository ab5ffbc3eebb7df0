// Package api answers requests. Its table (table.go) is the one home of what this broker speaks: for each API key the
// versions, who may call it, what it costs in memory, where it runs and what serves it. Version checks, ApiVersions
// and docs/compatibility.md read that table and nothing else.
//
// There is one file per API, with the key in its name. A handler is a request's first stage: it takes effect in the
// order in which a connection's requests arrived, never waits, and answers through its Call, at once or later.
package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions is an inclusive range of request versions.
type Versions struct{ Min, Max int16 }

// none is the range of an API that a mode does not serve.
var none = Versions{0, -1}

func v(low, high int16) Versions { return Versions{low, high} }

// Empty says whether the range holds no version.
func (r Versions) Empty() bool { return r.Max < r.Min }

// Contains says whether version lies in the range.
func (r Versions) Contains(version int16) bool { return r.Min <= version && version <= r.Max }

// Union is the smallest range that holds both.
func (r Versions) Union(o Versions) Versions {
	switch {
	case r.Empty():
		return o
	case o.Empty():
		return r
	}
	return Versions{min(r.Min, o.Min), max(r.Max, o.Max)}
}

// String writes the range as the tools do, "0-11", and "-" for an empty one.
func (r Versions) String() string {
	switch {
	case r.Empty():
		return "-"
	case r.Min == r.Max:
		return fmt.Sprint(r.Min)
	}
	return fmt.Sprintf("%d-%d", r.Min, r.Max)
}

// Access is what a caller needs to be allowed, in the words of Kafka's ACLs.
type Access struct {
	Operation kmsg.ACLOperation
	Resource  kmsg.ACLResourceType
}

// Anyone needs no permission: what the answer holds is filtered by what the caller may see.
var anyone = Access{}

func on(resource kmsg.ACLResourceType, operation kmsg.ACLOperation) Access {
	return Access{Operation: operation, Resource: resource}
}

// String writes the access as kafka-acls does, "Write Topic".
func (a Access) String() string {
	if a == anyone {
		return "-"
	}
	return fmt.Sprintf("%s %s", a.Operation, a.Resource)
}

// place says where a request's first stage may run.
type place int8

const (
	onHandler   place = iota // on a handler goroutine
	onProcessor              // in place, on the processor that read it: short, and cannot block
)

// Entry is one row of the table.
type Entry struct {
	Key        kmsg.Key
	ZooKeeper  Versions // what 3.9 serves in ZooKeeper mode; exactly this beside real brokers
	Kafka4     Versions // what 4.4 serves; embedded we serve the union of both, and on ZooKeeper while gregor.extensions is on
	Access     Access
	Cost       int64 // bytes of memory that handling may take per byte on the wire
	Runs       place
	Controller bool // only the active controller can answer
	// BetweenBrokers: never sent by clients, so never served where there is one broker.
	BetweenBrokers bool
	// EmbeddedOnly: what 4.4 adds is about the embedded store, so a cluster on ZooKeeper never serves it.
	EmbeddedOnly bool

	// Ready, where there is one, says whether an onProcessor request can be served without blocking right now; if not
	// it goes to a handler.
	Ready func(*Services, kmsg.Request) bool
	Serve func(*Services, *Call, kmsg.Request)
}

// Mode is what decides which versions a broker serves.
type Mode int8

const (
	Embedded  Mode = iota // without ZooKeeper
	ZooKeeper             // on ZooKeeper: as 3.9
	Extended              // on ZooKeeper, with gregor.extensions on
)

// Served is what a broker serves of the API in its mode.
func (e *Entry) Served(mode Mode) Versions {
	switch {
	case mode == Embedded && e.BetweenBrokers:
		return none
	case mode == ZooKeeper, mode == Extended && e.EmbeddedOnly:
		return e.ZooKeeper
	}
	return e.ZooKeeper.Union(e.Kafka4)
}
