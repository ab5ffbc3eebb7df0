package dump

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gregor-broker/gregor/log/record"
)

// log shows the batches of a log file, and their records.
func (d *dumper) log(path string) error {
	base, err := baseOffset(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "Log starting offset: %d\n", base)
	r, err := openEntries(path, d.MaxBytes)
	if err != nil {
		return err
	}
	defer r.close()
	last := int64(-1)
	for {
		at := r.pos
		e, err := r.next()
		if err != nil {
			return d.logEnd(path, r, err)
		}
		d.batch(e, at)
		if !d.Deep {
			continue
		}
		if last, err = d.records(path, e, last); err != nil {
			d.found("Records that cannot be read in "+path, "position %d: %v", at, err)
		}
	}
}

// logEnd shows what follows the last entry. An error of the file itself is returned.
func (d *dumper) logEnd(path string, r *entries, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, record.ErrTruncated), errors.Is(err, record.ErrCorrupt):
		if d.MaxBytes <= 0 {
			fmt.Fprintf(d.out, "Found %d invalid bytes at the end of %s\n", r.end-r.pos, filepath.Base(path))
		}
		if !errors.Is(err, record.ErrTruncated) {
			d.found("No batch in "+path, "position %d: %v", r.pos, err)
		}
		return nil
	}
	return err
}

// batch shows a header.
func (d *dumper) batch(e record.Entry, pos int64) {
	if b, ok := e.Batch(); ok {
		horizon := "OptionalLong.empty"
		if b.HasDeleteHorizon() {
			horizon = fmt.Sprintf("OptionalLong[%d]", b.BaseTimestamp())
		}
		fmt.Fprintf(d.out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d "+
			"producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s",
			b.BaseOffset(), b.LastOffset(), b.Count(), b.BaseSequence(), b.LastSequence(), b.ProducerID(),
			b.ProducerEpoch(), b.LeaderEpoch(), b.IsTransactional(), b.IsControl(), horizon)
	} else {
		fmt.Fprintf(d.out, "offset: %d", e.LastOffset())
	}
	fmt.Fprintf(d.out, " position: %d %s: %d size: %d magic: %d compresscodec: %v crc: %d isvalid: %t\n",
		pos, timestampType(e), e.MaxTimestamp(), e.Size(), e.Magic(), e.Codec(), e.CRC(), e.CheckCRC() == nil)
}

func timestampType(e record.Entry) string {
	if e.Magic() == 0 {
		return "NoTimestampType"
	}
	return e.TimestampType().String()
}

// shown is a record with what the lines say of it.
type shown struct {
	record.Record
	keySize, valueSize int
	message            record.Entry // of magic 0 and 1
}

// records shows the records of e. last is the offset of the record before, -1 for none, and of the last one after.
func (d *dumper) records(path string, e record.Entry, last int64) (int64, error) {
	show := func(s *shown) {
		if last >= 0 && s.Offset != last+1 {
			d.found("Non-consecutive offsets in "+path, "%d is followed by %d", last, s.Offset)
		}
		last = s.Offset
		d.record(e, s)
	}
	if e.Magic() < 2 {
		return last, d.messages(e, show)
	}
	for r, err := range e.Records(record.Limits{}) {
		if err != nil {
			return last, err
		}
		show(&shown{Record: r, keySize: size(r.Key), valueSize: size(r.Value)})
	}
	return last, nil
}

// messages calls show for the messages of magic 0 or 1 of which e is one or the wrapper.
func (d *dumper) messages(e record.Entry, show func(*shown)) error {
	var failed error
	err := e.EachMessage(record.Limits{}, func(m record.Entry, offset, timestamp int64) bool {
		for r, err := range m.Records(record.Limits{}) {
			if failed = err; err != nil {
				return false
			}
			r.Offset, r.Timestamp = offset, timestamp
			show(&shown{Record: r, keySize: size(r.Key), valueSize: size(r.Value), message: m})
		}
		return true
	})
	return errors.Join(failed, err)
}

// size is that of a field as Kafka prints it: -1 for null.
func size(field []byte) int {
	if field == nil {
		return -1
	}
	return len(field)
}

func (d *dumper) record(e record.Entry, s *shown) {
	prefix := "| "
	if !d.SkipRecordMetadata {
		fmt.Fprintf(d.out, "| offset: %d %s: %d keySize: %d valueSize: %d", s.Offset, timestampType(e), s.Timestamp, s.keySize, s.valueSize)
		prefix = " "
		if b, ok := e.Batch(); ok {
			fmt.Fprintf(d.out, " sequence: %d headerKeys: [%s]", sequence(b, s.Offset), headerKeys(s.Headers))
		} else {
			// The brace is kafka-dump-log's.
			fmt.Fprintf(d.out, " isValid: %t crc: %d}", s.message.CheckCRC() == nil, s.message.CRC())
		}
		if e.IsControl() {
			fmt.Fprint(d.out, control(&s.Record))
		}
	}
	if d.PrintData && !e.IsControl() {
		d.data(prefix, &s.Record)
	}
	fmt.Fprintln(d.out)
}

func sequence(b record.Batch, offset int64) int32 {
	if b.BaseSequence() < 0 {
		return -1
	}
	return record.AddSequence(b.BaseSequence(), int32(offset-b.BaseOffset()))
}

func headerKeys(headers []record.Header) string {
	keys := make([]string, len(headers))
	for i, h := range headers {
		keys[i] = text([]byte(h.Key))
	}
	return strings.Join(keys, ",")
}

// control shows a control record.
func control(r *record.Record) string {
	kind, err := record.ParseControl(r.Key)
	if err != nil {
		return " " + err.Error()
	}
	names := map[record.ControlType]string{record.Abort: "ABORT", record.Commit: "COMMIT"}
	name, ok := names[kind]
	if !ok {
		return fmt.Sprintf(" controlType: UNKNOWN(%d)", kind)
	}
	epoch, err := record.CoordinatorEpoch(r.Value)
	if err != nil {
		return " " + err.Error()
	}
	return fmt.Sprintf(" endTxnMarker: %s coordinatorEpoch: %d", name, epoch)
}

// data shows key and value of a record.
func (d *dumper) data(prefix string, r *record.Record) {
	hasKey, hasValue := r.Key != nil, r.Value != nil
	key, value := text(r.Key), text(r.Value)
	if d.Decode != nil {
		key, value = d.Decode(r.Key, r.Value)
		hasKey, hasValue = key != "", value != ""
	}
	if hasKey {
		fmt.Fprintf(d.out, "%skey: %s", prefix, key)
	}
	if hasValue {
		fmt.Fprintf(d.out, " payload: %s", value)
	}
}

// text is bytes as UTF-8.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
