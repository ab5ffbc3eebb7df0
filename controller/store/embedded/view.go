package embedded

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/tree"
	"go.etcd.io/bbolt"
)

// view is the tree inside one bbolt transaction, with the ephemeral nodes that belong to it.
//
// A node's key is its depth in one byte and its path, so the children of a node are neighbours and its grandchildren are not
// among them. Its value is a fixed header (recordHeader) and the data.
type view struct {
	nodes     *bbolt.Bucket
	ephemeral map[string]tree.Record
}

// recordHeader: czxid, mzxid, ctime, mtime (8 bytes each), version, next sequence number (4 each), big endian; then one byte
// that tells a node without data from one with empty data.
const recordHeader = 4*8 + 2*4 + 1

func key(path string) []byte {
	return append([]byte{byte(strings.Count(path, "/"))}, path...)
}

func encode(r tree.Record) []byte {
	b := make([]byte, 0, recordHeader+len(r.Data))
	for _, n := range []int64{r.Stat.Czxid, r.Stat.Mzxid, r.Stat.CtimeMs, r.Stat.MtimeMs} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(r.Stat.Version))
	b = binary.BigEndian.AppendUint32(b, r.NextSeq)
	if r.Data == nil {
		return append(b, 0)
	}
	return append(append(b, 1), r.Data...)
}

// decode does not copy the data: it is valid inside the transaction.
func decode(b []byte) tree.Record {
	u64 := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	r := tree.Record{
		Stat: store.Stat{Czxid: u64(0), Mzxid: u64(1), CtimeMs: u64(2), MtimeMs: u64(3),
			Version: int32(binary.BigEndian.Uint32(b[32:]))},
		NextSeq: binary.BigEndian.Uint32(b[36:]),
	}
	if b[40] == 1 {
		r.Data = b[recordHeader:]
	}
	return r
}

// Get implements tree.Base.
func (v view) Get(path string) (tree.Record, bool) {
	if r, ok := v.ephemeral[path]; ok {
		return r, true
	}
	b := v.nodes.Get(key(path))
	if len(b) < recordHeader {
		return tree.Record{}, false
	}
	return decode(b), true
}

// Children implements tree.Base.
func (v view) Children(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if path == "/" {
			path = ""
		}
		path += "/"
		prefix := append([]byte{byte(strings.Count(path, "/"))}, path...)
		c := v.nodes.Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			if len(k) > len(prefix) && !yield(string(k[len(prefix):])) {
				return
			}
		}
		for p := range v.ephemeral {
			if rest, ok := strings.CutPrefix(p, path); ok && !strings.Contains(rest, "/") && !yield(rest) {
				return
			}
		}
	}
}

// read answers a request; everything is copied out of the transaction.
func (v view) read(r store.Req) store.Node {
	n := store.Node{Path: r.Path, Exists: r.Path == "/"}
	if rec, ok := v.Get(r.Path); ok {
		n.Exists, n.Stat = true, rec.Stat
		if r.Kind == store.Data {
			n.Data = slices.Clone(rec.Data)
		}
	}
	if r.Kind == store.Children && n.Exists {
		n.Children = slices.Collect(v.Children(r.Path))
	}
	return n
}

// write puts changes into the transaction and the map, and reports whether the file is concerned.
func (v view) write(changes map[string]tree.Change) (durable bool, err error) {
	for path, c := range changes {
		_, inMemory := v.ephemeral[path]
		switch {
		case !c.Deleted && c.Record.Stat.EphemeralOwner != 0:
			c.Record.Data = slices.Clone(c.Record.Data)
			v.ephemeral[path] = c.Record
			continue
		case inMemory:
			delete(v.ephemeral, path)
			if c.Deleted {
				continue
			}
		}
		durable = true
		if c.Deleted {
			err = v.nodes.Delete(key(path))
		} else {
			err = v.nodes.Put(key(path), encode(c.Record))
		}
		if err != nil {
			return durable, err
		}
	}
	return durable, nil
}
