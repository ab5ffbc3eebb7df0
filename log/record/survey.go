package record

import "fmt"

// survey walks the records of a produced batch once: structure, count, keys, timestamps, numbering.
type survey struct {
	batch        Batch
	rules        *Rules
	maxTimestamp int64 // of the records; NoTimestamp without
	consecutive  bool  // the offset deltas are 0, 1, 2…
	refused      refusals
}

func newSurvey(b Batch, r *Rules) survey {
	return survey{batch: b, rules: r, maxTimestamp: NoTimestamp, consecutive: true}
}

// walk reads all of v. It returns an *Invalid for records that break the rules, other errors for what is no record.
func (s *survey) walk(v *window) error {
	base, appended := s.batch.BaseTimestamp(), s.batch.TimestampType() == LogAppendTime
	low, high := s.rules.bounds()
	create, keys := s.rules.TimestampType == CreateTime, s.rules.RequireKeys
	var p parsed
	for i, n := int32(0), s.batch.Count(); i < n; i++ {
		if err := skim(v, &p); err != nil {
			return err
		}
		if p.offsetDelta != int64(i) {
			s.consecutive = false
		}
		timestamp := base + p.timestampDelta
		if appended {
			timestamp = s.batch.MaxTimestamp()
		}
		switch {
		case keys && p.keySize < 0:
			s.refused.add(i, false, noKey)
		case create && timestamp != NoTimestamp:
			if timestamp < low || timestamp > high {
				s.refused.add(i, true, outOfRange(timestamp, s.batch.BaseOffset()+p.offsetDelta, low, high))
			}
		case appended:
			s.refused.add(i, true, appendTimeSet)
		}
		s.maxTimestamp = max(s.maxTimestamp, timestamp)
	}
	if end, err := v.atEnd(); err != nil {
		return err
	} else if !end {
		return errRemaining
	}
	return s.refused.err()
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
