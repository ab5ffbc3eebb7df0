package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestExitCode(t *testing.T) {
	if ExitCode(fmt.Errorf("x: %w", Usagef("no"))) != 2 || ExitCode(errors.New("no")) != 1 {
		t.Error("2 for usage, 1 for the rest")
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err     error
		message string
		want    string
	}{
		{nil, "x", "<nil>"},
		{errors.New("plain"), "x", "plain"},
		{kerr.InvalidConfig, "broker's words", "INVALID_CONFIG: broker's words"},
		{kerr.InvalidConfig, "", "INVALID_CONFIG: Configuration is invalid."},
		{kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition.Description, "UNKNOWN_TOPIC_OR_PARTITION: There is no such topic or partition."},
		{&kadm.ShardErrors{Name: "DescribeGroups", Errs: []kadm.ShardError{
			{Err: kerr.CoordinatorNotAvailable, Broker: kadm.BrokerDetail{NodeID: -1}}, {Err: kerr.CoordinatorNotAvailable, Broker: kadm.BrokerDetail{NodeID: -1}},
			{Err: errors.New("gone"), Broker: kadm.BrokerDetail{NodeID: 2}},
		}}, "", "COORDINATOR_NOT_AVAILABLE: The coordinator is not available.; broker 2: gone"},
	} {
		if got := fmt.Sprint(Explain(c.err, c.message)); got != c.want {
			t.Errorf("%v %q: %s", c.err, c.message, got)
		}
	}
}

func TestAskCoordinator(t *testing.T) {
	asked := 0
	answer, err := AskCoordinator(t.Context(), func(context.Context) (int, error) {
		if asked++; asked < 3 {
			return 0, fmt.Errorf("x: %w", kerr.CoordinatorNotAvailable)
		}
		return 7, nil
	})
	if answer != 7 || err != nil || asked != 3 {
		t.Error(answer, err, asked)
	}
	if _, err := AskCoordinator(t.Context(), func(context.Context) (int, error) { return 0, kerr.GroupIDNotFound }); err != kerr.GroupIDNotFound {
		t.Error(err)
	}
}

func TestHasPartitions(t *testing.T) {
	topic := kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{0: {}}}
	if err := HasPartitions(topic, 0); err != nil {
		t.Error(err)
	}
	if err := HasPartitions(topic, 0, 9); err == nil || err.Error() != "topic t has no partition 9; it has 1 partition, from 0 on" {
		t.Error(err)
	}
}

func TestTableAndFailures(t *testing.T) {
	var out, errOut bytes.Buffer
	if err := Table(&out, [][]string{{"NAME", "N"}, {"longer-name", "1"}}); err != nil || out.String() != "NAME         N\nlonger-name  1\n" {
		t.Errorf("%v %q", err, out.String())
	}
	out.Reset()
	var f Failures
	f.Report(&out, &errOut, "a", "created", nil)
	if f.Err() != nil {
		t.Error(f.Err())
	}
	f.Report(&out, &errOut, "b", "created", kerr.TopicAlreadyExists)
	if err := f.Err(); err == nil || err.Error() != "1 of 2 failed" || out.String() != "a: created\n" || errOut.Len() == 0 {
		t.Error(err, out.String(), errOut.String())
	}
}

func TestKeyValues(t *testing.T) {
	got, err := KeyValues("config", []string{"a=b", "c=d=e", "f="})
	if err != nil || !reflect.DeepEqual(got, [][2]string{{"a", "b"}, {"c", "d=e"}, {"f", ""}}) {
		t.Error(got, err)
	}
	for _, bad := range []string{"a", "=b"} {
		if _, err := KeyValues("config", []string{bad}); ExitCode(err) != 2 {
			t.Error(bad, err)
		}
	}
}

func TestUnescape(t *testing.T) {
	if got, err := Unescape(`a\t\n\r\0\\\x41`); err != nil || got != "a\t\n\r\x00\\A" {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{`\`, `\q`, `\x`, `\x4`, `\xzz`} {
		if _, err := Unescape(bad); err == nil {
			t.Error(bad)
		}
	}
}

func TestParseTime(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	local := func(y int, m time.Month, d, h, min, s int) int64 {
		return time.Date(y, m, d, h, min, s, 0, time.Local).UnixMilli()
	}
	for _, c := range []struct {
		text string
		want int64
	}{
		{"@12345", 12345}, {"-2h", 1_700_000_000_000 - 7_200_000}, {"2026-01-31T15:04:05Z", 1769871845000},
		{"2026-01-31", local(2026, 1, 31, 0, 0, 0)}, {"2026-01-31 15:04", local(2026, 1, 31, 15, 4, 0)},
		{"2026-01-31T15:04:05", local(2026, 1, 31, 15, 4, 5)},
	} {
		if got, err := ParseTime(c.text, now); err != nil || got != c.want {
			t.Errorf("%s: %d %v, want %d", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "@", "@-1", "2h", "yesterday"} {
		if _, err := ParseTime(bad, now); err == nil {
			t.Error(bad)
		}
	}
}

func TestParsePartitions(t *testing.T) {
	if got, err := ParsePartitions("0,3-5"); err != nil || !reflect.DeepEqual(got, []int32{0, 3, 4, 5}) {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "a", "1-", "-1", "5-3", "0-99999999"} {
		if _, err := ParsePartitions(bad); err == nil {
			t.Error(bad)
		}
	}
}

func TestProposals(t *testing.T) {
	if got := proposals([]string{"orders", "other", "x"}, []string{"other"}, "o"); !reflect.DeepEqual(got, []string{"orders"}) {
		t.Error(got)
	}
}

func TestSelection(t *testing.T) {
	s, err := ParseSelection([]string{"a", "b:0,2"})
	if err != nil || !reflect.DeepEqual(s, Selection{"a": nil, "b": {0, 2}}) {
		t.Fatal(s, err)
	}
	if !s.Has("a", 9) || !s.Has("b", 2) || s.Has("b", 1) || s.Has("c", 0) || !(Selection{}).Has("c", 0) {
		t.Error("Has")
	}
	for _, bad := range [][]string{{""}, {":0"}, {"a:x"}, {"a", "a"}} {
		if _, err := ParseSelection(bad); err == nil {
			t.Error(bad)
		}
	}
}

func TestServers(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"localhost", "localhost:9092"}, {"::1", "[::1]:9092"}, {"[::1]:9093", "[::1]:9093"}, {"[::1]", "[::1]:9092"}, {"broker:1", "broker:1"},
	} {
		got, err := (&Connection{servers: []string{c.given}}).Servers()
		if err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %v, %v", c.given, got, err)
		}
	}
	if _, err := new(Connection).Servers(); ExitCode(err) != 2 {
		t.Error(err)
	}
}

func TestSomeOf(t *testing.T) {
	given := []string{"stable", "EMPTY"}
	if err := SomeOf("state", given, []string{"Stable", "Empty"}); err != nil || given[0] != "Stable" || given[1] != "Empty" {
		t.Error(given, err)
	}
}

func TestShow(t *testing.T) {
	for n, want := range map[int64]string{5: "5 B", 1500: "1.50 KB", 2_000_000: "2.00 MB", 3_100_000_000: "3.10 GB"} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for part, want := range map[float64]string{
		0: "[------------------------------]   0%", 0.5: "[###############---------------]  50%", 7: "[##############################] 100%",
	} {
		if got := Bar(part); got != want {
			t.Errorf("%v: %s", part, got)
		}
	}
	if got := IDs([]int32{3, 1}) + IDs(nil); got != "3,1" {
		t.Error(got)
	}
}
