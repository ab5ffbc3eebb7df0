package api

import "testing"

// The bits are what Kafka 3.9.2 and 4.4.0 answer DescribeGroups with.
func TestGroupOperations(t *testing.T) {
	for embedded, want := range map[bool]int32{false: 328, true: 3400} {
		if got := (&Services{Embedded: embedded}).allGroupOperations(); got != want {
			t.Errorf("embedded %v: %d, want %d", embedded, got, want)
		}
	}
}
