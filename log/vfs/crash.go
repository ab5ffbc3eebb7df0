package vfs

import "math/rand/v2"

// Kill returns a copy as a new process finds it after this one was killed: everything written is there, locks are not.
func (m *Mem) Kill() *Mem { return m.copy(func(n *memNode) *memNode { return n.cloneCurrent() }) }

// Crash returns a copy as the next boot finds it after a power failure that lost everything not synced.
func (m *Mem) Crash() *Mem {
	return m.copy(func(n *memNode) *memNode { return n.cloneDurable(nil, map[*memNode]*memNode{}) })
}

// CrashSome is Crash, but of what was not synced r decides what was written all the same: names, and pages and sizes of
// files, in any combination. A disk may do that, too.
func (m *Mem) CrashSome(r *rand.Rand) *Mem {
	return m.copy(func(n *memNode) *memNode { return n.cloneDurable(r, map[*memNode]*memNode{}) })
}

func (m *Mem) copy(clone func(*memNode) *memNode) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem(m.capacity, m.now)
	c.mu.root = clone(m.mu.root)
	c.mu.used = c.mu.root.bytes()
	return c
}

func (n *memNode) cloneCurrent() *memNode {
	c := &memNode{dir: n.dir, modified: n.modified}
	if !n.dir {
		c.data, c.synced = n.data.share(), n.synced.share()
		return c
	}
	c.entries = make(map[string]*memNode, len(n.entries))
	for base, child := range n.entries {
		c.entries[base] = child.cloneCurrent()
	}
	// What the killed process had not synced is still not durable, but this copy will not be asked to crash that far back.
	c.syncEntries()
	return c
}

// cloneDurable copies what was synced; with r also some of the rest. done maps what was copied before, as a file may
// have two durable names after a rename of which one directory was synced.
func (n *memNode) cloneDurable(r *rand.Rand, done map[*memNode]*memNode) *memNode {
	if c := done[n]; c != nil {
		return c
	}
	c := &memNode{dir: n.dir, modified: n.modified}
	done[n] = c
	if !n.dir {
		c.data = n.synced.share()
		if r != nil {
			c.data = n.mix(r)
		}
		c.synced = c.data.share()
		return c
	}
	c.entries = map[string]*memNode{}
	for base, child := range n.durable {
		if now := n.entries[base]; r != nil && now != child && r.IntN(2) == 0 {
			if now == nil {
				continue // a removal, or the old name of a rename
			}
			child = now
		}
		c.entries[base] = child.cloneDurable(r, done)
	}
	for base, child := range n.entries {
		if r != nil && n.durable[base] == nil && r.IntN(2) == 0 {
			c.entries[base] = child.cloneDurable(r, done)
		}
	}
	c.syncEntries()
	return c
}

// mix returns a content between the synced and the current one.
func (n *memNode) mix(r *rand.Rand) pages {
	out := n.synced.share()
	if n.data.size == n.synced.size && r.IntN(2) == 0 {
		return out
	}
	switch r.IntN(3) {
	case 0:
		return out
	case 1:
		return n.data.share()
	}
	size := n.synced.size
	if grown := n.data.size - size; grown > 0 {
		size += r.Int64N(grown + 1)
	} else if r.IntN(2) == 0 {
		size = n.data.size
	}
	buf := make([]byte, pageSize)
	for i := range n.data.list {
		pos := int64(i) * pageSize
		if pos >= size || r.IntN(2) == 0 {
			continue
		}
		k, _ := n.data.readAt(buf[:min(pageSize, size-pos)], pos)
		out.writeAt(buf[:k], pos)
	}
	out.truncate(size)
	return out
}
