package kmsgfix

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// longestString is how many bytes Kafka lets a string of a message have, also one whose length is written in a way that could say
// more. Longer ones cannot be told to older clients nor be written into the records of the internal topics.
const longestString = math.MaxInt16

var errShort = errors.New("it ends before its fields do, or is none")

// Read reads the body of a request into r. A request that Kafka would not read is an error.
func Read(r kmsg.Request, body []byte) error {
	if Request(r).ReadFrom(body) != nil {
		return errShort
	}
	if len(body) <= longestString {
		return nil
	}
	if n := longest(reflect.ValueOf(r).Elem()); n > longestString {
		return fmt.Errorf("it has a string of %d bytes; Kafka reads at most %d", n, longestString)
	}
	return nil
}

// longest returns the length of the longest string in v.
func longest(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.String:
		n = v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			n = longest(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n = max(n, longest(v.Field(i)))
		}
	case reflect.Slice:
		if !mayHoldStrings(v.Type().Elem().Kind()) {
			return 0
		}
		for i := range v.Len() {
			n = max(n, longest(v.Index(i)))
		}
	default: // numbers, ids, tags that nobody knows
	}
	return n
}

func mayHoldStrings(k reflect.Kind) bool {
	return k == reflect.String || k == reflect.Struct || k == reflect.Pointer
}
