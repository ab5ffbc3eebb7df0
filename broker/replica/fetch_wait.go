package replica

import (
	"sync"

	"github.com/gregor-broker/gregor/broker/purgatory"
)

// fetchOp is a Fetch that waits for bytes.
//
// A follower's Fetch waits for all that it follows of this broker, thousands of partitions perhaps, and one record in one
// of them ends the wait. So a Notify has only its own partition looked at, and of many partitions only those are read
// again in the end at which something was seen to happen; of the others the first look still holds.
type fetchOp struct {
	manager *Manager
	params  FetchParams
	entries []FetchEntry
	results []FetchResult // of the first look, without records
	listed  []int32       // entry of each list
	done    func([]FetchResult)

	mu struct {
		sync.Mutex
		changed bitset // entries to be read again
	}
}

// fewEntries is up to how many partitions all are read again when a wait ends, so that one answer brings all that one
// Produce brought.
const fewEntries = 64

// park has a Fetch wait whose first look was not enough.
func (m *Manager) park(p *FetchParams, entries []FetchEntry, results []FetchResult, done func([]FetchResult)) {
	op := &fetchOp{manager: m, params: *p, entries: entries, results: results, done: done}
	op.listed = make([]int32, 0, len(entries))
	op.mu.changed = make(bitset, (len(entries)+63)/64)
	lists := make([]*purgatory.List, 0, len(entries))
	for i := range entries {
		if entries[i].partition == nil {
			continue
		}
		entries[i].told = results[i].LogStartOffset
		op.listed = append(op.listed, int32(i))
		lists = append(lists, &entries[i].partition.fetches)
		if results[i].Records.Size() > 0 {
			op.mu.changed.add(i)
		}
	}
	release(results)
	m.purgatory.Watch(op, p.MaxWait, lists...)
}

// Ready follows DelayedFetch.tryComplete: enough bytes (case G), or something that no waiting mends: the leadership or
// the partition is gone (A to D), the epoch is fenced (E), the log was cut below the offset (F) or its history changed
// (H).
func (o *fetchOp) Ready() bool {
	if o.gone() {
		return true
	}
	total := 0
	for _, i := range o.listed {
		bytes, hopeless := o.entries[i].waiting(&o.params)
		if bytes > 0 || hopeless {
			o.change(int(i))
		}
		total += bytes
		if hopeless || total >= o.params.MinBytes {
			return true
		}
	}
	return false
}

// ReadyAt is Ready after something happened to one partition. A follower is also told at once when the log start moved,
// since a DeleteRecords may wait for it.
func (o *fetchOp) ReadyAt(list int) bool {
	i := int(o.listed[list])
	o.change(i)
	e := &o.entries[i]
	bytes, hopeless := e.waiting(&o.params)
	switch {
	case hopeless || bytes > 0 && bytes >= o.params.MinBytes || o.gone():
		return true
	case o.params.ReplicaID >= 0 && e.partition.log.Bounds().Start != e.told:
		return true
	}
	return o.params.MinBytes > 1 && bytes > 0 && o.Ready()
}

func (o *fetchOp) gone() bool { return o.params.Gone != nil && o.params.Gone() }

func (o *fetchOp) change(i int) {
	o.mu.Lock()
	o.mu.changed.add(i)
	o.mu.Unlock()
}

// Finish answers with what is there.
func (o *fetchOp) Finish(expired bool) {
	o.manager.ended(&o.params, expired)
	var changed bitset
	if len(o.entries) > fewEntries {
		o.mu.Lock()
		changed = append(changed, o.mu.changed...)
		o.mu.Unlock()
	}
	o.manager.read(&o.params, o.entries, o.results, changed)
	o.manager.answer(&o.params, o.entries, o.results, o.done)
}

// waiting returns how much of the partition could be answered now, or that an answer other than bytes is due.
func (e *FetchEntry) waiting(p *FetchParams) (bytes int, hopeless bool) {
	role, err := e.allowed(p)
	if err != nil {
		return 0, true
	}
	l := e.partition.log
	b := l.Bounds()
	if e.Offset > b.End || e.Offset < b.Start {
		return 0, true
	}
	if e.LastFetchedEpoch >= 0 {
		if end, err := diverging(l, e); end != nil || err != nil {
			return 0, true
		}
	}
	if e.partition.manager.holdsBack(p, e, role) {
		return 0, false
	}
	return int(min(l.BytesFrom(e.Offset, p.isolation()), int64(max(0, e.MaxBytes)))), false
}

// bitset is a set of small numbers.
type bitset []uint64

func (b bitset) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
