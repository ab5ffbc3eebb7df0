package record

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// checkLegacy checks a set of magic 0 or 1 and makes one batch of it. A compressed set is one wrapper; messages without
// compression follow one another.
func checkLegacy(set []byte, r *Rules) (Checked, error) {
	source, err := checkMessages(set, r)
	if err != nil {
		return Checked{}, err
	}
	target := r.Compression.target(source)
	if target == Zstd && !r.AllowZstd {
		return Checked{}, invalidf(kerr.UnsupportedCompressionType, "Compression type %v is not supported here", target)
	}
	o := BatchOptions{Codec: target, Level: r.Compression.Level, LeaderEpoch: -1}.NoProducer()
	u := upconverter{rules: r, options: &o, size: len(set) + HeaderSize}
	defer u.free()
	for len(set) > 0 && u.err == nil {
		e, rest, _ := NextEntry(set) // checkMessages has seen it
		set = rest
		u.outer = e
		if err := e.EachMessage(Limits{}, u.message); err != nil && u.err == nil {
			u.err = err
		}
	}
	if u.err == nil {
		u.err = u.refused.err()
	}
	if u.err != nil {
		return Checked{}, rebuilt(u.err, r)
	}
	return finishRebuilt(u.builder, source, r)
}

// checkMessages checks sizes and CRCs of the outer messages, and that they belong together; it returns their codec.
func checkMessages(set []byte, r *Rules) (source Codec, err error) {
	var first Entry
	n := 0
	for ; len(set) > 0; n++ {
		e, rest, err := NextEntry(set)
		if err != nil {
			return None, err
		}
		set = rest
		if n == 0 {
			first = e
		}
		if err := checkSizeAndCRC(e, r); err != nil {
			return None, err
		}
		if e.Magic() != first.Magic() {
			return None, faultf(FaultMagic, kerr.InvalidRecord, "Batch magic %d is not the same as the first batch's magic byte %d",
				e.Magic(), first.Magic())
		}
		if e.Codec() != None {
			source = e.Codec()
		}
	}
	switch {
	case source != None && n > 1:
		return None, invalidf(kerr.InvalidRecord, "Compressed outer record has more than one batch")
	case source == Zstd:
		return None, invalidf(kerr.InvalidRecord, "Records of magic %d cannot be compressed with zstd", first.Magic())
	case !source.known():
		return None, invalidf(kerr.UnsupportedCompressionType, "Compression type %v does not exist", source)
	}
	return source, nil
}

// upconverter makes a batch of messages as they are read.
type upconverter struct {
	rules   *Rules
	options *BatchOptions
	size    int // a guess at that of the batch
	outer   Entry
	builder *builder
	index   int32
	refused refusals
	err     error
}

func (u *upconverter) free() {
	if u.builder != nil {
		u.builder.free()
	}
}

// message is an innerFunc: it checks m and adds it.
func (u *upconverter) message(m Entry, offset, timestamp int64) bool {
	r := Record{Timestamp: timestamp}
	if u.outer.Codec() != None && m.CRC() != m.ComputeCRC() {
		u.err = faultf(FaultChecksum, kerr.CorruptMessage, "Record is corrupt (stored crc = %d, computed crc = %d)", m.CRC(), m.ComputeCRC())
		return false
	}
	if r.Key, r.Value, u.err = m.legacyKeyValue(); u.err != nil {
		return false
	}
	u.refuse(m, &r, offset)
	u.index++
	if u.refused.total > 0 {
		return true // all that is wrong is reported
	}
	if u.builder == nil {
		if u.builder, u.err = newBuilder(u.options, timestamp, u.size, u.rules.MaxBatchBytes); u.err != nil {
			return false
		}
	}
	u.err = u.builder.add(int64(u.builder.count), &r)
	return u.err == nil
}

// refuse notes what the rules have against a message.
func (u *upconverter) refuse(m Entry, r *Record, offset int64) {
	low, high := u.rules.bounds()
	switch {
	case m.Magic() != u.outer.Magic():
		u.refused.faults[FaultMagic]++
		u.refused.add(u.index, false, fmt.Sprintf("Record's magic %d does not match outer magic %d.", m.Magic(), u.outer.Magic()))
	case u.rules.RequireKeys && r.Key == nil:
		u.refused.faults[FaultKey]++
		u.refused.add(u.index, false, noKey)
	case u.rules.TimestampType == CreateTime && r.Timestamp != NoTimestamp:
		if r.Timestamp < low || r.Timestamp > high {
			u.refused.add(u.index, true, outOfRange(r.Timestamp, offset, low, high))
		}
	case u.outer.TimestampType() == LogAppendTime:
		u.refused.add(u.index, true, appendTimeSet)
	}
}
