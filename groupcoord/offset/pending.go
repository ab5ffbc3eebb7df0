package offset

// Pending are the offsets that open transactions would commit, by producer id. The zero value is empty.
// After OffsetMetadataManager's pendingTransactionalOffsets and openTransactionsByGroup.
type Pending struct {
	producers map[int64]map[string]*Set     // producer id, group
	groups    map[string]map[int64]struct{} // group, producer ids
}

// Put stores what the transaction of a producer would commit.
func (p *Pending) Put(producerID int64, group, topic string, c Committed) {
	if p.producers == nil {
		p.producers, p.groups = map[int64]map[string]*Set{}, map[string]map[int64]struct{}{}
	}
	sets := p.producers[producerID]
	if sets == nil {
		sets = map[string]*Set{}
		p.producers[producerID] = sets
	}
	set := sets[group]
	if set == nil {
		set = &Set{}
		sets[group] = set
	}
	set.Put(topic, c)
	open := p.groups[group]
	if open == nil {
		open = map[int64]struct{}{}
		p.groups[group] = open
	}
	open[producerID] = struct{}{}
}

// Delete forgets what any transaction would commit for a partition.
func (p *Pending) Delete(group, topic string, partition int32) {
	for id := range p.groups[group] {
		set := p.producers[id][group]
		set.Delete(topic, partition)
		if set.Empty() {
			p.forget(id, group)
		}
	}
}

func (p *Pending) forget(producerID int64, group string) {
	delete(p.producers[producerID], group)
	if len(p.producers[producerID]) == 0 {
		delete(p.producers, producerID)
	}
	delete(p.groups[group], producerID)
	if len(p.groups[group]) == 0 {
		delete(p.groups, group)
	}
}

// End removes and returns what the transaction of a producer would commit, by group.
func (p *Pending) End(producerID int64) map[string]*Set {
	sets := p.producers[producerID]
	delete(p.producers, producerID)
	for group := range sets {
		delete(p.groups[group], producerID)
		if len(p.groups[group]) == 0 {
			delete(p.groups, group)
		}
	}
	return sets
}

// Open reports whether an open transaction would commit offsets of the group.
func (p *Pending) Open(group string) bool { return len(p.groups[group]) > 0 }

// Has reports whether an open transaction would commit an offset for a partition.
func (p *Pending) Has(group, topic string, partition int32) bool {
	for id := range p.groups[group] {
		if p.producers[id][group].Get(topic, partition) != nil {
			return true
		}
	}
	return false
}

// Each calls f for every partition of the group that an open transaction would commit an offset for; more than once for a
// partition of several transactions.
func (p *Pending) Each(group string, f func(topic string, partition int32)) {
	for id := range p.groups[group] {
		for topic, list := range p.producers[id][group].Topics() {
			for i := range list {
				f(topic, list[i].Partition)
			}
		}
	}
}
