package api

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What clients call themselves is known while they are connected, and no more of it than is worth keeping.
func TestClientSoftware(t *testing.T) {
	p := newPlane(t)
	say := func(version int16, name string) *wireClient {
		c := p.client()
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, name, "1"
		c.send(r)
		if _, _, ok := c.frame(); !ok {
			t.Fatal("no answer")
		}
		return c
	}
	say(3, "one")
	gone := say(4, "one")
	say(2, "old")
	say(3, strings.Repeat("x", 30_000))
	counts := p.services.Clients.Counts()
	long := Client{strings.Repeat("x", softwareBytes), "1", planeListener}
	if len(counts) != 2 || counts[Client{"one", "1", planeListener}] != 2 || counts[long] != 1 {
		t.Errorf("%v", counts)
	}
	gone.conn.Close()
	other := p.client()
	for p.services.Clients.Counts()[Client{"one", "1", planeListener}] != 1 {
		ask[*kmsg.ApiVersionsResponse](other, kmsg.NewPtrApiVersionsRequest())
	}
}
