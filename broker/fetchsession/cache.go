package fetchsession

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

const (
	shardCount = 8
	// idRange is how many session ids belong to a shard.
	idRange = math.MaxInt32 / shardCount
	// stale is how long a session must be unused to be evicted by any new one, and how old to be evicted by a larger
	// one (KafkaBroker.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
	stale = 2 * time.Minute
	// maxPartitions is how many partitions all sessions of a shard may hold, about 32 MiB of them. What does not fit is
	// fetched without a session, at the price of larger requests. Kafka has no such limit.
	maxPartitions = 1 << 17
)

// Cache holds the sessions. Safe for concurrent use.
type Cache struct {
	clock  clock.Clock
	slots  int // per shard
	shards [shardCount]shard
	next   struct {
		sync.Mutex
		shard int
	}
}

// shard holds the sessions whose ids are in its range. Eviction looks at all of them: there are 125 with the default
// of 1,000 slots, and it happens only when a session is to be made and the shard is full.
type shard struct {
	mu         sync.Mutex
	sessions   map[int32]*entry
	partitions int // of all sessions
	evicted    int64
}

// entry is a session's place in the cache; guarded by the shard's mutex.
type entry struct {
	session                     *session
	privileged                  bool
	created, used               time.Duration
	size                        int  // partitions when last used
	byPrivileged, byAnyoneLarge bool // who may evict it, as of its last use
}

// NewCache returns a cache with room for slots sessions (max.incremental.fetch.session.cache.slots), shared out among
// eight shards as Kafka does: fewer than eight slots are none.
func NewCache(slots int, c clock.Clock) *Cache {
	k := &Cache{clock: c, slots: slots / shardCount}
	for i := range k.shards {
		k.shards[i].sessions = map[int32]*entry{}
	}
	return k
}

// Len returns the number of sessions.
func (c *Cache) Len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.sessions)
		s.mu.Unlock()
	}
	return n
}

// Stats returns how many sessions there are, how many partitions they held when last used, and how many were evicted so far.
func (c *Cache) Stats() (sessions, partitions int, evicted int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		sessions, partitions, evicted = sessions+len(s.sessions), partitions+s.partitions, evicted+s.evicted
		s.mu.Unlock()
	}
	return sessions, partitions, evicted
}

// shardOf returns nil for an id that no shard hands out.
func (c *Cache) shardOf(id int32) *shard {
	if id <= 0 || id/idRange >= shardCount {
		return nil
	}
	return &c.shards[id/idRange]
}

func (c *Cache) get(id int32) *session {
	s := c.shardOf(id)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.sessions[id]; e != nil {
		return e.session
	}
	return nil
}

func (c *Cache) remove(id int32) {
	if s := c.shardOf(id); s != nil {
		s.mu.Lock()
		s.remove(id)
		s.mu.Unlock()
	}
}

// remove takes a session out, if it is there. The caller holds mu.
func (s *shard) remove(id int32) {
	if e := s.sessions[id]; e != nil {
		s.partitions -= e.size
		delete(s.sessions, id)
		e.session.standing.close()
	}
}

// Partitions returns how many partitions a session had when it was last used, 0 if it does not exist.
func (c *Cache) Partitions(id int32) int {
	s := c.shardOf(id)
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.sessions[id]; e != nil {
		return e.size
	}
	return 0
}

// Pending returns how many partitions of a session the next Fetch will look at besides those that it names.
func (c *Cache) Pending(id int32) int {
	if s := c.get(id); s != nil && s.standing != nil {
		return len(s.standing.pending())
	}
	return c.Partitions(id)
}

// All says whether holds is true of every partition that Pending counts, as it was last asked for; true if there is none. holds
// must not call the cache, nor change or keep what it is given.
func (c *Cache) All(id int32, holds func(*Partition) bool) bool {
	s := c.get(id)
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standing != nil {
		for _, p := range s.standing.pending() {
			if !holds(&p.part.Partition) {
				return false
			}
		}
		return true
	}
	for e := s.list.next; e != &s.list; e = e.next {
		if !holds(&e.Partition) {
			return false
		}
	}
	return true
}

// touch notes that a session was used and how large it is now. One that has outgrown the shard is forgotten: its client
// is told so when it comes again.
func (c *Cache) touch(id int32, size int) {
	now := c.clock.Monotonic()
	s := c.shardOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.sessions[id]
	if e == nil {
		return
	}
	s.partitions += size - e.size
	e.touch(now, size)
	if s.partitions > maxPartitions {
		s.remove(id)
	}
}

func (e *entry) touch(now time.Duration, size int) {
	e.used, e.size = now, size
	e.byAnyoneLarge = now-e.created > stale
	e.byPrivileged = !e.privileged || e.byAnyoneLarge
}

// create makes a session, which fill fills, in the next shard if that has room or can make some; else it returns
// NoSession.
func (c *Cache) create(privileged, byID bool, size int, fill func(*session)) int32 {
	now := c.clock.Monotonic()
	n := c.nextShard()
	s := &c.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partitions+size > maxPartitions || len(s.sessions) >= c.slots && !s.evict(privileged, size, now) {
		return NoSession
	}
	id := s.newID(n)
	e := &entry{session: newSession(id, byID, size), privileged: privileged, created: now}
	fill(e.session)
	e.touch(now, size)
	s.sessions[id] = e
	s.partitions += size
	return id
}

func (c *Cache) nextShard() int {
	c.next.Lock()
	defer c.next.Unlock()
	c.next.shard = (c.next.shard + 1) % shardCount
	return c.next.shard
}

// newID returns an id that no session of the shard has. The caller holds mu.
func (s *shard) newID(shard int) int32 {
	low := max(1, int32(shard)*idRange)
	for {
		id := low + rand.Int32N(int32(shard+1)*idRange-low)
		if s.sessions[id] == nil {
			return id
		}
	}
}

// evict makes room for a session of size partitions, if there is one that is stale or worth less than the new one: not
// privileged while that is, or smaller and not made recently. The caller holds mu.
func (s *shard) evict(privileged bool, size int, now time.Duration) bool {
	var oldest, least *entry
	for _, e := range s.sessions {
		if oldest == nil || e.used < oldest.used {
			oldest = e
		}
		open := e.byAnyoneLarge || privileged && e.byPrivileged
		if open && (least == nil || e.lessValuable(least)) {
			least = e
		}
	}
	victim := least
	switch {
	case oldest == nil:
		return false
	case now-oldest.used > stale:
		victim = oldest
	case least == nil, least.worthMore(privileged, size):
		return false
	}
	s.remove(victim.session.id)
	s.evicted++
	return true
}

func (e *entry) lessValuable(than *entry) bool {
	if e.privileged != than.privileged {
		return !e.privileged
	}
	if e.size != than.size {
		return e.size < than.size
	}
	return e.session.id < than.session.id
}

// worthMore says whether e is kept in favour of a new session. Kafka compares (privileged, size, id) with an id of 0
// for the new one, so that of two equal ones the old is kept.
func (e *entry) worthMore(privileged bool, size int) bool {
	if e.privileged != privileged {
		return e.privileged
	}
	return e.size >= size
}
