package produce

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestRecord(t *testing.T) {
	for _, c := range []struct {
		o    options
		line string
		want string
	}{
		{options{null: nothing}, "hello", "key=<nil> value=hello"},
		{options{null: nothing}, "", "key=<nil> value="},
		{options{null: nothing, keySeparator: ":"}, "k:v:w", "key=k value=v:w"},
		{options{null: nothing, keySeparator: `\t`}, "k\tv", "key=k value=v"},
		{options{null: nothing, keySeparator: ":"}, ":v", "key= value=v"},
		{options{null: "", keySeparator: ":"}, "k:", "key=k value=<nil>"},
		{options{null: "NULL", keySeparator: ":"}, "NULL:v", "key=<nil> value=v"},
		{options{null: nothing, keySeparator: ":"}, "v", `the line has no key separator ":"`},
	} {
		p, err := c.o.parser("t")
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.record(c.line)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("key=%s value=%s", text(r.Key), text(r.Value))
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.line, got, c.want)
		}
	}
}

func text(b []byte) string {
	if b == nil {
		return "<nil>"
	}
	return string(b)
}

func TestOptions(t *testing.T) {
	p, err := options{headers: []string{"a=b", "c="}, partition: 3}.parser("t")
	if err != nil || len(p.headers) != 2 || p.headers[0].Key != "a" || string(p.headers[0].Value) != "b" || p.partition != 3 {
		t.Error(p, err)
	}
	for _, bad := range []options{{headers: []string{"x"}}, {keySeparator: `\`}} {
		if _, err := bad.parser("t"); err == nil {
			t.Error(bad)
		}
	}
	for _, bad := range []options{{compression: "lzma", acks: "all"}, {compression: "none", acks: "2"}} {
		if _, err := bad.clientOptions(); err == nil {
			t.Error(bad)
		}
	}
	for _, acks := range []string{"all", "1", "0", "-1"} {
		if _, err := (options{compression: "zstd", acks: acks, partition: 1}).clientOptions(); err != nil {
			t.Error(acks, err)
		}
	}
}

// TestExplain: what a broker or the client says too shortly is said in full.
func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"topic t does not exist, or has no such partition":                             kerr.UnknownTopicOrPartition,
		"topic t has no such partition: it was created with num.partitions of them":    errors.New("invalid record partitioning choice of 7 from 1 available"),
		"INVALID_RECORD: The broker does not take such a record. A compacted topic ta": kerr.InvalidRecord,
		"MESSAGE_TOO_LARGE: ": kerr.MessageTooLarge,
	} {
		if got := explain(err, "t").Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}
