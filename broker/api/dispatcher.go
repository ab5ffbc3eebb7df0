package api

import (
	"fmt"
	"slices"

	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/kmsgfix"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// inlineBytes is the largest request that may run on the processor that read it; measured in docs/performance.md.
const inlineBytes = 256 << 10

// Dispatcher takes requests from the network layer to their entries in the table. It implements wire.Handler and
// holds no state of its own.
type Dispatcher struct{ services *Services }

// NewDispatcher returns the handler of a broker with these services.
func NewDispatcher(s *Services) *Dispatcher { return &Dispatcher{s} }

// Admit says where a request may run and what it may cost. An unknown API or version is an error, which closes the
// connection: an answer in the wrong form would confuse the client more (SocketServer.parseRequestHeader).
func (d *Dispatcher) Admit(_ *wire.Conn, h frame.Header, size int) (wire.Admission, error) {
	apis := d.services.APIs()
	e := apis.entry(h.Key)
	if e == nil {
		return wire.Admission{}, fmt.Errorf("unknown API key %d (version %d)", h.Key, h.Version)
	}
	if !apis.Versions(h.Key).Contains(h.Version) && e.Key != kmsg.ApiVersions {
		return wire.Admission{}, fmt.Errorf("%s version %d is not served, only %s", Name(e.Key.Int16()), h.Version, apis.Versions(h.Key))
	}
	return wire.Admission{
		Inline: e.Runs == onProcessor && size <= inlineBytes,
		Cost:   int64(size) * e.Cost,
	}, nil
}

// Serve decodes a request and runs its first stage.
func (d *Dispatcher) Serve(r *wire.Request, inline bool) bool {
	e := d.services.APIs().entry(r.Header.Key)
	call := newCall(r)
	d.services.meter(call, e)
	if e.Key == kmsg.ApiVersions && !d.services.APIs().Versions(r.Header.Key).Contains(r.Header.Version) {
		call.unsupportedApiVersions(d.services)
		return true
	}
	request := e.Key.Request()
	request.SetVersion(r.Header.Version)
	body := r.Body
	if d.services.door.shut.Load() {
		body = slices.Clone(body) // a request that waits at the door outlives the memory that it came in
	}
	if err := kmsgfix.Read(request, body); err != nil {
		call.Close(fmt.Sprintf("not a request of %s version %d: %v", Name(e.Key.Int16()), r.Header.Version, err))
		return true
	}
	if d.services.door.keeps(visit{e, call, request}) {
		return true
	}
	if inline && e.Ready != nil && !e.Ready(d.services, request) {
		return false
	}
	d.services.serve(visit{e, call, request})
	return true
}

// serve runs the first stage of a decoded request, whether it came at once or waited at the door.
func (s *Services) serve(v visit) {
	v.call.watch(s, v.request)
	defer v.call.left()
	if s.outdated(v.call, v.request) {
		v.call.Close("it is older than what is served since " + controller.Extensions + " was switched on; the client is to ask again")
		return
	}
	if s.Intercept != nil {
		s.Intercept(v.call, v.request, func() { v.entry.Serve(s, v.call, v.request) })
		return
	}
	v.entry.Serve(s, v.call, v.request)
	v.call.usage.served()
}

// Closed forgets what a client called itself; no other state of a connection lives outside it.
func (d *Dispatcher) Closed(c *wire.Conn) { d.services.Clients.gone(c) }
