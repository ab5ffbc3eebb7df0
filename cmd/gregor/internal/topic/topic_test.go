package topic

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAlterations(t *testing.T) {
	got, err := changes{set: []string{"a=1"}, remove: []string{"b"}, add: []string{"c=2"}, subtract: []string{"d=3"}}.alterations()
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := "1", "2", "3"
	want := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "a", Value: &one}, {Op: kadm.AppendConfig, Name: "c", Value: &two},
		{Op: kadm.SubtractConfig, Name: "d", Value: &three}, {Op: kadm.DeleteConfig, Name: "b"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if _, err := (changes{add: []string{"c"}}).alterations(); cli.ExitCode(err) != 2 {
		t.Error(err)
	}
}

func TestListRows(t *testing.T) {
	topics := kadm.TopicDetails{"b": {Topic: "b", Partitions: kadm.PartitionDetails{0: {Replicas: []int32{1, 2}}}}, "a": {Topic: "a"}}
	if got := listRows(topics, false); !reflect.DeepEqual(got, [][]string{{"TOPIC", "PARTITIONS", "REPLICAS"}, {"a", "0", "0"}, {"b", "1", "2"}}) {
		t.Error(got)
	}
	if got := listRows(topics, true); !reflect.DeepEqual(got, [][]string{{"a"}, {"b"}}) {
		t.Error(got)
	}
}

func TestDescription(t *testing.T) {
	value := func(s string) *string { return &s }
	d := description{
		name: "t",
		detail: kadm.TopicDetail{Topic: "t", ID: kadm.TopicID{0: 0xfb, 15: 1}, Partitions: kadm.PartitionDetails{
			0: {Partition: 0, Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1}},
			1: {Partition: 1, Leader: -1, Replicas: []int32{2, 1}},
		}},
		start: kadm.ListedOffsets{"t": {0: {Offset: 3}, 1: {Err: kerr.LeaderNotAvailable}}},
		end:   kadm.ListedOffsets{"t": {0: {Offset: 9}}},
		configs: []kadm.Config{
			{Key: "retention.ms", Value: value("5"), Source: kmsg.ConfigSourceDynamicTopicConfig},
			{Key: "a.secret", Sensitive: true, Source: kmsg.ConfigSourceDefaultConfig},
			{Key: "unset", Source: kmsg.ConfigSourceDefaultConfig},
		},
	}
	for _, c := range []struct {
		all      bool
		settings string
	}{
		{false, "  retention.ms  5\n"},
		{true, "  a.secret      [hidden]  (default config)\n  retention.ms  5         (dynamic topic config)\n  unset         -         (default config)\n"},
	} {
		var b bytes.Buffer
		if err := d.write(&b, c.all); err != nil {
			t.Fatal(err)
		}
		want := "topic       t\nid          -wAAAAAAAAAAAAAAAAAAAQ\npartitions  2\nreplicas    2\nsettings\n" + c.settings + `
PARTITION  LEADER  REPLICAS  IN SYNC  START  END
0          1       1,2       1        3      9
1          -1      2,1                -      -
`
		if b.String() != want {
			t.Errorf("got\n%s", b.String())
		}
	}
}
