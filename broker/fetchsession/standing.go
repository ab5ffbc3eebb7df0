package fetchsession

import (
	"math"
	"sync"
	"time"
)

// A follower's session stands: whoever serves its partitions touches a partition's Place when something happens there, and a Fetch
// then looks only at the places that were touched, that the request names, or that could not be settled last time. So what a Fetch
// costs depends on what happens, not on how many partitions are followed.

// Notifier is told that a place was touched.
type Notifier interface{ Notify() }

// Place is a partition in a standing session. Safe for concurrent use.
type Place struct {
	standing *standing
	part     *cached

	// Guarded by standing.mu.
	touched bool          // in standing.mu.touched
	told    bool          // and the Notifier has been told
	gone    bool          // no longer in the session
	until   time.Duration // LastFetch of one that is gone
	context *Context      // of the last Fetch that looked at it
	at      int           // its place there
}

// standing is what a session has for its places. Its mutex may be taken with any other held, and none is taken with it.
type standing struct {
	changes Notifier
	mu      struct {
		sync.Mutex
		touched []*Place      // in that order
		fetched time.Duration // monotonic time of the last Fetch that looked at all that was touched
		closed  bool          // the session is no more
	}
}

func newStanding(n Notifier) *standing {
	s := &standing{changes: n}
	s.mu.fetched = math.MinInt64 / 4
	return s
}

// Touch says that something happened to the partition, and if wake is set that a Fetch which waits should look at it now. It returns
// false once the place is gone, so that it need not be kept.
func (p *Place) Touch(wake bool) bool {
	s := p.standing
	s.mu.Lock()
	gone := p.gone || s.mu.closed
	s.touch(p)
	tell := wake && !p.told && !gone
	p.told = p.told || tell
	s.mu.Unlock()
	if tell {
		s.changes.Notify()
	}
	return !gone
}

// Gone says whether Touch is of no use any more.
func (p *Place) Gone() bool {
	s := p.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.gone || s.mu.closed
}

// LastFetch is the monotonic time of the follower's last Fetch that asked for the partition.
func (p *Place) LastFetch() time.Duration {
	s := p.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gone {
		return p.until
	}
	return s.mu.fetched
}

// touch needs mu.
func (s *standing) touch(p *Place) {
	if !p.touched && !p.gone && !s.mu.closed {
		p.touched = true
		s.mu.touched = append(s.mu.touched, p)
	}
}

func (s *standing) touchAll(ps []*Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		s.touch(p)
	}
}

// close ends all places. s may be nil.
func (s *standing) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
}

// leave takes a place out of its session.
func (p *Place) leave() {
	s := p.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	p.gone, p.until = true, s.mu.fetched
}

// take gives a Fetch the places that were touched: those that are new to it, and where the others are in it.
func (s *standing) take(x *Context) (added []*Place, again []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.mu.touched {
		s.mu.touched[i] = nil
		p.touched, p.told = false, false
		switch {
		case p.gone:
		case p.context == x:
			again = append(again, p.at)
		default:
			p.context, p.at = x, len(x.places)+len(added)
			added = append(added, p)
		}
	}
	s.mu.touched = s.mu.touched[:0]
	return added, again
}

// pending returns the places that were touched.
func (s *standing) pending() []*Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Place(nil), s.mu.touched...)
}

// Standing says whether the Fetch only looks at what was touched. Then it must wait for the session's Notifier too, and ask for More.
func (x *Context) Standing() bool { return x.session != nil && x.session.standing != nil }

// Changes is the Notifier that came with the request for the session.
func (x *Context) Changes() Notifier { return x.session.standing.changes }

// Place is where the partition with that index is touched; nil where the session does not stand.
func (x *Context) Place(i int) *Place {
	if !x.Standing() {
		return nil
	}
	return x.places[i]
}

// Looked says that what More and Partitions returned was looked at, at that monotonic time.
func (x *Context) Looked(at time.Duration) {
	s := x.session.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fetched = max(s.mu.fetched, at)
}

// More adds the places that were touched meanwhile to Partitions, and returns the indexes of all that were touched. It is for the same
// goroutine as Finish, or one that has handed over to it.
func (x *Context) More() (touched []int) {
	s := x.session
	added, touched := s.standing.take(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range added {
		touched = append(touched, len(x.wanted))
		x.places = append(x.places, p)
		x.wanted = append(x.wanted, p.part.Partition)
	}
	return touched
}

// finishStanding is finishIncremental where the session stands. The caller holds the session's mu.
func (x *Context) finishStanding(results []Result) {
	s := x.session
	open := make([]*Place, 0, len(results))
	for i := range results {
		p := x.places[i]
		if p.part.next != nil {
			s.note(p.part, &results[i])
		}
		if !results[i].Settled {
			open = append(open, p)
		}
	}
	s.standing.touchAll(open)
}
