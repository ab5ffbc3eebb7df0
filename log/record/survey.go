package record

import "fmt"

// survey walks the records of a produced batch once: structure, count, keys, timestamps, numbering.
type survey struct {
	batch        Batch
	maxTimestamp int64 // of the records; NoTimestamp without
	consecutive  bool  // the offset deltas are 0, 1, 2…
	refused      refusals

	baseTimestamp int64
	appended      bool  // the batch says that its timestamps are LogAppendTime
	appendTime    int64 // then that of every record
	keys, create  bool  // what the topic demands
	low, high     int64 // the bounds of timestamps
}

func newSurvey(b Batch, r *Rules) survey {
	s := survey{
		batch: b, maxTimestamp: NoTimestamp, consecutive: true, baseTimestamp: b.BaseTimestamp(),
		appended: b.TimestampType() == LogAppendTime, appendTime: b.MaxTimestamp(),
		keys: r.RequireKeys, create: r.TimestampType == CreateTime,
	}
	s.low, s.high = r.bounds()
	return s
}

// open walks the batch.
func (s *survey) open() error {
	if s.batch.Codec() == None {
		return s.walkSlice(s.batch.payload())
	}
	v, release, err := openWindow(s.batch.Codec(), 2, s.batch.payload(), defaultMaxTotalBytes)
	if err != nil {
		return err
	}
	defer release()
	defer v.close()
	return s.walk(&v)
}

// walk reads all of v. It returns an *Invalid for records that break the rules, other errors for what is no record.
func (s *survey) walk(v *window) error {
	var p parsed
	for i, n := int32(0), s.batch.Count(); i < n; i++ {
		if err := skim(v, &p); err != nil {
			return err
		}
		s.record(i, &p)
	}
	if end, err := v.atEnd(); err != nil {
		return err
	} else if !end {
		return errRemaining
	}
	return s.refused.err()
}

// walkSlice is walk for records that are not compressed.
func (s *survey) walkSlice(b []byte) (err error) {
	var p parsed
	pos := 0
	for i, n := int32(0), s.batch.Count(); i < n; i++ {
		if pos, err = skimSlice(b, pos, &p); err != nil {
			return err
		}
		s.record(i, &p)
	}
	if pos != len(b) {
		return errRemaining
	}
	return s.refused.err()
}

// record judges the i-th record.
func (s *survey) record(i int32, p *parsed) {
	if p.offsetDelta != int64(i) {
		s.consecutive = false
	}
	timestamp := s.baseTimestamp + p.timestampDelta
	if s.appended {
		timestamp = s.appendTime
	}
	if timestamp > s.maxTimestamp {
		s.maxTimestamp = timestamp
	}
	if s.keys && p.keySize < 0 || s.appended || s.create && (timestamp < s.low || timestamp > s.high) {
		s.refuse(i, timestamp, p)
	}
}

// refuse notes what is wrong with the i-th record, if it is.
func (s *survey) refuse(i int32, timestamp int64, p *parsed) {
	switch {
	case s.keys && p.keySize < 0:
		s.refused.faults[FaultKey]++
		s.refused.add(i, false, noKey)
	case s.create && timestamp != NoTimestamp:
		if timestamp < s.low || timestamp > s.high {
			s.refused.add(i, true, outOfRange(timestamp, s.batch.BaseOffset()+p.offsetDelta, s.low, s.high))
		}
	case s.appended:
		s.refused.add(i, true, appendTimeSet)
	}
}

const (
	noKey         = "Compacted topic cannot accept message without key."
	appendTimeSet = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
)

func outOfRange(timestamp, offset, low, high int64) string {
	return fmt.Sprintf("Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
		timestamp, offset, low, high)
}

// bounds is what timestamps must lie within; the limits default to the greatest int64, which must not overflow.
func (r *Rules) bounds() (low, high int64) {
	low, high = r.Now-r.BeforeMaxMs, r.Now+r.AfterMaxMs
	if r.Now >= 0 && high < 0 {
		high = 1<<63 - 1
	}
	return low, high
}
