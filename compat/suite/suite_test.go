package suite

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestParse: what "go test -json" prints of tests that end, of one that a panic ends, and of one that is blamed for it.
func TestParse(t *testing.T) {
	const printed = `{"Action":"start","Package":"p"}
{"Action":"run","Test":"TestGood"}
{"Action":"output","Test":"TestGood","Output":"one\n"}
{"Action":"output","Test":"TestGood","Output":"two\n"}
{"Action":"pass","Test":"TestGood","Elapsed":1.5}
{"Action":"run","Test":"TestParts"}
{"Action":"run","Test":"TestParts/one"}
{"Action":"skip","Test":"TestParts/one","Elapsed":0}
{"Action":"fail","Test":"TestParts","Elapsed":0}
{"Action":"run","Test":"TestPanics"}
{"Action":"output","Test":"TestGood","Output":"panic: test timed out\n"}
{"Action":"fail","Test":"TestGood","Elapsed":0}
not a line of JSON
{"Action":"fail","Package":"p"}
`
	want := map[string]Verdict{
		"TestGood":      {Action: "pass", Output: "one\ntwo\npanic: test timed out\n", Seconds: 1.5},
		"TestParts":     {Action: "fail"},
		"TestParts/one": {Action: "skip"},
		"TestPanics":    {Action: "unfinished"},
	}
	got := parse(t, printed)
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	table := &Table{notes: map[string]note{"TestParts": {fails, "everywhere"}}}
	if failed := table.failed(got); !slices.Equal(failed, []string{"TestPanics"}) {
		t.Errorf("failed: %v", failed)
	}
}

// TestPattern: the patterns that go test gets match the named tests only.
func TestPattern(t *testing.T) {
	text := pattern([]string{"TestOne", "TestTwo/part_(a)"})
	if want := `^TestOne$|^TestTwo$/^part_\(a\)$`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	for _, alternative := range strings.Split(text, "|") {
		for _, element := range strings.Split(alternative, "/") {
			if regexp.MustCompile(element).MatchString("TestOneMore") {
				t.Errorf("%s matches TestOneMore", element)
			}
		}
	}
}

// TestTable: each suite of the table that a test of ours runs can be read, and what is said of its tests is known.
func TestTable(t *testing.T) {
	for _, name := range []string{"franz-go kgo", "franz-go kgo (cluster)", "franz-go kadm", "sarama", "kafka-go", "kafka-python"} {
		table := Load(t, name)
		if table.Passed == 0 {
			t.Errorf("%s: no test passes", name)
		}
		if known := table.names(fails, broken, needs, long); len(known) != len(table.notes) {
			t.Errorf("%s: the table says of a test what is not known: %v", name, table.notes)
		}
	}
}
