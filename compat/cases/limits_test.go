package cases

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

var anonymous = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// memory returns the memory that a process cannot give back, in bytes.
func memory(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	kib, err := strconv.ParseInt(string(anonymous.FindSubmatch(text)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// TestClaimsCostNothing: connections that claim large requests and send a byte of them cost no memory for what they
// claim, and hold up nobody.
func TestClaimsCostNothing(t *testing.T) {
	b := start(t, harness.Options{})
	if b.Kind != harness.Gregor {
		t.Skip("Kafka allocates what is claimed; 4.4.0 was driven out of its heap by this")
	}
	const claims, claimed, limit = 400, 100_000_000, 100 << 20
	before := memory(t, b.Pid())
	for range claims {
		c := raw.Dial(t, b.Addr)
		c.Write(append(binary.BigEndian.AppendUint32(nil, claimed), 0))
	}
	// The same inside a request: arrays and strings that claim more than there is.
	for range 20 {
		c := raw.Dial(t, b.Addr)
		c.Write(header(3, 4, 1, 0x7f, 0xff, 0xff, 0xf0))
		c.ExpectClosed()
	}
	apiVersions(t, raw.Dial(t, b.Addr), 3)
	topic(t, b, 1)
	if grown := memory(t, b.Pid()) - before; grown > limit {
		t.Errorf("%d claims of %d bytes cost %d bytes of memory", claims, claimed, grown)
	}
}

// TestUnreadAnswers: connections that ask for much and read nothing, each for something else, do not take more memory than
// queued.max.request.bytes allows, and when they are gone the next is served.
func TestUnreadAnswers(t *testing.T) {
	b := start(t, harness.Options{Props: map[string]string{
		"queued.max.request.bytes": strconv.Itoa(16 << 20), "socket.request.max.bytes": strconv.Itoa(1 << 20)}})
	if b.Kind != harness.Gregor {
		t.Skip("Kafka holds them all")
	}
	const connections, answers, limit, looks = 60, 150, 250 << 20, 500 // an answer is of some 6 MB
	ask := kmsg.NewPtrDescribeConfigsRequest()
	ask.IncludeSynonyms, ask.IncludeDocumentation = true, true
	ask.SetVersion(4)
	for range answers {
		ask.Resources = append(ask.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"})
	}
	before := memory(t, b.Pid())
	var idle []*raw.Conn
	for i := range connections {
		ask.Resources[0].ConfigNames = []string{fmt.Sprint("key.", i)}
		c := raw.Dial(t, b.Addr)
		c.Send(ask)
		idle = append(idle, c)
	}
	reader := raw.Dial(t, b.Addr)
	reader.Send(ask) // answered last, if the others' answers are made
	type answer struct {
		response kmsg.Response
		err      error
	}
	answered := make(chan answer, 1)
	go func() {
		response, err := reader.TryReceive()
		answered <- answer{response, err}
	}()
	most, last := int64(0), answer{}
	for range looks {
		most = max(most, memory(t, b.Pid()))
		select {
		case last = <-answered:
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, c := range idle {
		c.Close()
	}
	if last == (answer{}) {
		last = <-answered
	}
	if r, ok := last.response.(*kmsg.DescribeConfigsResponse); !ok || len(r.Resources) != answers || len(r.Resources[1].Configs) == 0 {
		t.Errorf("who reads is not answered in full: %v", last.err)
	}
	if grown := most - before; grown > limit {
		t.Errorf("%d unread answers cost %d MB of memory", connections, grown>>20)
	} else {
		t.Logf("%d MB more", grown>>20)
	}
}

// TestInflatingBatch: a small batch that inflates to gigabytes is refused or stored, but never held in memory.
func TestInflatingBatch(t *testing.T) {
	b := start(t, harness.Options{})
	if b.Kind != harness.Gregor {
		t.Skip("Kafka may take a lot of memory for it")
	}
	topic := topic(t, b, 1, "compression.type", "lz4", "cleanup.policy", "compact") // both have the batch opened
	c := raw.Dial(t, b.Addr)
	before := memory(t, b.Pid())
	const megabytes, limit = 2000, 200 << 20
	encoded := raw.Inflating(megabytes << 20)
	p := produce(t, c, topic, encoded)
	t.Logf("%d bytes that inflate to %d MiB: error %d", len(encoded), megabytes, p.ErrorCode)
	if p.ErrorCode == 0 {
		t.Error("a record of 2 GB was accepted")
	}
	if grown := memory(t, b.Pid()) - before; grown > limit {
		t.Errorf("the batch cost %d bytes of memory", grown)
	}
}

// TestListeners: each listener is told its own address, advertised or the connection's.
func TestListeners(t *testing.T) {
	if harness.Peer() != harness.Gregor {
		t.Skip("port 0 and the ready file are gregor's")
	}
	b := start(t, harness.Options{Props: map[string]string{
		"listeners":                      "PLAINTEXT://127.0.0.1:0,OUTSIDE://0.0.0.0:0",
		"advertised.listeners":           "PLAINTEXT://127.0.0.1:0,OUTSIDE://broker.example:19092",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
	}})
	if len(b.Addrs) != 2 {
		t.Fatalf("the ready file names %v", b.Addrs)
	}
	for name, want := range map[string]string{"PLAINTEXT": b.Addrs["PLAINTEXT"], "OUTSIDE": "broker.example:19092"} {
		addr := b.Addrs[name]
		addr = "127.0.0.1" + addr[strings.LastIndex(addr, ":"):]
		c := raw.Dial(t, addr)
		r := raw.With(kmsg.NewPtrMetadataRequest(), 9)
		r.Topics = []kmsg.MetadataRequestTopic{}
		brokers := raw.Do[*kmsg.MetadataResponse](c, r).Brokers
		if len(brokers) != 1 || fmt.Sprintf("%s:%d", brokers[0].Host, brokers[0].Port) != want {
			t.Errorf("%s: Metadata answers %+v, want %s", name, brokers, want)
		}
		harness.Eventually(t, time.Minute, func() error {
			find := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 3)
			find.CoordinatorKey = "group"
			found := raw.Do[*kmsg.FindCoordinatorResponse](c, find)
			if got := fmt.Sprintf("%s:%d", found.Host, found.Port); found.ErrorCode != 0 || got != want {
				return fmt.Errorf("%s: FindCoordinator answers %s, error %d; want %s", name, got, found.ErrorCode, want)
			}
			return nil
		})
	}
}

// TestAddressOfTheConnection: without advertised.listeners each client is told the address that it came to itself.
func TestAddressOfTheConnection(t *testing.T) {
	if harness.Peer() != harness.Gregor {
		t.Skip("Kafka tells its host's name")
	}
	b := start(t, harness.Options{Props: map[string]string{"listeners": "PLAINTEXT://0.0.0.0:0", "offsets.topic.num.partitions": "1"}})
	_, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1", "127.0.0.2"}
	if runtime.GOOS != "linux" { // which has all of 127.0.0.0/8
		hosts = hosts[:1]
	}
	for _, host := range hosts {
		c := raw.Dial(t, net.JoinHostPort(host, port))
		told := func(what, toldHost string, toldPort int32) {
			if got := net.JoinHostPort(toldHost, fmt.Sprint(toldPort)); got != net.JoinHostPort(host, port) {
				t.Errorf("a client of %s is told %s by %s", host, got, what)
			}
		}
		for _, broker := range raw.Do[*kmsg.MetadataResponse](c, raw.With(kmsg.NewPtrMetadataRequest(), 9)).Brokers {
			told("Metadata", broker.Host, broker.Port)
		}
		for _, broker := range raw.Do[*kmsg.DescribeClusterResponse](c, raw.With(kmsg.NewPtrDescribeClusterRequest(), 0)).Brokers {
			told("DescribeCluster", broker.Host, broker.Port)
		}
		harness.Eventually(t, time.Minute, func() error {
			find := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 3)
			find.CoordinatorKey = "group"
			found := raw.Do[*kmsg.FindCoordinatorResponse](c, find)
			if found.ErrorCode != 0 {
				return fmt.Errorf("FindCoordinator answers %d", found.ErrorCode)
			}
			told("FindCoordinator", found.Host, found.Port)
			return nil
		})
	}
}

// TestLongStrings: Kafka reads no string of more than 32,767 bytes, also where its length could say more. Were one taken it would
// be in answers to older clients and in records of the internal topics, where it cannot be written.
func TestLongStrings(t *testing.T) { everywhere(t, longStrings) }

func longStrings(t *testing.T, b *server) {
	topic := topic(t, b, 1)
	long := strings.Repeat("s", 32_768)
	commit := func(group string) *kmsg.OffsetCommitRequest {
		r := raw.With(kmsg.NewPtrOffsetCommitRequest(), 8)
		r.Group, r.Generation = group, -1
		asked := kmsg.NewOffsetCommitRequestTopic()
		asked.Topic = topic
		asked.Partitions = append(asked.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		r.Topics = append(r.Topics, asked)
		return r
	}
	static := joinRequest(9, name(t), "", 6000, "range")
	static.InstanceID = &long
	quota := raw.With(kmsg.NewPtrAlterClientQuotasRequest(), 1)
	quota.Entries = append(quota.Entries, kmsg.AlterClientQuotasRequestEntry{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &long}}})
	for _, r := range []kmsg.Request{commit(long), static, quota} {
		c := raw.Dial(t, b.Addr)
		c.Send(r)
		c.ExpectClosed()
	}
	c := raw.Dial(t, b.Addr)
	ready(t, c, long[1:])
	if code := raw.Do[*kmsg.OffsetCommitResponse](c, commit(long[1:])).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("a group id of 32,767 bytes: error %d", code)
	}
}
