// Package fetchsession remembers what a client fetches, so that its next Fetch only names what changed and the answer
// only carries what is new (KIP-227).
//
// A Fetch is opened with Cache.Open, which says what to read, and ended with Context.Finish, which says which results
// to answer. Between the two nothing is locked. A session is a list of partitions: those answered with records move to
// its end, so that a busy one does not eat the byte budget of the rest for ever.
//
// After kafka.server.FetchSession of Apache Kafka 3.9 (4.4's is the same).
package fetchsession

import (
	"math"
	"sync"
)

const (
	// NoSession is the session id of requests and responses without a session.
	NoSession = 0
	// epochInitial asks for a new session, epochFinal for none and for the end of the one named.
	epochInitial = 0
	epochFinal   = -1
)

// Key names a partition in a session: by id from Fetch v13 on, by name before.
type Key struct {
	ID        [16]byte // zero in a session of names
	Topic     string   // empty in a session of ids
	Partition int32
}

// Partition is what a client wants of one partition.
type Partition struct {
	Key
	CurrentLeaderEpoch int32 // -1: not to be checked
	LastFetchedEpoch   int32 // -1: not to be checked
	MaxBytes           int32
	FetchOffset        int64
	LogStartOffset     int64 // a follower's, else -1
}

// Result is what Finish needs to know of the answer for one partition.
type Result struct {
	RecordBytes    int
	HighWatermark  int64
	LogStartOffset int64
	Code           int16
	Always         bool // answered even if nothing changed: a preferred replica or a diverging epoch
	// Settled says that the next Fetch need not look at the partition unless its Place is touched. Only where the session stands.
	Settled bool

	Omit bool // set by Finish: leave the partition out of the response
}

// session is a client's list of partitions. Its mutex is never held together with another.
type session struct {
	id    int32
	byID  bool // uses topic ids
	mu    sync.Mutex
	epoch int32 // that the next request must have
	parts map[Key]*cached
	list  cached // ring: next is the first, prev the last

	standing *standing // of a follower's session, else nil
}

// cached is a partition in a session.
type cached struct {
	Partition
	highWatermark  int64 // as last answered; -1 after an error, so that its end is answered
	logStartOffset int64
	next, prev     *cached
	place          *Place // where the session stands
}

func newSession(id int32, byID bool, size int) *session {
	s := &session{id: id, byID: byID, epoch: nextEpoch(epochInitial), parts: make(map[Key]*cached, size)}
	s.list.next, s.list.prev = &s.list, &s.list
	return s
}

// nextEpoch follows FetchMetadata.nextEpoch: after the largest comes 1, since 0 would start a new session.
func nextEpoch(e int32) int32 {
	switch {
	case e < 0:
		return epochFinal
	case e == math.MaxInt32:
		return 1
	}
	return e + 1
}

func (s *session) append(c *cached) {
	c.prev, c.next = s.list.prev, &s.list
	c.prev.next, s.list.prev = c, c
}

func (s *session) unlink(c *cached) {
	c.prev.next, c.next.prev = c.next, c.prev
	c.next, c.prev = nil, nil
}

// add puts a partition at the end. The caller holds mu or is the only one to know s.
func (s *session) add(p *Partition, highWatermark, logStartOffset int64) {
	c := &cached{Partition: *p, highWatermark: highWatermark, logStartOffset: logStartOffset}
	s.parts[p.Key] = c
	s.append(c)
	if s.standing != nil {
		c.place = &Place{standing: s.standing, part: c}
		s.standing.touchAll([]*Place{c.place})
	}
}

// update applies a request: new partitions, changed ones, forgotten ones. The caller holds mu.
//
// A follower that names a partition without having got on begins anew, or had to truncate: it may not have taken the high
// watermark that it was told last, and is told again. In Kafka it stays below until the next record comes.
func (s *session) update(changed []Partition, forgotten []Key, follower bool) {
	for i := range changed {
		if c := s.parts[changed[i].Key]; c != nil {
			if p := &changed[i]; follower && (p.FetchOffset <= c.FetchOffset || p.CurrentLeaderEpoch != c.CurrentLeaderEpoch) {
				c.highWatermark = -1
			}
			c.Partition = changed[i]
			if s.standing != nil {
				// A follower that was told to begin anew with a partition has not taken the answer that was on its way.
				c.highWatermark = -1
				s.standing.touchAll([]*Place{c.place})
			}
		} else {
			s.add(&changed[i], -1, -1)
		}
	}
	for _, k := range forgotten {
		if c := s.parts[k]; c != nil {
			delete(s.parts, k)
			s.unlink(c)
			if c.place != nil {
				c.place.leave()
			}
		}
	}
}

// wanted copies the partitions in order. The caller holds mu.
func (s *session) wanted() []Partition {
	ps := make([]Partition, 0, len(s.parts))
	for c := s.list.next; c != &s.list; c = c.next {
		ps = append(ps, c.Partition)
	}
	return ps
}

// finish notes what is answered for a partition and sets r.Omit. The caller holds mu.
func (s *session) finish(k *Key, r *Result) {
	c := s.parts[*k]
	if c == nil {
		return // forgotten by a later request, which has a later epoch, so this cannot be; answer it then
	}
	s.note(c, r)
}

// note is finish for a partition that is there.
func (s *session) note(c *cached, r *Result) {
	answer := r.RecordBytes > 0 || r.Always || r.Code != 0
	if c.highWatermark != r.HighWatermark {
		c.highWatermark = r.HighWatermark
		answer = true
	}
	if c.logStartOffset != r.LogStartOffset {
		c.logStartOffset = r.LogStartOffset
		answer = true
	}
	if r.Code != 0 {
		c.highWatermark = -1
	}
	if r.RecordBytes > 0 {
		s.unlink(c)
		s.append(c)
	}
	r.Omit = !answer
}
