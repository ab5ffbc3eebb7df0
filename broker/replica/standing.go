package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/broker/replica/insync"
)

// Standing makes a follower's Fetch cost what has happened since the one before, not what it follows: its entries are only those at
// which something happened, and more come while it waits (fetchsession.Place).
type Standing struct {
	// Changes is told whenever a Place of the session is touched.
	Changes *purgatory.List
	// More returns all entries, with those at whose places something happened meanwhile added at the end, and the indexes of the latter
	// and of the older ones at which something happened. Called by one goroutine at a time.
	More func() (entries []FetchEntry, touched []int)
	// Looked is told when the entries so far have been looked at, and the monotonic time at which the Fetch came.
	Looked func(at time.Duration)
}

// Place is where a partition tells a follower's session that something happened to it. Safe for concurrent use.
type Place interface {
	// Touch is told whether a Fetch that waits should look now. It returns false once it is of no use any more.
	Touch(wake bool) bool
	Gone() bool // what Touch would return false for
	insync.Beat
}

// places are the places of one partition. The zero value has none.
type places struct {
	count atomic.Int32
	mu    struct {
		sync.Mutex
		list []Place
	}
}

func (p *places) add(x Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.mu.list, x) {
		return
	}
	p.mu.list = append(slices.DeleteFunc(p.mu.list, Place.Gone), x) // where nothing happens nobody else would clear away
	p.count.Store(int32(len(p.mu.list)))
}

// touch costs one atomic load where there are none.
func (p *places) touch(wake bool) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.list = slices.DeleteFunc(p.mu.list, func(x Place) bool { return !x.Touch(wake) })
	p.count.Store(int32(len(p.mu.list)))
}

// settled says whether the next Fetch need not look at an entry unless its place is touched: the follower has all that the log has. One
// out of the ISR is looked at each time, as it may join when whatever hindered it has passed.
func (e *FetchEntry) settled(p *FetchParams, end int64) bool {
	return e.Place != nil && e.Offset == end && slices.Contains(e.partition.role.Load().isr, p.ReplicaID)
}

// standingOp is a Fetch of a standing session that waits.
type standingOp struct {
	manager *Manager
	params  FetchParams
	done    func([]FetchResult)

	mu struct {
		sync.Mutex
		entries  []FetchEntry
		results  []FetchResult // of the first look, without records
		changed  bitset        // entries to be read again
		finished bool
	}
}

// parkStanding has a Fetch wait whose first look was not enough.
func (m *Manager) parkStanding(p *FetchParams, entries []FetchEntry, results []FetchResult, done func([]FetchResult)) {
	op := &standingOp{manager: m, params: *p, done: done}
	op.mu.entries, op.mu.results = entries, results
	op.mu.changed = op.mu.changed.grown(len(entries))
	for i := range entries {
		entries[i].told = results[i].LogStartOffset
		if results[i].Records.Size() > 0 {
			op.mu.changed.add(i)
		}
	}
	release(results)
	m.purgatory.Watch(op, p.MaxWait, p.Standing.Changes)
}

// grow takes over what has happened. The caller holds mu.
func (o *standingOp) grow() {
	entries, touched := o.params.Standing.More()
	for i := len(o.mu.entries); i < len(entries); i++ {
		r := refusal(nil)
		entries[i].told = -1
		o.mu.results = append(o.mu.results, r)
	}
	o.mu.entries = entries
	o.mu.changed = o.mu.changed.grown(len(entries))
	for _, i := range touched {
		o.mu.changed.add(i)
	}
}

// Ready is fetchOp.Ready, of the entries at which something happened.
func (o *standingOp) Ready() bool {
	if o.params.Gone != nil && o.params.Gone() {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.finished {
		return true
	}
	o.grow()
	total := 0
	for i := range o.mu.entries {
		if !o.mu.changed.has(i) {
			continue
		}
		bytes, ends := o.manager.standingLook(&o.params, &o.mu.entries[i])
		if total += bytes; ends || total >= o.params.MinBytes {
			return true
		}
	}
	return false
}

// standingLook returns how much of an entry could be answered now, or that the wait ends for another reason; a follower is told at once
// when the log start moved, since a DeleteRecords may wait for it.
func (m *Manager) standingLook(p *FetchParams, e *FetchEntry) (bytes int, ends bool) {
	if e.Err != nil {
		return 0, true
	}
	if e.partition == nil {
		var err error
		if e.partition, err = m.lookup(e.Topic, e.TopicID, e.Partition); err != nil {
			return 0, true
		}
		e.told = e.partition.log.Bounds().Start
	}
	if bytes, ends = e.waiting(p); ends {
		return bytes, true
	}
	return bytes, e.partition.log.Bounds().Start != e.told
}

// Finish answers with what is there.
func (o *standingOp) Finish(expired bool) {
	o.manager.ended(&o.params, expired)
	o.mu.Lock()
	o.grow()
	o.mu.finished = true
	entries, results, changed := o.mu.entries, o.mu.results, o.mu.changed
	o.mu.Unlock()
	o.manager.read(&o.params, entries, results, changed)
	o.manager.answer(&o.params, entries, results, o.done)
}

func (b bitset) grown(n int) bitset {
	for len(b) < (n+63)/64 {
		b = append(b, 0)
	}
	return b
}
