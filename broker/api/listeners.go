package api

import (
	"net/netip"

	"github.com/gregor-broker/gregor/broker/metadata"
)

// Listeners says what clients of each listener are told about where this broker is.
type Listeners map[string]Advertised

// Advertised is a listener's advertised address. Without a host a client is told our end of its own connection, so that
// localhost, a second network card and a container's own address all work unconfigured. The port is the advertised
// one, or the bound one.
type Advertised struct {
	Host string
	Port int32
}

// Endpoint is where a client that came in on listener, at our address local, reaches broker b; false when b has no
// such listener. Only this broker may have an address that depends on the connection.
func (s *Services) Endpoint(b *metadata.Broker, listener string, local netip.AddrPort) (metadata.Endpoint, bool) {
	if b.ID == s.BrokerID {
		if own, ok := s.Listeners[listener]; ok && own.Host == "" {
			return metadata.Endpoint{Host: hostOf(local), Port: own.Port}, true
		}
	}
	e, ok := b.Endpoints[listener]
	return e, ok
}

// hostOf names the address of a connection that has none (an in-memory pipe) "localhost".
func hostOf(local netip.AddrPort) string {
	if !local.IsValid() {
		return "localhost"
	}
	return local.Addr().Unmap().WithZone("").String()
}
