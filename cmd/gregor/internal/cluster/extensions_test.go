package cluster

import (
	"errors"
	"testing"
)

// TestAwaitHeard: who has switched the setting waits for brokers that have not heard of it, and for those that close their connections as
// they do.
func TestAwaitHeard(t *testing.T) {
	type answer struct {
		known map[int32]bool
		err   error
	}
	for name, test := range map[string]struct {
		on      bool
		answers []answer
	}{
		"on at once":           {true, []answer{{known: map[int32]bool{1: true, 2: true}}}},
		"one is late":          {true, []answer{{known: map[int32]bool{1: true, 2: false}}, {known: map[int32]bool{1: true, 2: true}}}},
		"off":                  {false, []answer{{known: map[int32]bool{1: true}}, {known: map[int32]bool{1: false}}}},
		"a connection is lost": {false, []answer{{err: errors.New("closed")}, {known: map[int32]bool{1: false}}}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := awaitHeard(t.Context(), test.on, func() (map[int32]bool, error) {
				next := test.answers[asked]
				asked++
				return next.known, next.err
			})
			if err != nil || asked != len(test.answers) {
				t.Errorf("it asked %d times and ends with %v, want %d times", asked, err, len(test.answers))
			}
		})
	}
}
