package record

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// RecordError says what is wrong with one record of a refused set.
type RecordError struct {
	Index   int32 // in the batch
	Message string
}

// String is the form that Kafka's messages have.
func (e RecordError) String() string {
	return fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", e.Index, e.Message)
}

// Invalid is the error for a set that is refused. It unwraps to Err, so that errcode knows its code.
type Invalid struct {
	Err          *errcode.Error
	RecordErrors []RecordError // at most maxRecordErrors, by rising Index; empty if the set as a whole is wrong
	// Unsendable says that the version of the request does not allow such a set, whatever the partition is
	// (ProduceRequest.validateRecords).
	Unsendable bool
	Faults     Faults
}

// Faults counts what is wrong with a refused set, as far as Kafka counts that (LogValidator.MetricsRecorder).
type Faults [FaultKey + 1]int

// What is counted.
const (
	FaultMagic    = iota // a magic byte differs from that of the first batch or of the wrapper
	FaultChecksum        // a CRC is wrong
	FaultNumbers         // the offsets, the count and the sequence number in a batch's header do not fit together
	FaultKey             // a record has no key, and its topic is compacted
)

// maxRecordErrors bounds what a set of many small wrong records makes us answer.
const maxRecordErrors = 100

// Error is the message for the response.
func (e *Invalid) Error() string { return e.Err.Error() }

// Unwrap returns the error with the code.
func (e *Invalid) Unwrap() error { return e.Err }

// Code is the protocol's error code.
func (e *Invalid) Code() int16 { return e.Err.Code() }

func invalidf(code *kerr.Error, format string, args ...any) error {
	return &Invalid{Err: errcode.Newf(code, format, args...)}
}

// faultf is invalidf for what is counted.
func faultf(fault int, code *kerr.Error, format string, args ...any) error {
	e := &Invalid{Err: errcode.Newf(code, format, args...)}
	e.Faults[fault] = 1
	return e
}

func unsendablef(code *kerr.Error, format string, args ...any) error {
	return &Invalid{Err: errcode.Newf(code, format, args...), Unsendable: true}
}

// asInvalid gives err, which came up while a produced set was read, the code that a producer is to see.
func asInvalid(err error) *Invalid {
	var invalid *Invalid
	switch {
	case errors.As(err, &invalid):
		return invalid
	case errors.Is(err, errFraming):
		return &Invalid{Err: errcode.New(kerr.CorruptMessage, err.Error())}
	case errors.Is(err, ErrTooLarge):
		return &Invalid{Err: errcode.New(kerr.MessageTooLarge, err.Error())}
	case errors.Is(err, ErrCompression):
		return &Invalid{Err: errcode.New(kerr.UnsupportedCompressionType, err.Error())}
	}
	return &Invalid{Err: errcode.New(kerr.InvalidRecord, err.Error())}
}

// refusals collects what is wrong with records.
type refusals struct {
	errors    []RecordError
	total     int
	timestamp bool // one of them at least is about its timestamp
	faults    Faults
}

func (f *refusals) add(index int32, timestamp bool, message string) {
	f.total++
	f.timestamp = f.timestamp || timestamp
	if len(f.errors) < maxRecordErrors {
		f.errors = append(f.errors, RecordError{index, message})
	}
}

// err is nil if nothing is wrong. Messages after LogValidator.processRecordErrors.
func (f *refusals) err() error {
	if f.total == 0 {
		return nil
	}
	e := &Invalid{RecordErrors: f.errors, Faults: f.faults}
	if f.timestamp {
		e.Err = errcode.New(kerr.InvalidTimestamp, "One or more records have been rejected due to invalid timestamp")
		return e
	}
	var shown []string
	for _, r := range f.errors[:min(len(f.errors), 3)] {
		shown = append(shown, r.String())
	}
	e.Err = errcode.Newf(kerr.InvalidRecord, "One or more records have been rejected due to %d record errors in total, "+
		"and only showing the first three errors at most: [%s]", f.total, strings.Join(shown, ", "))
	return e
}
