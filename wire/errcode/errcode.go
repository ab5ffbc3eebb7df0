// Package errcode is the one home of what an error is on the wire: which Kafka error code an error of ours becomes,
// and what that code becomes for a version that does not know it.
//
// A package that detects a condition with a code of its own in the protocol makes the error here:
//
//	var ErrOutOfRange = errcode.New(kerr.OffsetOutOfRange, "the offset is outside the log")
//
// and may wrap it with %w. The boundary calls Of, then Versioned.
package errcode

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Error is an error with a code of its own in the Kafka protocol.
type Error struct {
	kafka   *kerr.Error
	message string
}

// New returns an error that is answered as kafka; message says in words a person can act on what is wrong.
func New(kafka *kerr.Error, message string) *Error { return &Error{kafka, message} }

// Newf is New with a format.
func Newf(kafka *kerr.Error, format string, args ...any) *Error {
	return New(kafka, fmt.Sprintf(format, args...))
}

// Error returns the message.
func (e *Error) Error() string { return e.message }

// Code returns the protocol's error code.
func (e *Error) Code() int16 { return e.kafka.Code }

// Is makes errors.Is(err, kerr.X) true for every error with that code.
func (e *Error) Is(target error) bool {
	k, ok := target.(*kerr.Error)
	return ok && k.Code == e.kafka.Code
}

// Of returns the code for err: 0 for nil, that of the first Error or kerr.Error in its chain, and
// UNKNOWN_SERVER_ERROR for everything else, which the caller should log.
func Of(err error) int16 {
	if err == nil {
		return 0
	}
	var ours *Error
	if errors.As(err, &ours) {
		return ours.Code()
	}
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return kafka.Code
	}
	return kerr.UnknownServerError.Code
}

// Message returns what a response's error message should say for err, nil for nil. The inside of an unexpected error
// is for our log, not for a client. What repeats a client's own words may be long: it is cut where a response could not
// hold it, whose older versions count a string's bytes in an int16.
func Message(err error) *string {
	if err == nil {
		return nil
	}
	text := kerr.UnknownServerError.Description
	var ours *Error
	var kafka *kerr.Error
	switch {
	case errors.As(err, &ours):
		text = err.Error()
	case errors.As(err, &kafka):
		text = kafka.Description
	}
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return &text
}

// longestMessage is in bytes; nobody reads more.
const longestMessage = 4096
