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
//
// What a group of commits changes is staged, by parent and name, and written in the order of keys at the end: bbolt keeps a page's keys in
// one sorted slice until it commits, so thousands of inserts in random places would each move half of them.
type view struct {
	nodes     *bbolt.Bucket
	ephemeral map[string]tree.Record
	staged    map[string]map[string]tree.Change
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

// split returns a node's parent and name.
func split(path string) (parent, name string) {
	parent = store.Parent(path)
	if parent == "/" {
		return parent, path[1:]
	}
	return parent, path[len(parent)+1:]
}

// Get implements tree.Base.
func (v view) Get(path string) (tree.Record, bool) {
	parent, name := split(path)
	if c, ok := v.staged[parent][name]; ok {
		return c.Record, !c.Deleted
	}
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
		staged := v.staged[path]
		for name, c := range staged {
			if !c.Deleted && !yield(name) {
				return
			}
		}
		for name := range v.stored(path) {
			if _, changed := staged[name]; !changed && !yield(name) {
				return
			}
		}
	}
}

// stored lists the children without what is staged.
func (v view) stored(path string) iter.Seq[string] {
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

// stage adds the changes of a commit to those of the group.
func (v view) stage(changes map[string]tree.Change) {
	for path, c := range changes {
		parent, name := split(path)
		if v.staged[parent] == nil {
			v.staged[parent] = map[string]tree.Change{}
		}
		v.staged[parent][name] = c
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

// write puts what is staged into the transaction and the map, and reports whether the file is concerned.
func (v view) write() (durable bool, err error) {
	puts := map[string]tree.Change{}
	var keys []string
	for parent, names := range v.staged {
		for name, c := range names {
			path := parent + "/" + name
			if parent == "/" {
				path = "/" + name
			}
			if v.stays(path, c) {
				k := string(key(path))
				keys, puts[k] = append(keys, k), c
			}
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if c := puts[k]; c.Deleted {
			err = v.nodes.Delete([]byte(k))
		} else {
			err = v.nodes.Put([]byte(k), encode(c.Record))
		}
		if err != nil {
			return true, err
		}
	}
	return len(keys) > 0, nil
}

// stays takes care of ephemeral nodes, and reports whether the file must change too.
func (v view) stays(path string, c tree.Change) bool {
	_, was := v.ephemeral[path]
	delete(v.ephemeral, path)
	if !c.Deleted && c.Record.Stat.EphemeralOwner != 0 {
		c.Record.Data = slices.Clone(c.Record.Data)
		v.ephemeral[path] = c.Record
		return false
	}
	return !was || !c.Deleted
}
