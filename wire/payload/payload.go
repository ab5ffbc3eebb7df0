// Package payload describes what the log hands to the network: response bytes, or ranges of files that are sent
// without passing through user space.
package payload

// Part is one piece of a response: either Bytes, or Len bytes of File from position Pos on.
type Part struct {
	Bytes []byte
	File  File
	Pos   int64
	Len   int  // bytes of File; for Bytes use Size
	Cold  bool // the range is probably not in the page cache, so that sending it may wait for a disk
}

// Size is the number of bytes that the part puts on the wire.
func (p Part) Size() int {
	if p.File != nil {
		return p.Len
	}
	return len(p.Bytes)
}

// File is an open file that stays readable, even when it has been unlinked, until it is released as often as it was
// retained. Safe for concurrent use.
type File interface {
	FD() int                                       // for sendfile(2); -1 when only ReadAt works
	ReadAt(p []byte, pos int64) (n int, err error) // as io.ReaderAt
	Retain()
	Release()
}

// Size is the number of bytes that parts put on the wire.
func Size(parts []Part) int {
	n := 0
	for _, p := range parts {
		n += p.Size()
	}
	return n
}

// Release gives back the files of parts.
func Release(parts []Part) {
	for _, p := range parts {
		if p.File != nil {
			p.File.Release()
		}
	}
}
