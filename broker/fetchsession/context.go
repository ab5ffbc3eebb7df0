package fetchsession

import "github.com/twmb/franz-go/pkg/kerr"

// Request is a Fetch as far as sessions go. Open may keep Partitions.
type Request struct {
	SessionID, Epoch int32 // 0 and -1 below Fetch v7
	ByID             bool  // v13 and later
	Follower         bool
	Partitions       []Partition
	Forgotten        []Key
	// Changes makes a session that begins with this request stand, if it is a follower's: see Place.
	Changes Notifier
}

// Context is one Fetch on its way. It is owned by whoever serves the request.
type Context struct {
	cache    *Cache
	session  *session // of an incremental fetch
	epoch    int32    // that session must still have when the answer leaves
	create   bool     // make a session of the answer
	byID     bool
	follower bool
	changes  Notifier
	wanted   []Partition
	places   []*Place // of wanted, where the session stands
}

// Open finds out what a Fetch wants. A code other than 0 is the whole answer: FETCH_SESSION_ID_NOT_FOUND,
// INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
func (c *Cache) Open(r *Request) (*Context, int16) {
	if r.Epoch == epochInitial || r.Epoch == epochFinal {
		c.remove(r.SessionID)
		x := &Context{
			cache: c, create: r.Epoch == epochInitial, byID: r.ByID, follower: r.Follower, wanted: unique(r.Partitions), changes: r.Changes,
		}
		return x, 0
	}
	s := c.get(r.SessionID)
	if s == nil {
		return nil, kerr.FetchSessionIDNotFound.Code
	}
	return c.openIncremental(s, r)
}

func (c *Cache) openIncremental(s *session, r *Request) (*Context, int16) {
	s.mu.Lock()
	switch {
	case s.epoch != r.Epoch:
		s.mu.Unlock()
		return nil, kerr.InvalidFetchSessionEpoch.Code
	case s.byID != r.ByID:
		s.mu.Unlock()
		return nil, kerr.FetchSessionTopicIDError.Code
	}
	s.update(r.Partitions, r.Forgotten, r.Follower)
	size := len(s.parts)
	if size == 0 {
		s.mu.Unlock()
		c.remove(s.id)
		return &Context{cache: c, wanted: unique(r.Partitions)}, 0
	}
	s.epoch = nextEpoch(s.epoch)
	x := &Context{cache: c, session: s, epoch: s.epoch}
	if s.standing == nil {
		x.wanted = s.wanted()
	}
	s.mu.Unlock()
	if s.standing != nil {
		x.More()
	}
	c.touch(s.id, size)
	return x, 0
}

// unique drops all but the last of the entries for one partition, at the place of the first, as Kafka's map does.
func unique(ps []Partition) []Partition {
	if len(ps) < 2 {
		return ps
	}
	seen := make(map[Key]int, len(ps))
	out := ps[:0]
	for _, p := range ps {
		if i, ok := seen[p.Key]; ok {
			out[i] = p
			continue
		}
		seen[p.Key] = len(out)
		out = append(out, p)
	}
	return out
}

// Partitions returns what is to be read, in the order in which the byte budget is to be spent. The caller must not
// change it.
func (x *Context) Partitions() []Partition { return x.wanted }

// Finish takes the results, one per partition of Partitions and in its order, marks those to leave out, and returns
// the response's session id. With a code other than 0 (the session went on meanwhile, so that this was a duplicate)
// the response carries that code and no partition.
func (x *Context) Finish(results []Result) (sessionID int32, code int16) {
	if x.session != nil {
		return x.finishIncremental(results)
	}
	if !x.create {
		return NoSession, 0
	}
	return x.cache.create(x.follower, x.byID, len(results), func(s *session) {
		if x.follower && x.changes != nil {
			s.standing = newStanding(x.changes)
		}
		for i := range results {
			r := &results[i]
			s.add(&x.wanted[i], r.HighWatermark, r.LogStartOffset)
		}
	}), 0
}

// Throttled is Finish for an answer that tells nothing, since the client has to wait: what it would have told is told later.
func (x *Context) Throttled() (sessionID int32, code int16) {
	if x.session == nil {
		return NoSession, 0
	}
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	if x.session.epoch != x.epoch {
		return x.session.id, kerr.InvalidFetchSessionEpoch.Code
	}
	return x.session.id, 0
}

func (x *Context) finishIncremental(results []Result) (int32, int16) {
	s := x.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != x.epoch {
		if s.standing != nil {
			s.standing.touchAll(x.places) // what it looked at is for the other Fetch to tell
		}
		return s.id, kerr.InvalidFetchSessionEpoch.Code
	}
	if s.standing != nil {
		x.finishStanding(results)
		return s.id, 0
	}
	for i := range results {
		s.finish(&x.wanted[i].Key, &results[i])
	}
	return s.id, 0
}
