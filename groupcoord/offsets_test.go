package groupcoord

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gregor-broker/gregor/wire/clock"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/log/record"
)

// values returns the version and content of all offsets in the log, in order; nil for deletions.
func (w *world) values() (versions []int16, values []schema.OffsetValue) {
	for _, e := range w.log.Entries(0) {
		for r, err := range e.Records(record.Limits{}) {
			if err != nil {
				w.t.Fatal(err)
			}
			if kind, _ := schema.TypeOf(r.Key); kind != schema.OffsetCommit || r.Value == nil {
				continue
			}
			v, version, err := schema.DecodeOffsetValue(r.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			versions, values = append(versions, version), append(values, v)
		}
	}
	return versions, values
}

func TestFormatsAndTimesOfOffsets(t *testing.T) {
	for _, kafka4 := range []bool{false, true} {
		inBubble(t, func(s *Settings) { s.Kafka4 = kafka4 }, func(w *world) {
			nowMs := clock.System.Now().UnixMilli()
			plain := commitReq("g", -1, "", "t", 1, 0)
			plain.Topics[0].Partitions[0].LeaderEpoch = 7
			w.codeIs("plain", w.do(6, plain), 0)
			stamped := commitReq("g", -1, "", "t", 2, 0)
			stamped.Topics[0].Partitions[0].Timestamp = 12345
			w.codeIs("v1 with a timestamp", w.do(1, stamped), 0)
			kept := commitReq("g", -1, "", "t", 3, 0)
			kept.RetentionTimeMillis = 5000
			w.codeIs("v2 with a retention time", w.do(2, kept), 0)
			w.codeIs("v0", w.do(0, commitReq("g", -1, "", "t", 4, 0)), 0)
			versions, values := w.values()
			want := []int16{3, 3, 1, 3}
			if kafka4 {
				want = []int16{4, 4, 1, 4}
			}
			if !slices.Equal(versions, want) {
				t.Errorf("kafka4 %v: versions %v, want %v", kafka4, versions, want)
			}
			if values[0].LeaderEpoch != 7 || values[0].CommitMs != nowMs || values[1].CommitMs != 12345 || values[2].ExpireMs != nowMs+5000 {
				t.Errorf("%+v", values)
			}
			if id := values[0].TopicID; (id == [16]byte{1}) != kafka4 {
				t.Errorf("kafka4 %v: topic id %v", kafka4, id)
			}
		})
	}
}

// An offset that was committed to an earlier topic of the same name is none for who names the topic by id.
func TestOffsetsOfRecreatedTopic(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.codeIs("commit", w.do(8, commitReq("g", -1, "", "t", 42, 0)), 0)
		w.topics.add("t", 1, 2)
		r := fetchReq("g", "t", 0)
		r.Groups[0].Topics[0].TopicID = [16]byte{2}
		if p := w.do(10, r).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]; p.Offset != -1 || p.ErrorCode != 0 {
			t.Errorf("by the new id: %+v", p)
		}
		if o := w.offset("g"); o != 42 {
			t.Errorf("by name: %d", o)
		}
		w.topics.remove("t")
		if g := w.do(10, fetchReq("g", "t")).(*kmsg.OffsetFetchResponse).Groups[0]; len(g.Topics) != 0 {
			t.Errorf("all offsets by id, of a topic that is gone: %+v", g)
		}
	})
}

func TestOffsetFetchOldVersionsCarryErrors(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.c.Resigned(0, 1)
		if r := w.do(1, fetchReq("g", "t", 0, 1)).(*kmsg.OffsetFetchResponse); len(r.Topics[0].Partitions) != 2 || r.Topics[0].Partitions[1].ErrorCode != 16 {
			t.Errorf("v1: %+v", r)
		}
		if r := w.do(7, fetchReq("g", "t", 0)).(*kmsg.OffsetFetchResponse); r.ErrorCode != 16 || len(r.Topics) != 0 {
			t.Errorf("v7: %+v", r)
		}
		if r := w.do(9, fetchReq("g", "t", 0)).(*kmsg.OffsetFetchResponse); r.Groups[0].ErrorCode != 16 || r.Groups[0].Group != "g" {
			t.Errorf("v9: %+v", r)
		}
	})
}

// Clients of version 0 take UNKNOWN_TOPIC_OR_PARTITION for "no offset yet".
func TestOffsetFetchOldestSaysNothing(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		for version, want := range []int16{3, 0} {
			p := w.do(int16(version), fetchReq("g", "t", 0)).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
			if p.Offset != -1 || p.ErrorCode != want {
				t.Errorf("v%d: %+v", version, p)
			}
		}
	})
}

func TestOffsetFetchOfManyGroups(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		r := kmsg.NewPtrOffsetFetchRequest()
		for i := range 20 {
			id := fmt.Sprint("g", i)
			w.codeIs("commit", w.do(8, commitReq(id, -1, "", "t", int64(i), 0)), 0)
			r.Groups = append(r.Groups, fetchReq(id, "t", 0).Groups[0])
		}
		for i, g := range w.do(9, r).(*kmsg.OffsetFetchResponse).Groups {
			if g.Group != fmt.Sprint("g", i) || g.Topics[0].Partitions[0].Offset != int64(i) {
				t.Errorf("%d: %+v", i, g)
			}
		}
		r.Groups = nil
		if resp := w.do(9, r).(*kmsg.OffsetFetchResponse); len(resp.Groups) != 0 {
			t.Errorf("no groups: %+v", resp)
		}
	})
}

// Offsets of a simple group count from their commit, those of an empty group from when it became empty, those of consumers
// who are there only for topics that they do not subscribe to.
func TestRetention(t *testing.T) {
	inBubble(t, func(s *Settings) { s.OffsetsRetention = time.Hour }, func(w *world) {
		w.topics.add("u", 1, 2)
		w.codeIs("simple", w.do(8, commitReq("simple", -1, "", "t", 1, 0)), 0)
		kept := commitReq("kept", -1, "", "t", 1, 0)
		kept.RetentionTimeMillis = 3 * time.Hour.Milliseconds()
		w.codeIs("with its own retention", w.do(4, kept), 0)
		j := w.stable("g")
		w.codeIs("subscribed", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 1, 0)), 0)
		w.codeIs("not subscribed", w.do(8, commitReq("g", j.Generation, j.MemberID, "u", 1, 0)), 0)
		alive := func(d time.Duration) {
			for until := clock.System.Now().Add(d); clock.System.Now().Before(until); {
				pass(9 * time.Second)
				w.do(4, heartbeatReq("g", j))
			}
			synctest.Wait()
		}
		alive(59 * time.Minute)
		if s := w.state("simple"); s != "Empty" {
			t.Errorf("simple before its time: %s", s)
		}
		alive(12 * time.Minute)
		if s := w.state("simple"); s != "Dead" {
			t.Errorf("simple after its time: %s", s)
		}
		all := w.do(8, fetchReq("g", "t")).(*kmsg.OffsetFetchResponse).Groups[0].Topics
		if len(all) != 1 || all[0].Topic != "t" {
			t.Errorf("of the group with members is left: %+v", all)
		}
		w.codeIs("leave", w.do(4, leaveReq("g", j.MemberID)), 0)
		pass(59 * time.Minute)
		if o := w.offset("g"); o != 1 {
			t.Errorf("an hour counts from when the group became empty: %d", o)
		}
		pass(12 * time.Minute)
		synctest.Wait()
		if s, k := w.state("g"), w.state("kept"); s != "Dead" || k != "Empty" {
			t.Errorf("after the hour: %s, %s", s, k)
		}
		pass(time.Hour)
		synctest.Wait()
		w.restart()
		r := w.do(4, kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse)
		if len(r.Groups) != 0 {
			t.Errorf("after everything has expired and a restart: %+v", r.Groups)
		}
	})
}

// Old offsets, of a topic that the members consume ("t") and of another, in every state of a group: those of a group without protocol
// type go; those of an empty one stay until it has been so for long enough; those of a stable one go if its members do not consume the
// topic; and while members come and go nothing does.
func TestRetentionByState(t *testing.T) {
	left := map[string]string{
		"absent": "", "simple": "t", "promised": "", "stable": "t", "stable, another promised": "t", "stable, static": "t", "stable, loaded again": "t", // what is simple has committed t anew
	}
	for _, s := range situations {
		inBubble(t, func(set *Settings) {
			set.Group.InitialRebalanceDelay = initialDelay(s.name)
			set.OffsetsRetentionCheckInterval = time.Second
		}, func(w *world) {
			w.topics.add("u", 1, 2)
			unread := offsetRecord("g", 1)
			unread.Key = schema.AppendOffsetKey(nil, "g", "u", 0)
			w.put(record.BatchOptions{}.NoProducer(), offsetRecord("g", 1), unread)
			w.restart()
			s.enter(w)
			pass(1500 * time.Millisecond)
			synctest.Wait()
			want, ok := left[s.name]
			if !ok {
				want = "tu"
			}
			got := ""
			for _, topic := range w.do(8, fetchReq("g", "t")).(*kmsg.OffsetFetchResponse).Groups[0].Topics {
				got += topic.Topic
			}
			if got != want {
				t.Errorf("%s: offsets of %q are left, want %q", s.name, got, want)
			}
		})
	}
}

func TestTopicsDeleted(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.topics.add("u", 3, 2)
		w.codeIs("commit", w.do(8, commitReq("g", -1, "", "u", 42, 0, 1, 2)), 0)
		w.codeIs("commit", w.do(8, commitReq("g", -1, "", "t", 42, 0)), 0)
		w.c.TopicsDeleted([]string{"u", "never"})
		synctest.Wait()
		check := func() {
			all := w.do(8, fetchReq("g", "t")).(*kmsg.OffsetFetchResponse).Groups[0].Topics
			if len(all) != 1 || all[0].Topic != "t" {
				t.Errorf("left: %+v", all)
			}
		}
		check()
		w.restart()
		check()
	})
}

// More deletions than fit into one batch are written in several.
func TestManyDeletions(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.topics.add("u", 1000, 2)
		all := make([]int32, 1000)
		for i := range all {
			all[i] = int32(i)
		}
		w.codeIs("commit", w.do(8, commitReq("g", -1, "", "u", 42, all...)), 0)
		w.log.SetMaxBatchBytes(4096)
		before := len(w.log.Entries(0))
		w.codeIs("too many offsets for a batch", w.do(8, commitReq("h", -1, "", "u", 42, all...)), -1)
		if o := w.state("h"); o != "Dead" {
			t.Errorf("a refused commit made a group: %s", o)
		}
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = []string{"g", "g"}
		if resp := w.do(2, r).(*kmsg.DeleteGroupsResponse); len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 {
			t.Errorf("delete: %+v", resp)
		}
		if n := len(w.log.Entries(0)) - before; n < 10 {
			t.Errorf("%d batches", n)
		}
		for _, e := range w.log.Entries(0)[before:] {
			if e.Size() > 4096 {
				t.Errorf("a batch of %d bytes", e.Size())
			}
		}
		w.restart()
		if s := w.state("g"); s != "Dead" {
			t.Errorf("after a restart: %s", s)
		}
	})
	inBubble(t, func(s *Settings) { s.Kafka4 = false }, func(w *world) {
		w.log.SetMaxBatchBytes(70)
		w.codeIs("too large, as Kafka 3.9", w.do(8, commitReq("h", -1, "", "t", 42, 0)), 28)
	})
}

// put writes records to the log behind the coordinator's back, as an earlier or a later broker would have.
func (w *world) put(o record.BatchOptions, recs ...record.Record) {
	w.t.Helper()
	entries := w.log.Entries(0)
	if len(entries) > 0 {
		o.BaseOffset = entries[len(entries)-1].NextOffset()
	}
	b, err := record.Build(o, recs)
	if err != nil {
		w.t.Fatal(err)
	}
	w.log.Put(0, record.Entry(b))
}

func offsetRecord(group string, offset int64) record.Record {
	v := schema.OffsetValue{Offset: offset, LeaderEpoch: -1, ExpireMs: -1}
	return record.Record{Key: schema.AppendOffsetKey(nil, group, "t", 0), Value: v.Append(nil, 3)}
}

func marker(producer int64, kind record.ControlType) record.Entry {
	return record.Entry(record.BuildMarker(producer, 0, kind, 0, 0))
}

// putMarker appends the end of a transaction.
func (w *world) putMarker(producer int64, kind record.ControlType) {
	entries := w.log.Entries(0)
	e := marker(producer, kind)
	record.Batch(e).SetBaseOffset(entries[len(entries)-1].NextOffset())
	w.log.Put(0, e)
}

// Offsets of a transaction count once its commit marker has come, and a later commit outside of it wins.
func TestTransactionalOffsets(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		txn := func(producer int64) record.BatchOptions {
			return record.BatchOptions{ProducerID: producer, Transactional: true}
		}
		w.put(record.BatchOptions{}.NoProducer(), offsetRecord("committed", 1), offsetRecord("aborted", 1), offsetRecord("open", 1))
		w.put(txn(1), offsetRecord("committed", 2), offsetRecord("later", 2), offsetRecord("new", 2))
		w.put(txn(2), offsetRecord("aborted", 2))
		w.put(txn(3), offsetRecord("open", 2))
		w.put(record.BatchOptions{}.NoProducer(), offsetRecord("later", 3))
		w.putMarker(1, record.Commit)
		w.putMarker(2, record.Abort)
		w.restart()
		for group, want := range map[string]int64{"committed": 2, "aborted": 1, "open": 1, "later": 3, "new": 2} {
			if got := w.offset(group); got != want {
				t.Errorf("%s: %d, want %d", group, got, want)
			}
		}
		r := fetchReq("open", "t", 0)
		r.RequireStable = true
		if p := w.do(7, r).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 88 || p.Offset != -1 {
			t.Errorf("stable offset while a transaction is open: %+v", p)
		}
		del := kmsg.NewPtrDeleteGroupsRequest()
		del.Groups = []string{"open"}
		w.codeIs("delete", w.do(2, del), 0)
		w.putMarker(3, record.Commit)
		w.restart()
		if s := w.state("open"); s != "Dead" {
			t.Errorf("a deleted group came back with its transaction: %s", s)
		}
	})
}

// Records of kinds and versions that are not known stay in the log, are told of, and hurt nothing.
func TestUnknownRecordsAreLeft(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		core, logged := observer.New(zap.WarnLevel)
		w.c.o.Logger = zap.New(core)
		good := offsetRecord("g", 1)
		newer := offsetRecord("newer", 1)
		newer.Value[1] = 9
		w.put(record.BatchOptions{}.NoProducer(), good, newer,
			record.Record{Key: []byte{0, 5, 0, 1, 'g'}, Value: []byte{0, 0}},
			record.Record{Key: []byte{0, 99}, Value: []byte{0}}, record.Record{Key: nil, Value: []byte{0}},
			record.Record{Key: []byte{0, 1, 0, 9}, Value: []byte{0}}, record.Record{Key: good.Key, Value: []byte{0, 3, 1}})
		w.close()
		w.c = New(w.c.o)
		w.c.Elected(0, 1)
		synctest.Wait()
		var told []string
		for _, line := range logged.FilterMessageSnippet("does not understand").All() {
			fields := line.ContextMap()
			told = append(told, fmt.Sprint(fields["type"], " v", fields["version"], ": ", fields["records"]))
		}
		slices.Sort(told)
		const want = "ConsumerGroupMemberMetadata v-1: 1, OffsetCommit v-1: 1, OffsetCommit v-1: 1, OffsetCommit v3: 1, OffsetCommit v9: 1, record type 99 v-1: 1"
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("told of are %s", got)
		}
		if o := w.offset("g"); o != 1 {
			t.Errorf("offset %d", o)
		}
		w.codeIs("goes on", w.do(8, commitReq("g", -1, "", "t", 2, 0)), 0)
		if n := len(w.log.Entries(0)); n != 2 {
			t.Errorf("%d entries in the log", n)
		}
	})
}

// Deletions of what never was, of every kind and in every mixture, and of what is not there any more, hurt nothing.
func TestDeletionsOfWhatNeverWas(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.stable("g")
		w.codeIs("commit", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 1, 0)), 0)
		answer := w.do(1, (&script{topics: map[string][16]byte{"ta": {1}}}).beat("modern", "m", 0, nil, to("t")))
		w.codeIs("a member of the consumer protocol", answer, 0)
		var gone []record.Record
		for _, group := range []string{"g", "modern", "never"} {
			gone = append(gone, record.Record{Key: schema.AppendOffsetKey(nil, group, "t", 7)}, record.Record{Key: schema.AppendOffsetKey(nil, group, "never", 0)})
			for kind := schema.ConsumerGroup; kind <= schema.ConsumerExpression; kind++ {
				if group == "modern" && (kind == schema.ConsumerGroup || kind == schema.ConsumerTarget) {
					continue // these exist
				}
				if kind.IsConsumer() {
					gone = append(gone, record.Record{Key: schema.AppendConsumerKey(nil, kind, group, "never")})
				}
			}
		}
		gone = append(gone, record.Record{Key: schema.AppendGroupKey(nil, "never")}, record.Record{Key: schema.AppendGroupKey(nil, "modern")})
		before := w.tell("g", "modern")
		w.put(record.BatchOptions{}.NoProducer(), gone...)
		w.put(record.BatchOptions{ProducerID: 4, Transactional: true}, gone...)
		w.putMarker(4, record.Commit)
		w.putMarker(5, record.Commit) // of a transaction that wrote nothing here
		w.restart()
		if after := w.tell("g", "modern"); after != before {
			t.Errorf("loaded are\n%s\nthere were\n%s", after, before)
		}
		if s := w.state("never"); s != "Dead" {
			t.Errorf("what never was is %s", s)
		}
		w.codeIs("goes on", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 2, 0)), 0)
	})
	inBubble(t, nil, func(w *world) { // nothing but deletions
		w.put(record.BatchOptions{}.NoProducer(), record.Record{Key: schema.AppendGroupKey(nil, "g")}, record.Record{Key: schema.AppendOffsetKey(nil, "g", "t", 0)},
			record.Record{Key: schema.AppendConsumerKey(nil, schema.ConsumerMember, "g", "m")}, record.Record{Key: schema.AppendConsumerKey(nil, schema.ConsumerGroup, "g", "")})
		w.restart()
		if groups := w.do(5, kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse).Groups; len(groups) != 0 {
			t.Errorf("groups %+v", groups)
		}
	})
}

// tell is all that is told of groups and of their offsets of "t".
func (w *world) tell(groups ...string) string {
	w.t.Helper()
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = groups
	modern, _ := json.Marshal(w.do(1, r))
	classic, _ := json.Marshal(w.do(6, describeReq(groups...)))
	text := fmt.Sprintf("%s\n%s", modern, classic)
	for _, group := range groups {
		text += fmt.Sprintf("\n%s has committed %d", group, w.offset(group))
	}
	return text
}

// The machine as a fuzzer's target: no record may make it fail.
func FuzzApply(f *testing.F) {
	f.Add(offsetRecord("g", 1).Key, offsetRecord("g", 1).Value)
	f.Add(schema.AppendGroupKey(nil, "g"), (&schema.GroupValue{ProtocolType: "consumer", Members: []schema.Member{{ID: "m"}}}).Append(nil, 3))
	current := schema.CurrentValue{Epoch: 3, Assigned: []schema.TopicPartitions{{Partitions: []int32{1, 0}, Epochs: []int32{3, 2}}}}
	f.Add(schema.AppendConsumerKey(nil, schema.ConsumerCurrent, "g", "m"), current.Append(nil))
	f.Add(schema.AppendConsumerKey(nil, schema.ConsumerGroup, "g", ""), schema.ConsumerGroupValue{Epoch: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := DefaultSettings()
		s.Kafka4 = true
		m := newMachine(&Options{Config: s, Metadata: newTopics()}, nopLogger, newUUID)
		m.Apply(&runtime.Record{Key: key, Value: value, ProducerID: -1})
		m.Apply(&runtime.Record{Key: key, Value: value, ProducerID: 4})
		m.EndTransaction(4, true)
		m.Apply(&runtime.Record{Key: key, ProducerID: -1})
	})
}

// TestOnlyToldAnID: who was only told an id does not keep a group when it is looked what is left of it. After GroupMetadataManager of 3.9 and
// of 4.4, for which a group without members is empty.
func TestOnlyToldAnID(t *testing.T) {
	for _, version := range versions {
		inBubble(t, func(s *Settings) { s.Kafka4, s.OffsetsRetentionCheckInterval = version == "4.4.0", time.Second }, func(w *world) {
			told := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
			pass(1500 * time.Millisecond)
			if state := w.state("g"); state != "Dead" {
				t.Errorf("%s: the group is %s", version, state)
			}
			w.codeIs("join with the id", w.do(9, joinReq("g", told.MemberID, "range")), kerr.UnknownMemberID.Code)
		})
	}
}
