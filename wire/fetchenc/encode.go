package fetchenc

import "encoding/binary"

func (e *encoder) response(r *Response) {
	if e.version >= throttled {
		e.int32(r.ThrottleMillis)
	}
	if e.version >= sessions {
		e.int16(r.ErrorCode)
		e.int32(r.SessionID)
	}
	e.arrayLen(len(r.Topics))
	for i := range r.Topics {
		e.topic(&r.Topics[i])
	}
	if e.version < flexible {
		return
	}
	if len(r.Brokers) == 0 || e.version < withLeader {
		e.noTags()
		return
	}
	e.uvarint(1)
	e.tagged(0, func() { e.brokers(r.Brokers) })
}

func (e *encoder) topic(t *Topic) {
	if e.version >= byID {
		e.buf = append(e.buf, t.TopicID[:]...)
	} else {
		e.string(t.Topic)
	}
	e.arrayLen(len(t.Partitions))
	for i := range t.Partitions {
		e.partition(&t.Partitions[i])
	}
	e.noTags()
}

func (e *encoder) partition(p *Partition) {
	e.int32(p.Partition)
	e.int16(p.ErrorCode)
	e.int64(p.HighWatermark)
	if e.version >= isolated {
		e.int64(p.LastStableOffset)
	}
	if e.version >= logStart {
		e.int64(p.LogStartOffset)
	}
	if e.version >= isolated {
		e.aborted(p.AbortedTransactions)
	}
	if e.version >= rackAware {
		e.int32(p.PreferredReadReplica)
	}
	e.records(p.Records)
	if e.version >= flexible {
		e.partitionTags(p)
	}
}

func (e *encoder) aborted(txns []AbortedTransaction) {
	if txns == nil {
		e.nullArray()
		return
	}
	e.arrayLen(len(txns))
	for _, t := range txns {
		e.int64(t.ProducerID)
		e.int64(t.FirstOffset)
		e.noTags()
	}
}

// partitionTags writes the tagged fields, which are left out where they have their default.
func (e *encoder) partitionTags(p *Partition) {
	tags := uint32(0)
	if p.DivergingEpoch != nil {
		tags++
	}
	if p.CurrentLeader != nil {
		tags++
	}
	e.uvarint(tags)
	if d := p.DivergingEpoch; d != nil {
		e.tagged(0, func() { e.int32(d.Epoch); e.int64(d.EndOffset); e.noTags() })
	}
	if l := p.CurrentLeader; l != nil {
		e.tagged(1, func() { e.int32(l.ID); e.int32(l.Epoch); e.noTags() })
	}
}

func (e *encoder) brokers(all []Broker) {
	e.arrayLen(len(all))
	for _, b := range all {
		e.int32(b.NodeID)
		e.string(b.Host)
		e.int32(b.Port)
		e.nullableString(b.Rack)
		e.noTags()
	}
}

// tagged writes a field with its tag and size. write must not touch file ranges.
func (e *encoder) tagged(tag uint32, write func()) {
	e.uvarint(tag)
	outer := e.buf
	e.buf = nil
	write()
	inner := e.buf
	e.buf = outer
	e.uvarint(uint32(len(inner)))
	e.buf = append(e.buf, inner...)
}

func (e *encoder) int16(n int16)    { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(n)) }
func (e *encoder) int32(n int32)    { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(n)) }
func (e *encoder) int64(n int64)    { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(n)) }
func (e *encoder) uvarint(n uint32) { e.buf = binary.AppendUvarint(e.buf, uint64(n)) }

func (e *encoder) noTags() {
	if e.version >= flexible {
		e.buf = append(e.buf, 0)
	}
}

func (e *encoder) arrayLen(n int) {
	if e.version >= flexible {
		e.uvarint(uint32(n) + 1)
	} else {
		e.int32(int32(n))
	}
}

func (e *encoder) nullArray() {
	if e.version >= flexible {
		e.uvarint(0)
	} else {
		e.int32(-1)
	}
}

func (e *encoder) string(s string) {
	if e.version >= flexible {
		e.uvarint(uint32(len(s)) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

// nullableString is only used in flexible versions.
func (e *encoder) nullableString(s *string) {
	if s == nil {
		e.uvarint(0)
		return
	}
	e.string(*s)
}
