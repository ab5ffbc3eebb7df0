package runtime

import (
	"time"

	"github.com/gregor-broker/gregor/log/record"
)

// Done is told how an event's writes ended: nil when the high watermark has passed them, else why not. It may do what
// Machine.Handle may.
type Done func(err error, out *Out)

// Out collects what one call of the machine wants done. It is valid during that call only.
type Out struct {
	Now         Time
	LeaderEpoch int32 // of the partition: a transaction coordinator's epoch

	timers  *timers
	arena   []byte
	records []span
	done    Done
	txn     *Txn           // whose records they are
	end     *record.EndTxn // instead of records
	split   bool
	dead    bool // the shard's state is being dropped: nothing more is wanted
}

// span is a record in the arena: key, then value. A value of length -1 is null.
type span struct{ key, keyLen, valueLen int }

func (o *Out) begin(now Time) {
	o.Now, o.done, o.split = now, nil, false
	o.txn, o.end = nil, nil
	o.records = o.records[:0]
}

// Write adds a record; a nil value deletes the key. Both are copied. The records of one call are written together, in one
// batch, or not at all, unless Split is called.
func (o *Out) Write(key, value []byte) {
	if o.dead {
		return
	}
	s := span{key: len(o.arena), keyLen: len(key), valueLen: len(value)}
	if value == nil {
		s.valueLen = -1
	}
	o.arena = append(append(o.arena, key...), value...)
	o.records = append(o.records, s)
}

// Split allows the records of this call to be written in several batches.
func (o *Out) Split() { o.split = true }

// Then calls f once what this call writes is replicated; if it writes nothing, once all that was written before it is.
// Several are called in the order in which they were given.
func (o *Out) Then(f Done) {
	if before := o.done; before != nil {
		o.done = func(err error, out *Out) {
			before(err, out)
			f(err, out)
		}
		return
	}
	o.done = f
}

// Set makes t due after d, in place of an earlier deadline.
func (o *Out) Set(t *Timer, d time.Duration) {
	if !o.dead {
		o.timers.set(t, o.Now.Mono+d)
	}
}

// Stop forgets t.
func (o *Out) Stop(t *Timer) { o.timers.stop(t) }

// cut returns the key and value of s. They stay valid when the arena grows.
func (o *Out) cut(s span) (key, value []byte) {
	end := s.key + s.keyLen
	key = o.arena[s.key:end:end]
	if s.valueLen >= 0 {
		value = o.arena[end : end+s.valueLen : end+s.valueLen]
	}
	return key, value
}

// Drop forgets the records of this call.
func (o *Out) Drop() { o.records = o.records[:0] }
