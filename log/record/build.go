package record

// BatchOptions are the header fields of a batch to build. The zero value is a batch without producer only if ProducerID,
// ProducerEpoch and BaseSequence are -1: use NoProducer.
type BatchOptions struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         Codec
	Level         int // of the codec, 0 for its default
	TimestampType TimestampType
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
}

// NoProducer returns o without an idempotent producer.
func (o BatchOptions) NoProducer() BatchOptions {
	o.ProducerID, o.ProducerEpoch, o.BaseSequence = -1, -1, -1
	return o
}

// Build makes a batch of magic 2 of recs, at least one. Offsets are BaseOffset+i unless the records carry rising
// offsets from BaseOffset on. Nothing of recs is kept.
func Build(o BatchOptions, recs []Record) (Batch, error) { panic("not yet") }
