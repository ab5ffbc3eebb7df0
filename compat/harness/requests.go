package harness

import "encoding/binary"

// Asked is what the header of a request says.
type Asked struct {
	Key, Version int16
	ClientID     string
}

// requestReader finds the headers in the bytes of one connection.
type requestReader struct {
	tell func(Asked)
	head []byte // of a frame, until its header is whole
	skip int    // bytes of the frame that follow
}

// Write takes the next bytes. It never fails.
func (r *requestReader) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if r.skip > 0 {
			some := min(r.skip, len(b))
			r.skip, b = r.skip-some, b[some:]
			continue
		}
		missing := r.missing()
		some := min(missing, len(b))
		r.head, b = append(r.head, b[:some]...), b[some:]
		if r.missing() == 0 {
			r.finish()
		}
	}
	return n, nil
}

// fixed is the size of what comes before the client id: the frame's length, key, version, correlation id, the id's length.
const fixed = 4 + 2 + 2 + 4 + 2

func (r *requestReader) missing() int {
	if len(r.head) < fixed {
		return fixed - len(r.head)
	}
	return fixed + r.idSize() - len(r.head)
}

func (r *requestReader) idSize() int {
	return max(0, int(int16(binary.BigEndian.Uint16(r.head[fixed-2:]))))
}

func (r *requestReader) finish() {
	r.tell(Asked{
		Key: int16(binary.BigEndian.Uint16(r.head[4:])), Version: int16(binary.BigEndian.Uint16(r.head[6:])), ClientID: string(r.head[fixed:]),
	})
	r.skip = max(0, 4+int(binary.BigEndian.Uint32(r.head))-len(r.head))
	r.head = r.head[:0]
}
