package api

// connection is what is known of a client besides its address: the value of its wire.Conn, touched only in first stages of
// requests.
type connection struct{ software Software }

// Software is what a client calls itself (KIP-511); empty for clients before ApiVersions v3.
type Software struct{ Name, Version string }

// connection returns what is known of the client.
func (c *Call) connection() *connection {
	known, ok := c.request.Conn.Value.(*connection)
	if !ok {
		known = &connection{}
		c.request.Conn.Value = known
	}
	return known
}
