package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// SizeError says that a length prefix is none that a request may have.
type SizeError struct {
	Size int32  // as claimed
	Max  int32  // as allowed
	Like string // what the bytes look like instead; "": nothing known
}

// Error says what was claimed and what it looked like.
func (e *SizeError) Error() string {
	if e.Like != "" {
		return "this is no Kafka request but looks like " + e.Like
	}
	switch {
	case e.Size < 0:
		return fmt.Sprintf("a request of a negative length, %d", e.Size)
	case e.Size > e.Max:
		return fmt.Sprintf("a request of %d bytes, more than socket.request.max.bytes (%d)", e.Size, e.Max)
	default:
		return fmt.Sprintf("a request of %d bytes, too short for a header", e.Size)
	}
}

// minRequest is the size of a request header without client id.
const minRequest = 8

// foreignAbove is the size from which a length is looked at closely: every other protocol known to knock at the wrong port
// begins with bytes that make a larger one.
const foreignAbove = 16 << 20

// CheckLength reads the length prefix at the start of b, which holds at least the prefix and whatever followed it, and
// returns the size of the request.
func CheckLength(b []byte, max int32) (size int, err error) {
	n := int32(binary.BigEndian.Uint32(b))
	if n >= minRequest && n <= foreignAbove && n <= max {
		return int(n), nil
	}
	like := known(b)
	if n > max && like == "" {
		like = text(b) // a size that is allowed may look like text by chance
	}
	if n < minRequest || n > max || like != "" {
		return 0, &SizeError{Size: n, Max: max, Like: like}
	}
	return int(n), nil
}

var httpMethods = [][]byte{
	[]byte("GET "), []byte("POST"), []byte("PUT "), []byte("HEAD"), []byte("OPTI"), []byte("DELE"), []byte("PATC"), []byte("CONN"),
	[]byte("TRAC"), []byte("PRI "),
}

// known says in words what other protocol b, the first bytes of a frame, looks like; "" if like none.
func known(b []byte) string {
	// A TLS record: type handshake, version 3.0 to 3.4.
	if b[0] == 22 && b[1] == 3 && b[2] <= 4 {
		return "a TLS handshake (is this a plaintext listener that a client takes for an SSL one?)"
	}
	for _, m := range httpMethods {
		if bytes.HasPrefix(b, m) {
			return "an HTTP request"
		}
	}
	switch {
	case bytes.HasPrefix(b, []byte("SSH-")):
		return "an SSH client"
	case bytes.HasPrefix(b, []byte("PROX")) || bytes.HasPrefix(b, []byte("\r\n\r\n")):
		return "a PROXY protocol header"
	case bytes.HasPrefix(b, []byte("HTTP")):
		return "an HTTP response"
	}
	return ""
}

// text says so if b begins like text.
func text(b []byte) string {
	for _, c := range b[:LengthSize] {
		if (c < ' ' || c > '~') && c != '\r' && c != '\n' && c != '\t' {
			return ""
		}
	}
	return fmt.Sprintf("text, beginning with %q", b[:min(len(b), 16)])
}
