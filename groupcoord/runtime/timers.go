package runtime

import "time"

// Timer is a deadline in a shard's heap. It is embedded in what it belongs to; the zero value with Event set is ready. Owned
// by the shard's goroutine.
type Timer struct {
	Event any // what Machine.Handle gets when it is due

	due   time.Duration // when it is due
	at    time.Duration // its place in the heap: at or before due
	index int           // in the heap, plus 1; 0 when not pending
}

// Pending reports whether the timer will fire.
func (t *Timer) Pending() bool { return t.index != 0 }

// timers is a binary heap by at. Moving a deadline later, which every heartbeat does, only notes the new one: the timer is
// put in its place when its old one comes.
type timers []*Timer

// set makes t due at the time due.
func (h *timers) set(t *Timer, due time.Duration) {
	t.due = due
	switch {
	case t.index == 0:
		t.at = due
		*h = append(*h, t)
		t.index = len(*h)
		h.up(t.index - 1)
	case due < t.at:
		t.at = due
		h.up(t.index - 1)
	}
}

// stop forgets t.
func (h *timers) stop(t *Timer) {
	if t.index == 0 {
		return
	}
	i, last := t.index-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

// next removes and returns a timer that is due at now, or nil.
func (h *timers) next(now time.Duration) *Timer {
	for len(*h) > 0 && (*h)[0].at <= now {
		t := (*h)[0]
		if t.due <= now {
			h.stop(t)
			return t
		}
		t.at = t.due
		h.down(0)
	}
	return nil
}

// earliest returns when to look again, false if no timer is pending.
func (h timers) earliest() (time.Duration, bool) {
	if len(h) == 0 {
		return 0, false
	}
	return h[0].at, true
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h timers) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if right := least + 1; right < len(h) && h[right].at < h[least].at {
			least = right
		}
		if h[i].at <= h[least].at {
			return
		}
		h.swap(i, least)
		i = least
	}
}
