package znode

import "testing"

// TestTopicsThatAreNone: nodes that somebody wrote by hand and that no controller can go by are refused, whatever is wrong with them.
func TestTopicsThatAreNone(t *testing.T) {
	for _, data := range []string{
		``, `[]`, `{}`, `{"partitions":{}}`,
		`{"partitions":{"0":[1]`,
		`{"partitions":{"0":[]}}`, `{"partitions":{"0":null}}`, `{"partitions":{"0":[1,1]}}`, `{"partitions":{"0":[-1]}}`,
		`{"partitions":{"0":[1],"2":[1]}}`, `{"partitions":{"00":[1]}}`, `{"partitions":{"-1":[1]}}`, `{"partitions":{"2147483647":[1]}}`,
		`{"partitions":{"0":[1]},"topic_id":"x"}`,
		`{"partitions":{"0":[1,2]},"adding_replicas":{"1":[1]}}`, `{"partitions":{"0":[1,2]},"adding_replicas":{"-1":[1]}}`,
		`{"partitions":{"0":[1,2]},"adding_replicas":{"0":[3]}}`, `{"partitions":{"0":[1,2]},"adding_replicas":{"0":[1,2]}}`,
		`{"partitions":{"0":[1,2]},"removing_replicas":{"0":[2,1]}}`, `{"partitions":{"0":[1,2]},"removing_replicas":{"0":[1,1]}}`,
	} {
		if z, err := DecodeTopic([]byte(data)); err == nil {
			t.Errorf("%s is read as %+v", data, z)
		}
	}
	for _, data := range []string{
		`{"partitions":{"0":[1]},"version":1}`,
		`{"partitions":{"0":[3,4,1,2]},"adding_replicas":{"0":[3,4]},"removing_replicas":{"0":[1,2]},"version":3}`,
		`{"partitions":{"0":[1,2]},"adding_replicas":{"0":[]},"removing_replicas":{"0":[2]},"version":3}`,
	} {
		if _, err := DecodeTopic([]byte(data)); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
}
