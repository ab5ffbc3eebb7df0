package api

import "sync"

// ProducerIDs hands out producer ids from blocks that the controller allocates. Safe for concurrent use.
type ProducerIDs struct {
	allocate func(done func(first, count int64, err error))
	mu       struct {
		sync.Mutex
		next, end int64
		waiting   []func(id int64, err error)
	}
}

// NewProducerIDs returns a source over allocate, which fetches a block of count ids from first on.
func NewProducerIDs(allocate func(done func(first, count int64, err error))) *ProducerIDs {
	return &ProducerIDs{allocate: allocate}
}

// Next calls done with an id that nobody else has, at once or when a block has come.
func (p *ProducerIDs) Next(done func(id int64, err error)) {
	p.mu.Lock()
	if p.mu.next < p.mu.end {
		id := p.mu.next
		p.mu.next++
		p.mu.Unlock()
		done(id, nil)
		return
	}
	p.mu.waiting = append(p.mu.waiting, done)
	first := len(p.mu.waiting) == 1
	p.mu.Unlock()
	if first {
		p.allocate(p.block)
	}
}

// block takes a new block, or the reason why there is none, to those who wait. Who finds it used up asks again.
func (p *ProducerIDs) block(first, count int64, err error) {
	p.mu.Lock()
	waiting := p.mu.waiting
	p.mu.waiting = nil
	if err == nil {
		p.mu.next, p.mu.end = first, first+count
	}
	p.mu.Unlock()
	for _, done := range waiting {
		if err != nil {
			done(-1, err)
			continue
		}
		p.Next(done)
	}
}
