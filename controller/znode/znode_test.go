package znode

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// golden returns the data of every node of a live two-broker Apache Kafka 3.9.2 cluster: path, data, and what else was printed.
func golden(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/znodes-3.9.2.txt")
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if len(f) == 3 {
			nodes[f[0]] = f[1]
		}
	}
	return nodes
}

// again decodes data by the form that its path calls for and encodes it again.
func again(path, data string) (b []byte, err error) {
	id := func(prefix string) int32 {
		n, _ := strconv.Atoi(strings.TrimPrefix(path, prefix))
		return int32(n)
	}
	switch {
	case path == ClusterIDPath:
		v, err := DecodeClusterID([]byte(data))
		return EncodeClusterID(v), err
	case path == ControllerPath:
		v, err := DecodeController([]byte(data))
		return v.Encode(), err
	case path == ControllerEpochPath:
		v, err := DecodeControllerEpoch([]byte(data))
		return EncodeControllerEpoch(v), err
	case path == FeaturePath:
		v, err := DecodeFeature([]byte(data))
		return v.Encode(), err
	case path == ProducerIDsPath:
		v, err := DecodeProducerBlock([]byte(data))
		return v.Encode(), err
	case strings.HasPrefix(path, BrokerIDsPath+"/"):
		v, err := DecodeBroker(id(BrokerIDsPath+"/"), []byte(data))
		return v.Encode(), err
	case strings.HasSuffix(path, "/state"):
		v, err := DecodeState([]byte(data))
		return v.Encode(), err
	case strings.HasPrefix(path, TopicsPath+"/"):
		v, err := DecodeTopic([]byte(data))
		return v.Encode(), err
	case strings.HasPrefix(path, ConfigChangePrefix):
		v, err := DecodeConfigChange([]byte(data))
		return EncodeConfigChange(v), err
	case strings.HasPrefix(path, ConfigPath+"/"):
		v, err := DecodeConfig([]byte(data))
		return EncodeConfig(v), err
	case strings.HasPrefix(path, "/kafka-acl-extended-changes/"):
		v, err := DecodeACLChange([]byte(data))
		return v.Encode(), err
	case strings.HasPrefix(path, "/kafka-acl/"), strings.HasPrefix(path, "/kafka-acl-extended/"):
		v, err := DecodeACLs([]byte(data))
		return EncodeACLs(v), err
	case strings.HasPrefix(path, "/kafka-acl-changes/"):
		return []byte(data), nil // plain text
	}
	return nil, nil
}

// Everything that Kafka wrote comes back with the same bytes; only configurations, whose keys Kafka leaves in hash order, with
// the same content.
func TestKafkasNodesRoundTrip(t *testing.T) {
	forms := 0
	for path, data := range golden(t) {
		if data == "<null>" {
			continue
		}
		got, err := again(path, data)
		if err != nil || got == nil {
			t.Errorf("%s: %s: %v", path, data, err)
			continue
		}
		forms++
		if strings.HasPrefix(path, ConfigPath+"/") {
			var a, b any
			if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(data), &b) != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %s became %s", path, data, got)
			}
		} else if string(got) != data {
			t.Errorf("%s: %s became %s", path, data, got)
		}
	}
	if forms < 50 {
		t.Errorf("only %d nodes seen", forms)
	}
}

func TestValues(t *testing.T) {
	nodes := golden(t)
	b, err := DecodeBroker(1, []byte(nodes["/brokers/ids/1"]))
	want := Broker{ID: 1, Endpoints: []Endpoint{{"PLAINTEXT", "PLAINTEXT", "127.0.0.1", 39392}}, Rack: "r1", JMXPort: -1, TimestampMs: 1795972146715}
	if err != nil || !reflect.DeepEqual(b, want) {
		t.Errorf("broker %+v, %v", b, err)
	}
	topic, err := DecodeTopic([]byte(nodes["/brokers/topics/t1"]))
	id, _ := ParseID("B_D9IvovQTi7XTjbLu7UNQ")
	if err != nil || !reflect.DeepEqual(topic, Topic{ID: id, Replicas: [][]int32{{1, 2}, {2, 1}}}) {
		t.Errorf("topic %+v, %v", topic, err)
	}
	s, err := DecodeState([]byte(nodes["/brokers/topics/t1/partitions/0/state"]))
	if err != nil || !reflect.DeepEqual(s, State{2, 1, 1, []int32{1, 2}, false}) {
		t.Errorf("state %+v, %v", s, err)
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(State{3, -1, 5, []int32{2}, true}.Encode()),
			`{"controller_epoch":3,"leader":-1,"version":1,"leader_epoch":5,"isr":[2],"leader_recovery_state":1}`},
		{string(Topic{Replicas: [][]int32{{3, 1, 2}}, Adding: map[int32][]int32{0: {3}}, Removing: map[int32][]int32{0: {1, 2}}}.Encode()),
			`{"partitions":{"0":[3,1,2]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","adding_replicas":{"0":[3]},"removing_replicas":{"0":[1,2]},"version":3}`},
		{string(Broker{ID: 1, Endpoints: []Endpoint{{"INT", "SSL", "::1", 9093}, {"A", "PLAINTEXT", "h", 1}, {"B", "PLAINTEXT", "h", 2}}, JMXPort: -1}.Encode()),
			`{"features":{},"listener_security_protocol_map":{"A":"PLAINTEXT","B":"PLAINTEXT","INT":"SSL"},"endpoints":["INT://[::1]:9093","A://h:1","B://h:2"],` +
				`"jmx_port":-1,"port":1,"host":"h","version":5,"timestamp":"0"}`},
		{string(Broker{ID: 1, JMXPort: -1, Extensions: 1}.Encode()),
			`{"features":{"gregor.extensions":{"min_version":1,"max_version":1}},"listener_security_protocol_map":{},"endpoints":[],"jmx_port":-1,"port":-1,` +
				`"host":null,"version":5,"timestamp":"0"}`},
		{string(Broker{ID: 1, JMXPort: -1}.Encode()),
			`{"features":{},"listener_security_protocol_map":{},"endpoints":[],"jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"0"}`},
		{string(EncodePartitions([]Partition{{"t", 0}})), `{"version":1,"partitions":[{"topic":"t","partition":0}]}`},
		{string(EncodeReassignments([]Reassignment{{"t", 0, []int32{1, 2}}})), `{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}`},
		{string(EncodeLogDirEvent(1)), `{"version":1,"broker":1,"event":1}`},
		{string(EncodeConfig(map[string]string{"a": "<&>"})), `{"version":1,"config":{"a":"<&>"}}`},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
	if c, err := DecodeController([]byte(`{"version":1,"brokerid":3,"timestamp":"7"}`)); err != nil || c != (Controller{3, 7, -1}) {
		t.Errorf("controller version 1: %+v, %v", c, err)
	}
	if id, err := DecodeMigration([]byte(`{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":1}`)); err != nil || id != 3000 {
		t.Errorf("migration by %d, %v", id, err)
	}
	if p, err := DecodeConfigChange([]byte(`{"version":1,"entity_type":"topics","entity_name":"t"}`)); err != nil || p != "topics/t" {
		t.Errorf("configuration change version 1: %q, %v", p, err)
	}
}

func TestEntities(t *testing.T) {
	for _, c := range []struct{ kind, name, path string }{
		{Topics, "a.b", "topics/a.b"},
		{Brokers, "1", "brokers/1"},
		{Brokers, Default, "brokers/<default>"},
		{Users, "alice", "users/alice"},
		{Users, "al%20ice/clients/c%2F1", "users/al%20ice/clients/c%2F1"},
		{Users, "<default>/clients/<default>", "users/<default>/clients/<default>"},
		{Clients, Sanitize("a*+~"), "clients/a%2A%2B%7E"},
		{Clients, Sanitize(".."), "clients/%2E%2E"},
		{Users, JoinNames(Sanitize("a/clients/b"), Default), "users/a%2Fclients%2Fb/clients/<default>"},
		{Groups, "..", "groups/%2E%2E"},
		{ClientMetrics, ".", "client-metrics/%2E"},
		{Groups, "a/b c", "groups/a%2Fb%20c"},
		{ClientMetrics, "a/b", "client-metrics/a%2Fb"},
		{IPs, "127.0.0.9", "ips/127.0.0.9"},
	} {
		if got := ConfigEntity(c.kind, c.name); got != c.path {
			t.Errorf("path of %s %s: %s, want %s", c.kind, c.name, got, c.path)
		}
		if kind, name, err := ParseConfigEntity(c.path); kind != c.kind || name != c.name || err != nil {
			t.Errorf("%s is %s %s, %v", c.path, kind, name, err)
		}
	}
}

func TestPersistentPathsHaveParents(t *testing.T) {
	nodes := golden(t)
	seen := []string{""}
	for _, path := range Persistent() {
		if parent := path[:strings.LastIndex(path, "/")]; !slices.Contains(seen, parent) {
			t.Errorf("%s before its parent", path)
		}
		if _, ok := nodes[path]; !ok {
			t.Errorf("Kafka has no %s", path)
		}
		seen = append(seen, path)
	}
}

func FuzzDecode(f *testing.F) {
	paths := []string{}
	for path, data := range golden(f) {
		if data != "<null>" {
			f.Add(uint8(len(paths)), data)
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	f.Fuzz(func(t *testing.T, i uint8, data string) {
		path := paths[int(i)%len(paths)]
		first, err := again(path, data)
		if err != nil || first == nil {
			return
		}
		second, err := again(path, string(first))
		if err != nil || string(second) != string(first) {
			t.Errorf("%s: %q became %q, then %q, %v", path, data, first, second, err)
		}
	})
}

// What a registration says of the extensions, whatever else may stand there.
func TestExtensionsOfBrokers(t *testing.T) {
	for features, want := range map[string]int16{
		`{}`: 0, `null`: 0, `[]`: 0, `{"gregor.extensions":{"min_version":1,"max_version":1}}`: 1, `{"gregor.extensions":3}`: 0,
		`{"gregor.extensions":{"max_version":-4}}`: 0, `{"x":{"min_version":1,"max_version":9},"gregor.extensions":{"max_version":2}}`: 2,
		`{"gregor.extensions":{"max_version":99999}}`: 0,
	} {
		b, err := DecodeBroker(1, []byte(`{"features":`+features+`,"endpoints":["PLAINTEXT://h:1"],"version":5,"timestamp":"1"}`))
		if err != nil || b.Extensions != want {
			t.Errorf("%s: %d %v, want %d", features, b.Extensions, err, want)
		}
	}
	if b, err := DecodeBroker(1, []byte(`{"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"version":2,"timestamp":"1"}`)); err != nil || b.Extensions != 0 {
		t.Error(b, err)
	}
}
