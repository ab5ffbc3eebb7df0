package schema

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log/record"
)

// each calls f with the records of a segment of __consumer_offsets that a real broker wrote.
func each(t testing.TB, file string, f func(r record.Record)) {
	t.Helper()
	buf, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for len(buf) > 0 {
		var e record.Entry
		if e, buf, err = record.NextEntry(buf); err != nil {
			t.Fatal(err)
		}
		if e.IsControl() {
			continue
		}
		for r, err := range e.Records(record.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			f(r)
		}
	}
}

// The segments hold a group's offsets and generations as Apache Kafka 3.9.2 and 4.4.0 wrote them; what is read and written
// again must be the same bytes.
func TestRecordsOfKafka(t *testing.T) {
	for file, want := range map[string]struct{ offsets, groups, offsetVersion int }{
		"testdata/consumer-offsets-3.9.2.log": {offsetVersion: 3},
		"testdata/consumer-offsets-4.4.0.log": {offsetVersion: 4},
	} {
		offsets, groups := 0, 0
		each(t, file, func(r record.Record) {
			kind, err := TypeOf(r.Key)
			if err != nil {
				t.Fatal(err)
			}
			switch kind {
			case OffsetCommit:
				offsets++
				checkOffset(t, r, int16(want.offsetVersion))
			case GroupMetadata:
				groups++
				checkGroup(t, r)
			default:
				t.Errorf("%s: %v", file, kind)
			}
		})
		if offsets == 0 || groups == 0 {
			t.Errorf("%s: %d offsets and %d groups", file, offsets, groups)
		}
	}
}

func checkOffset(t *testing.T, r record.Record, wantVersion int16) {
	t.Helper()
	k, err := DecodeOffsetKey(r.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendOffsetKey(nil, string(k.Group), string(k.Topic), k.Partition); !bytes.Equal(got, r.Key) {
		t.Errorf("key %x became %x", r.Key, got)
	}
	if r.Value == nil {
		return
	}
	v, version, err := DecodeOffsetValue(r.Value)
	if err != nil || version != wantVersion {
		t.Fatalf("version %d, %v", version, err)
	}
	if got := v.Append(nil, version); !bytes.Equal(got, r.Value) {
		t.Errorf("value %x became %x", r.Value, got)
	}
}

func checkGroup(t *testing.T, r record.Record) {
	t.Helper()
	id, err := DecodeGroupKey(r.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendGroupKey(nil, string(id)); !bytes.Equal(got, r.Key) {
		t.Errorf("key %x became %x", r.Key, got)
	}
	if r.Value == nil {
		return
	}
	v, version, err := DecodeGroupValue(r.Value)
	if err != nil || version != GroupVersion {
		t.Fatalf("version %d, %v", version, err)
	}
	if got := v.Append(nil, version); !bytes.Equal(got, r.Value) {
		t.Errorf("value %x became %x", r.Value, got)
	}
}

// Every version must be written as kmsg, which is made from Kafka's schemas, writes it.
func TestVersionsAsKmsg(t *testing.T) {
	for version := int16(0); version <= maxOffsetVersion; version++ {
		ours := OffsetValue{Offset: 7, LeaderEpoch: 3, Metadata: []byte("meta"), CommitMs: 11, ExpireMs: 13, TopicID: [16]byte{1, 2}}
		theirs := kmsg.OffsetCommitValue{Version: version, Offset: 7, LeaderEpoch: 3, Metadata: "meta", CommitTimestamp: 11, ExpireTimestamp: 13, TopicID: [16]byte{1, 2}}
		if got, want := ours.Append(nil, version), theirs.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("offset v%d: %x, want %x", version, got, want)
		}
	}
	range_, leader, instance := "range", "m1", "i1"
	ours := GroupValue{ProtocolType: "consumer", Generation: 4, Protocol: &range_, Leader: &leader, StateMs: 9, Members: []Member{
		{ID: "m1", InstanceID: &instance, ClientID: "c", ClientHost: "/h", RebalanceTimeoutMs: 5, SessionTimeoutMs: 6, Subscription: []byte("s"), Assignment: []byte("a")},
		{ID: "m2", RebalanceTimeoutMs: 5, SessionTimeoutMs: 6, Subscription: []byte{}, Assignment: []byte{}},
	}}
	theirs := kmsg.GroupMetadataValue{ProtocolType: "consumer", Generation: 4, Protocol: &range_, Leader: &leader, CurrentStateTimestamp: 9}
	for _, m := range ours.Members {
		theirs.Members = append(theirs.Members, kmsg.GroupMetadataValueMember{
			MemberID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost, RebalanceTimeoutMillis: m.RebalanceTimeoutMs,
			SessionTimeoutMillis: m.SessionTimeoutMs, Subscription: m.Subscription, Assignment: m.Assignment,
		})
	}
	for version := int16(0); version <= maxGroupVersion; version++ {
		theirs.Version = version
		want := theirs.AppendTo(nil)
		if got := ours.Append(nil, version); !bytes.Equal(got, want) {
			t.Errorf("group v%d: %x, want %x", version, got, want)
		}
		back, _, err := DecodeGroupValue(want)
		if err != nil {
			t.Errorf("group v%d: %v", version, err)
		} else if got := back.Append(nil, version); !bytes.Equal(got, want) {
			t.Errorf("group v%d read and written: %x, want %x", version, got, want)
		}
	}
}

func TestUnknownVersionsAndTypes(t *testing.T) {
	var unknown *UnknownVersionError
	if _, _, err := DecodeOffsetValue([]byte{0, 9, 1, 2}); !errors.As(err, &unknown) || unknown.Version != 9 {
		t.Errorf("offset of version 9: %v", err)
	}
	if _, _, err := DecodeGroupValue([]byte{0, 9, 1, 2}); !errors.As(err, &unknown) || unknown.Type != GroupMetadata {
		t.Errorf("group of version 9: %v", err)
	}
	for _, b := range [][]byte{nil, {0}, {0, 3}, {0xff, 0xff, 0, 0}} {
		if _, _, err := DecodeOffsetValue(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("offset %x: %v", b, err)
		}
		if _, _, err := DecodeGroupValue(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("group %x: %v", b, err)
		}
	}
	if got := Type(5).String() + " " + Type(99).String(); got != "ConsumerGroupMemberMetadata record type 99" {
		t.Error(got)
	}
}

func TestSubscribedTopics(t *testing.T) {
	m := kmsg.ConsumerMemberMetadata{Version: 3, Topics: []string{"a", "b"}, UserData: []byte("u"), Generation: 3}
	got, err := SubscribedTopics(m.AppendTo(nil))
	if err != nil || len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("%v, %v", got, err)
	}
	for _, b := range [][]byte{{0}, {0, 0, 0, 0, 0, 9, 0, 1}, {0, 0, 0x7f, 0xff, 0xff, 0xff}} {
		if _, err := SubscribedTopics(b); err == nil {
			t.Errorf("%x was understood", b)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, file := range []string{"testdata/consumer-offsets-3.9.2.log", "testdata/consumer-offsets-4.4.0.log"} {
		buf, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for len(buf) > 0 {
			var e record.Entry
			if e, buf, err = record.NextEntry(buf); err != nil {
				f.Fatal(err)
			}
			for r, err := range e.Records(record.Limits{}) {
				if err == nil {
					f.Add(r.Key)
					f.Add(r.Value)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		TypeOf(b)
		if k, err := DecodeOffsetKey(b); err == nil {
			again, err := DecodeOffsetKey(AppendOffsetKey(nil, string(k.Group), string(k.Topic), k.Partition))
			if err != nil || !bytes.Equal(again.Group, k.Group) || !bytes.Equal(again.Topic, k.Topic) || again.Partition != k.Partition {
				t.Errorf("key %x changed: %v", b, err)
			}
		}
		DecodeGroupKey(b)
		SubscribedTopics(b)
		if v, version, err := DecodeOffsetValue(b); err == nil {
			first := v.Append(nil, version)
			v, _, err := DecodeOffsetValue(first)
			if err != nil || !bytes.Equal(v.Append(nil, version), first) {
				t.Errorf("offset %x changed: %v", b, err)
			}
		}
		if v, version, err := DecodeGroupValue(b); err == nil {
			first := v.Append(nil, version)
			v, _, err := DecodeGroupValue(first)
			if err != nil || !bytes.Equal(v.Append(nil, version), first) {
				t.Errorf("group %x changed: %v", b, err)
			}
		}
	})
}
