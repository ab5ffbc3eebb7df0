package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// standard is the version of Kafka whose answers are the right ones for a server.
func standard(s *server) string {
	if s.Kind == harness.Kafka39 {
		return "3.9"
	}
	return "4.4"
}

// compare checks lines against a transcript of testdata/neighbours, or writes it.
func compare(t *testing.T, s *server, name string, lines []string) {
	t.Helper()
	path, got := filepath.Join("testdata", "neighbours", name+"-"+standard(s)+".txt"), strings.Join(lines, "\n")+"\n"
	if *update {
		if s.Broker.Kind == harness.Gregor {
			t.Fatal("transcripts come from Apache Kafka")
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := range max(len(lines), len(want)) {
		g, w := "nothing more", "nothing more"
		if i < len(lines) {
			g = lines[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%s:%d\n got %s\nwant %s", path, i+1, g, w)
		}
	}
}

// talk is a conversation of which every field of every answer is noted, with names in place of what is another in each run.
type talk struct {
	t     *testing.T
	s     *server
	c     *raw.Conn
	notes []noted
	names []string // pairs of what is said and what is noted, for strings.NewReplacer
	ids   map[int64]string
	began int64
}

func newTalk(t *testing.T, s *server) *talk {
	return &talk{t: t, s: s, c: raw.Dial(t, s.Addr), ids: map[int64]string{-1: "-1"}, began: now()}
}

// call has a value, which must be unlike any other word, noted under a name.
func (k *talk) call(value any, name string) {
	k.names = append([]string{fmt.Sprint(value), name}, k.names...)
}

// name returns a name of a topic or group that is noted under another.
func (k *talk) name(noted string) string {
	n := name(k.t)
	k.call(n, noted)
	return n
}

// topic creates a topic that is noted under a name. It keeps records of any time.
func (k *talk) topic(noted string, partitions int, configs ...string) string {
	k.t.Helper()
	n := k.name(noted)
	harness.CreateTopic(k.t, k.s.Broker, n, partitions, append(configs, "retention.ms", "-1")...)
	return n
}

// topicID returns the id of a topic that was made under a name.
func (k *talk) topicID(topic string) [16]byte {
	k.t.Helper()
	r := raw.With(kmsg.NewPtrMetadataRequest(), 12)
	r.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	id := raw.Do[*kmsg.MetadataResponse](k.c, r).Topics[0].TopicID
	k.call(id, strings.NewReplacer(k.names...).Replace("ID of "+topic))
	return id
}

// producer gets a producer id that is noted under a name.
func (k *talk) producer(noted string) int64 {
	k.t.Helper()
	id := producerID(k.t, k.c)
	k.ids[id] = noted
	return id
}

// producerName is what an id is noted as.
func (k *talk) producerName(id int64) string {
	if k.ids[id] == "" {
		k.ids[id] = fmt.Sprint("producer ", len(k.ids))
	}
	return k.ids[id]
}

// noted is something said of a request in a version; "" = it is of none.
type noted struct{ request, version, words string }

func (k *talk) say(format string, args ...any) { k.sayOf("", "", format, args...) }

func (k *talk) sayOf(request, version, format string, args ...any) {
	words := strings.NewReplacer(k.names...).Replace(fmt.Sprintf(format, args...))
	k.notes = append(k.notes, noted{request, version, words})
}

// lines are the notes, where the same of several versions is said once.
func (k *talk) lines() []string {
	versions := map[noted][]string{}
	var order []noted
	for _, n := range k.notes {
		same := noted{request: n.request, words: n.words}
		if versions[same] == nil {
			order = append(order, same)
		}
		versions[same] = append(versions[same], n.version)
	}
	var lines []string
	for _, n := range order {
		line := n.words
		if times := len(versions[n]); n.request != "" {
			line = fmt.Sprintf("%s %s, %s", n.request, strings.Join(versions[n], " "), n.words)
		} else if times > 1 {
			line = fmt.Sprintf("%s (%d times)", n.words, times)
		}
		lines = append(lines, line)
	}
	return lines
}

// ask sends a request and notes the answer.
func (k *talk) ask(what string, version int16, r kmsg.Request) kmsg.Response {
	k.t.Helper()
	r.SetVersion(version)
	k.c.Send(r)
	answer := k.c.Receive()
	k.note(what, answer)
	return answer
}

// note notes an answer.
func (k *talk) note(what string, answer kmsg.Response) {
	ordered := answer.Key() == kmsg.Fetch.Int16()
	k.sayOf(kmsg.NameForKey(answer.Key()), fmt.Sprint("v", answer.GetVersion()), "%s: %s", what, k.fields(reflect.ValueOf(answer).Elem(), ordered))
}

// unnoted are the fields that are not noted: what depends on the speed of the machine, and words.
var unnoted = map[string]bool{"Version": true, "UnknownTags": true, "ThrottleMillis": true, "ErrorMessage": true}

// others are fields that differ from one broker to another.
var others = map[string]bool{
	"NodeID": true, "Leader": true, "Replicas": true, "ISR": true, "ControllerID": true, "Host": true, "Port": true, "ClusterID": true, "SessionID": true,
	"OfflineReplicas": true, "CoordinatorEpoch": true,
}

// allUnset matches structs in which nothing is set.
var allUnset = regexp.MustCompile(`^\{\w+=-1( \w+=-1)*\}$`)

// fields tells the fields of a struct that are not zero. Lists are sorted, as their order is that of a hash map in Kafka, unless it counts.
func (k *talk) fields(v reflect.Value, ordered bool) string {
	var words []string
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if unnoted[name] || f.IsZero() && name != "ErrorCode" && name != "NodeID" { // a broker may be 0
			continue
		}
		if word := k.value(name, f, ordered); !allUnset.MatchString(word) {
			words = append(words, name+"="+word)
		}
	}
	return "{" + strings.Join(words, " ") + "}"
}

func (k *talk) value(name string, f reflect.Value, ordered bool) string {
	for f.Kind() == reflect.Pointer {
		if f.IsNil() {
			return "null"
		}
		f = f.Elem()
	}
	switch {
	case name == "ErrorCode":
		return codeWord(int16(f.Int()))
	case others[name]:
		return "such"
	case name == "ProducerID":
		return k.producerName(f.Int())
	case name == "RecordBatches":
		return k.batches(f.Bytes())
	case f.Kind() == reflect.Struct:
		return k.fields(f, ordered)
	case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Uint8:
		return fmt.Sprintf("%q", f.Bytes())
	case f.Kind() == reflect.Slice:
		var items []string
		for i := range f.Len() {
			items = append(items, k.value("", f.Index(i), ordered))
		}
		if !ordered {
			slices.Sort(items)
		}
		return "[" + strings.Join(items, " ") + "]"
	case f.Kind() == reflect.Int64 && f.Int() >= k.began:
		return "now" // a time, as no offset is that large
	}
	return fmt.Sprint(f.Interface())
}

func codeWord(code int16) string {
	if code == 0 {
		return "NONE"
	}
	return kerr.TypedErrorForCode(code).Message
}

// batches tells what is in a record set.
func (k *talk) batches(set []byte) string {
	entries, left, err := raw.Entries(set)
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, e := range entries {
		times := ""
		for _, r := range e.Records {
			times += " " + k.time(r.Timestamp)
		}
		words = append(words, fmt.Sprintf("%d-%d v%d attributes %#x epoch %d, base time %s, last time %s, producer %s/%d, %d records%s, valid %t", e.BaseOffset,
			e.LastOffset, e.Magic, e.Attributes, e.LeaderEpoch, k.time(e.BaseTimestamp), k.time(e.MaxTime), k.producerName(e.ProducerID), e.BaseSequence,
			e.Count, times, e.ValidCRC))
	}
	if len(left) > 0 {
		words = append(words, "a part of one more")
	}
	return "[" + strings.Join(words, "; ") + "]"
}

func (k *talk) time(t int64) string {
	if t >= k.began {
		return "now"
	}
	return fmt.Sprint(t)
}
