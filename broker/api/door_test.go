package api

import (
	"slices"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDoorKeeps: until the broker knows its cluster clients wait, and what other brokers ask does not.
func TestDoorKeeps(t *testing.T) {
	fetchOf := func(version int16, replica int32) *kmsg.FetchRequest {
		r := kmsg.NewPtrFetchRequest()
		r.Version = version
		if version < 15 {
			r.ReplicaID = replica
		} else {
			r.ReplicaState.ID = replica
		}
		return r
	}
	for _, c := range []struct {
		name    string
		entry   *Entry
		request kmsg.Request
		kept    bool
	}{
		{"Metadata", &metadataAPI, kmsg.NewPtrMetadataRequest(), true},
		{"Produce", &produce, kmsg.NewPtrProduceRequest(), true},
		{"a consumer's Fetch", &fetch, fetchOf(12, -1), true},
		{"a consumer's Fetch", &fetch, fetchOf(17, -1), true},
		{"a follower's Fetch", &fetch, fetchOf(12, 2), false},
		{"a follower's Fetch", &fetch, fetchOf(17, 2), false},
		{"a consumer's ListOffsets", &listOffsets, kmsg.NewPtrListOffsetsRequest(), true},
		{"a controller's order", &updateMetadata, kmsg.NewPtrUpdateMetadataRequest(), false},
		{"ApiVersions", &apiVersions, kmsg.NewPtrApiVersionsRequest(), false},
	} {
		var d door
		if d.keeps(visit{c.entry, &Call{}, c.request}) {
			t.Errorf("%s is kept at an open door", c.name)
		}
		d.shut.Store(true)
		if kept := d.keeps(visit{c.entry, &Call{}, c.request}); kept != c.kept {
			t.Errorf("%s: kept %v, want %v", c.name, kept, c.kept)
		}
	}
}

// TestDoorOpens: who waited enters first and in order, also who comes while the door is being opened.
func TestDoorOpens(t *testing.T) {
	var d door
	d.shut.Store(true)
	visits := make([]visit, 4)
	for i := range visits {
		visits[i] = visit{entry: &produce, call: &Call{}, request: kmsg.NewPtrProduceRequest()}
	}
	var entered []kmsg.Request
	d.keeps(visits[0])
	d.keeps(visits[1])
	d.open(func(v visit) {
		if entered = append(entered, v.request); len(entered) < 3 {
			d.keeps(visits[1+len(entered)])
		}
	})
	if d.shut.Load() {
		t.Error("the door is still shut")
	}
	if !slices.EqualFunc(entered, visits, func(r kmsg.Request, v visit) bool { return r == v.request }) {
		t.Errorf("%d entered, or not in order", len(entered))
	}
}

// TestDoorIsNotForEverybody: what waits is bounded; who is too much is sent away, and the others are served.
func TestDoorIsNotForEverybody(t *testing.T) {
	p := newPlane(t)
	p.services.HoldClients()
	p.services.door.bytes = doorBytes
	visitor := p.client()
	visitor.send(kmsg.NewPtrMetadataRequest())
	if _, _, ok := visitor.frame(); ok {
		t.Error("an answer instead of a closed connection")
	}
	p.services.ServeClients()
	ask[*kmsg.MetadataResponse](p.client(), kmsg.NewPtrMetadataRequest())
}

// TestClientsAreServedOnceTheClusterIsKnown: requests that waited are answered as if they came then.
func TestClientsAreServedOnceTheClusterIsKnown(t *testing.T) {
	p := newPlane(t)
	p.services.HoldClients()
	var seen []kmsg.Request
	p.services.Intercept = func(_ *Call, r kmsg.Request, serve func()) {
		seen = append(seen, r)
		serve()
	}
	client := p.client()
	r := produceOf(9, -1, to{"t", 0, records(t, record.BatchOptions{}, "v", clock.System.Now().UnixMilli())})
	client.send(r)
	p.untilSomebodyWaits()
	p.topic("t", 1)
	p.services.ServeClients()
	if n := len(seen); n == 0 || seen[n-1].Key() != r.Key() {
		t.Errorf("who waited was served past what sees every request: %d seen", n)
	}
	if code := answerTo[*kmsg.ProduceResponse](client, r).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("error %d", code)
	}
}

// TestClientsAreTurnedAway: a broker that stops before it knows its cluster lets nobody wait.
func TestClientsAreTurnedAway(t *testing.T) {
	p := newPlane(t)
	p.services.HoldClients()
	visitor := p.client()
	visitor.send(kmsg.NewPtrMetadataRequest())
	p.untilSomebodyWaits()
	p.services.TurnAway()
	if _, _, ok := visitor.frame(); ok {
		t.Error("an answer instead of a closed connection")
	}
}

// untilSomebodyWaits returns when a request is at the door. An answer on another connection does not tell.
func (p *plane) untilSomebodyWaits() {
	other := p.client()
	for {
		ask[*kmsg.ApiVersionsResponse](other, kmsg.NewPtrApiVersionsRequest())
		p.services.door.mu.Lock()
		waits := len(p.services.door.waiting) > 0
		p.services.door.mu.Unlock()
		if waits {
			return
		}
	}
}
