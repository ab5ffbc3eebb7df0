package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// load reads a configuration of overrides, with zookeeper.connect among them for a broker on ZooKeeper.
func load(t *testing.T, overrides ...string) (*Snapshot, []Notice) {
	t.Helper()
	s, notices, err := Load(Sources{Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	return s, notices
}

func texts(notices []Notice) string {
	var all []string
	for _, n := range notices {
		all = append(all, n.Text)
	}
	return strings.Join(all, "\n")
}

const zk = "zookeeper.connect=localhost:2181"

// The file that Kafka ships starts the broker as it is.
func TestShippedFiles(t *testing.T) {
	s, notices, err := Load(Sources{File: "testdata/shipped-zookeeper.properties"})
	if err != nil {
		t.Fatal(err)
	}
	if id, set := s.BrokerID(); s.Embedded() || id != 0 || !set || ZooKeeperConnect.Of(s) != "localhost:2181" {
		t.Errorf("broker %d, embedded %v", id, s.Embedded())
	}
	if len(notices) > 2 {
		t.Errorf("too much to say: %s", texts(notices))
	}

	s, notices, err = Load(Sources{File: "testdata/shipped-kraft.properties"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Listener{{"PLAINTEXT", "", 9092, "PLAINTEXT", "localhost", 9092}}
	if id, _ := s.BrokerID(); !s.Embedded() || id != 1 || !reflect.DeepEqual(s.Listeners(), want) {
		t.Errorf("broker %d, embedded %v, listeners %v", id, s.Embedded(), s.Listeners())
	}
	if got := texts(notices); got != "without effect, since "+whyKRaft+": controller.quorum.bootstrap.servers" {
		t.Errorf("notices: %s", got)
	}
}

func TestDefaultsByMode(t *testing.T) {
	embedded, _ := load(t)
	onZooKeeper, _ := load(t, zk)
	if d := GroupInitialRebalanceDelay.Of(embedded); d != 0 {
		t.Errorf("embedded: rebalance delay %v", d)
	}
	if d := GroupInitialRebalanceDelay.Of(onZooKeeper); d != 3*time.Second {
		t.Errorf("ZooKeeper: rebalance delay %v", d)
	}
	if n := OffsetsTopicReplication.Of(embedded); n != 1 {
		t.Errorf("embedded: offsets replication %d", n)
	}
	if n := OffsetsTopicReplication.Of(onZooKeeper); n != 3 {
		t.Errorf("ZooKeeper: offsets replication %d", n)
	}
	if !TopicDownconversion(embedded, nil) {
		t.Error("embedded: no down-conversion")
	}
	if n := RecoveryThreadsPerDir.Of(embedded); n != 2 {
		t.Errorf("embedded: %d recovery threads", n)
	}
	if _, set := embedded.BrokerID(); set {
		t.Error("an id without configuration")
	}
}

func TestLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	text := "num.io.threads=1\nnum.network.threads=1\nnum.partitions=1\nlog.dirs=/a, /b\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, notices, err := Load(Sources{
		File:      file,
		Env:       []string{"KAFKA_NUM_IO_THREADS=2", "KAFKA_NUM_NETWORK_THREADS=2", "KAFKA_CFG_NUM_NETWORK_THREADS=3"},
		Overrides: []string{"num.io.threads=4"},
	})
	if err != nil || len(notices) != 0 {
		t.Fatal(err, notices)
	}
	if a, b, c := NumIOThreads.Of(s), NumNetworkThreads.Of(s), NumPartitions.Of(s); a != 4 || b != 3 || c != 1 {
		t.Errorf("io %d, network %d, partitions %d", a, b, c)
	}
	if got := s.LogDirs(); !reflect.DeepEqual(got, []string{"/a", "/b"}) {
		t.Errorf("log dirs %v", got)
	}

	next, notices, err := s.WithDynamic(map[string]string{"num.io.threads": "5", "log.cleaner.backoff.ms": "5", "num.partitions": "7",
		"num.network.threads": "6", "ssl.client.auth": "required"},
		map[string]string{"log.cleaner.backoff.ms": "6", "message.max.bytes": "x", "no.such": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := NumIOThreads.Of(next), CleanerBackoff.Of(next), NumPartitions.Of(next); a != 5 || b != 6*time.Millisecond || c != 1 {
		t.Errorf("dynamic: io %d, backoff %v, partitions %d", a, b, c)
	}
	want := "the dynamic value of num.network.threads is ignored: " + startProcessors + "\n" +
		"the dynamic value of num.partitions is ignored: it changes only at the start\n" +
		"the dynamic value of ssl.client.auth is ignored: it cannot be the same for all brokers\n" +
		"the dynamic value of message.max.bytes is ignored: Invalid value x for configuration message.max.bytes: Not a number of type INT\n" +
		"the dynamic value of no.such is ignored: it is no known key"
	if got := texts(notices); got != want {
		t.Errorf("notices:\n%s", got)
	}
	if NumIOThreads.Of(s) != 4 {
		t.Error("the older snapshot changed")
	}
	rows := DescribeBroker(next, []string{"log.cleaner.backoff.ms"})
	if got := showRow(rows[0]); got != "log.cleaner.backoff.ms=6 DYNAMIC_BROKER_CONFIG LONG DYNAMIC_BROKER_CONFIG:log.cleaner.backoff.ms=6"+
		" DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.backoff.ms=5 DEFAULT_CONFIG:log.cleaner.backoff.ms=15000" {
		t.Error(got)
	}
	if rows := DescribeDefaults(next, nil); len(rows) != 5 || showRow(rows[1]) !=
		"num.io.threads=5 DYNAMIC_DEFAULT_BROKER_CONFIG INT DYNAMIC_DEFAULT_BROKER_CONFIG:num.io.threads=5" {
		t.Error(rows)
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ variable, key, value string }{
		{"KAFKA_LOG_RETENTION_MS=5", "log.retention.ms", "5"},
		{"KAFKA_CFG_LOG_RETENTION_MS=5", "log.retention.ms", "5"},
		{"KAFKA_LISTENER_NAME_SASL__SSL_SSL_KEYSTORE_LOCATION=x", "listener.name.sasl_ssl.ssl.keystore.location", "x"},
		{"KAFKA_LISTENER_NAME_MY___OWN_SSL_KEYSTORE_LOCATION=x", "listener.name.my-own.ssl.keystore.location", "x"},
		{"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://h:1=", "advertised.listeners", "PLAINTEXT://h:1="},
		{"KAFKA_HEAP_OPTS=-Xmx1G", "", ""},
		{"KAFKA_OPTS=-D", "", ""},
		{"KAFKA_VERSION=4.4.0", "", ""},
		{"KAFKA_PORT=tcp://10.0.0.1:9092", "", ""},
		{"KAFKA_SERVICE_HOST=10.0.0.1", "", ""},
		{"KAFKA_SERVICE_PORT=9092", "", ""},
		{"KAFKA_SERVICE_PORT_TCP_CLIENT=9092", "", ""},
		{"KAFKA_PORT_9092_TCP=tcp://10.0.0.1:9092", "", ""},
		{"KAFKA_PORT_9092_TCP_ADDR=10.0.0.1", "", ""},
		{"KAFKA_BROKER_PORT=tcp://10.0.0.1:9092", "", ""},
		{"KAFKA_JMX_OPTS=", "", ""},
		{"KAFKA_CREATE_TOPICS=a:1:1", "", ""},
		{"KAFKAESQUE=1", "", ""},
		{"PATH=/bin", "", ""},
		{"CLUSTER_ID=MkU3OEVBNTcwNTJENDM2Qg", "", ""},
	} {
		settings, notices := readEnv([]string{c.variable})
		if len(notices) != 0 {
			t.Errorf("%s: %s", c.variable, texts(notices))
		}
		if c.key == "" {
			if len(settings) != 0 {
				t.Errorf("%s became %v", c.variable, settings)
			}
		} else if len(settings) != 1 || settings[0].name != c.key || settings[0].value != c.value {
			t.Errorf("%s became %v", c.variable, settings)
		}
	}
	_, notices := readEnv([]string{"KAFKA_LOG_RETENTOIN_MS=1", "KAFKA_CFG_FOO=1", "KAFKA_SOMETHING_ELSE_ENTIRELY=1", "KAFKA_OTHER_THING_OF_MINE=2"})
	want := "foo (KAFKA_CFG_FOO) is no known key and has no effect\n" +
		"log.retentoin.ms (KAFKA_LOG_RETENTOIN_MS) is no known key and has no effect; did you mean log.retention.ms?\n" +
		"environment variables that name no key are ignored: KAFKA_OTHER_THING_OF_MINE, KAFKA_SOMETHING_ELSE_ENTIRELY"
	if got := texts(notices); got != want {
		t.Errorf("notices:\n%s", got)
	}
}

func TestNoClusterID(t *testing.T) {
	s, notices, err := Load(Sources{Env: []string{"CLUSTER_ID=mine"}})
	if err != nil || s.ClusterID() != "" || len(notices) != 1 || !notices[0].Warn || !strings.HasPrefix(notices[0].Text, "CLUSTER_ID=mine is no cluster id") {
		t.Errorf("%q %v %v", s.ClusterID(), notices, err)
	}
}

func TestImageEnvironment(t *testing.T) {
	s, _, err := Load(Sources{Env: []string{
		"KAFKA_NODE_ID=7", "KAFKA_PROCESS_ROLES=broker,controller", "KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER",
		"KAFKA_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093", "KAFKA_CONTROLLER_QUORUM_VOTERS=7@localhost:9093",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT", "CLUSTER_ID=MkU3OEVBNTcwNTJENDM2Qg",
		"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:19092",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := s.BrokerID(); id != 7 || s.ClusterID() != "MkU3OEVBNTcwNTJENDM2Qg" {
		t.Errorf("broker %d of cluster %q", id, s.ClusterID())
	}
	if got := s.Listeners(); !reflect.DeepEqual(got, []Listener{{"PLAINTEXT", "", 9092, "PLAINTEXT", "localhost", 19092}}) {
		t.Errorf("listeners %v", got)
	}
	// Only what is advertised: the official image listens on those ports.
	s, _, err = Load(Sources{Env: []string{"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker:29092,HOST://localhost:9092",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Listeners(); !reflect.DeepEqual(got, []Listener{
		{"PLAINTEXT", "0.0.0.0", 29092, "PLAINTEXT", "broker", 29092}, {"HOST", "0.0.0.0", 9092, "PLAINTEXT", "localhost", 9092}}) {
		t.Errorf("listeners %v", got)
	}
}

func TestNotices(t *testing.T) {
	for _, c := range []struct{ override, want string }{
		{"num.io.thread=3", "num.io.thread (--override) is no known key and has no effect; did you mean num.io.threads?"},
		{"retention.ms=3", "retention.ms (--override) is no known key and has no effect; it is a topic's key, its default for all topics is log.retention.ms"},
		{"entirely.different=3", "entirely.different (--override) is no known key and has no effect"},
		{"metric.reporters=com.example.Reporter", "without effect, since there is no JVM: metric.reporters"},
		{"log.message.format.version=2.8", "without effect, since everything is stored in record format 2: log.message.format.version"},
		{"rsm.config.bucket=x", "without effect, since there is no tiered storage: rsm.config.bucket"},
		{"listener.name.internal.ssl.keystore.location=x", "without effect, since " + whySecurity + ": listener.name.internal.ssl.keystore.location"},
		{"listener.name.internal.plain.sasl.jaas.config=x", "without effect, since " + whySecurity + ": listener.name.internal.plain.sasl.jaas.config"},
		{"reserved.broker.max.id=5", "without effect, since Kafka 4.4 has no such key: reserved.broker.max.id"},
		{"background.threads=10", ""}, // the default says nothing
		{"log.message.downconversion.enable=false", ""},
		{"replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector", ""},
		{"process.roles=broker", "process.roles=broker: this broker joins no KRaft controllers; it stands alone and keeps its metadata itself"},
	} {
		_, notices := load(t, c.override)
		if got := texts(notices); got != c.want {
			t.Errorf("%s:\n  got  %s\n  want %s", c.override, got, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "x.properties")
	if err := os.WriteFile(file, []byte("num.partitions=1\n\nnum.partitions=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, notices, err := Load(Sources{File: file})
	if want := "num.partitions is set twice in " + file + ", in lines 1 and 3; the last one counts"; err != nil || texts(notices) != want {
		t.Errorf("%v: %s", err, texts(notices))
	}
}

// Every bad value stops the start with one line: which key, what was given, what is allowed.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		overrides []string
		want      string
	}{
		{[]string{"num.io.threads=0"}, `num.io.threads: "0" given (--override); allowed: an integer of at least 1`},
		{[]string{"num.io.threads=abc"}, `num.io.threads: "abc" given (--override); allowed: an integer of at least 1`},
		{[]string{"num.io.threads=99999999999"}, `num.io.threads: "99999999999" given (--override); allowed: an integer of at least 1`},
		{[]string{"auto.create.topics.enable=yes"}, `auto.create.topics.enable: "yes" given (--override); allowed: true or false`},
		{[]string{"compression.type=lzma"}, `compression.type: "lzma" given (--override); allowed: one of uncompressed, zstd, lz4, snappy, gzip, producer`},
		{[]string{"compression.gzip.level=0"}, `compression.gzip.level: "0" given (--override); allowed: an integer from 1 to 9, or -1`},
		{[]string{"log.cleanup.policy=foo"}, `log.cleanup.policy: "foo" given (--override); allowed: a comma-separated list of compact, delete`},
		{[]string{"log.cleaner.min.cleanable.ratio=2"}, `log.cleaner.min.cleanable.ratio: "2" given (--override); allowed: a number from 0 to 1`},
		{[]string{"log.segment.bytes=1000"}, `log.segment.bytes: "1000" given (--override); allowed: an integer of at least 1048576`},
		{[]string{zk, "replica.lag.time.max.ms=400"}, `replica.fetch.wait.max.ms: "500" given (default); allowed: at most replica.lag.time.max.ms (400)`},
		{[]string{zk, "replica.fetch.wait.max.ms=40000", "replica.lag.time.max.ms=50000"}, `replica.fetch.wait.max.ms: "40000" given (--override); allowed: at most replica.socket.timeout.ms (30000)`},
		{[]string{zk, "log.segment.bytes=13"}, `log.segment.bytes: "13" given (--override); allowed: an integer of at least 14`},
		{[]string{"ssl.client.auth=foo"}, `ssl.client.auth: "foo" given (--override); allowed: one of required, requested, none`},
		{[]string{"log.retention.ms=0"}, `log.retention.ms: "0" given (--override); allowed: -1 (unlimited) or at least 1`},
		{[]string{"log.retention.hours=0"}, `log.retention.hours: "0" given (--override); allowed: -1 (unlimited) or at least 1`},
		{[]string{"log.roll.ms=0"}, `log.roll.ms: "0" given (--override); allowed: at least 1`},
		{[]string{"log.dirs="}, `log.dirs: "" given (--override); allowed: a comma-separated list of at least one item`},
		{[]string{"log.dirs=/a,,/b"}, `log.dirs: "/a,,/b" given (--override); allowed: a comma-separated list of at least one item`},
		{[]string{zk, "log.dirs="}, `log.dirs: "" given (--override); allowed: at least one directory, in log.dirs or log.dir`},
		{[]string{"broker.id=-5"}, `broker.id: "-5" given (--override); allowed: greater than or equal to -1 and not greater than reserved.broker.max.id (1000)`},
		{[]string{zk, "broker.id=2000"}, `broker.id: "2000" given (--override); allowed: greater than or equal to -1 and not greater than reserved.broker.max.id (1000)`},
		{[]string{"node.id=-1"}, `node.id: "-1" given (--override); allowed: an integer of at least 0`},
		{[]string{"broker.id=3", "node.id=4"}, `node.id: "4" given (--override); allowed: the same value as broker.id (3)`},
		{[]string{"process.roles=controller"}, `process.roles: "controller" given (--override); allowed: broker,controller (a controller alone does not exist: the broker keeps its metadata itself)`},
		{[]string{"process.roles=foo"}, `process.roles: "foo" given (--override); allowed: a comma-separated list of broker, controller`},
		{[]string{zk, "process.roles=broker"}, `process.roles: "broker" given (--override); allowed: nothing beside zookeeper.connect: the broker is on ZooKeeper or it is not`},
		{[]string{"queued.max.request.bytes=5"}, `queued.max.request.bytes: "5" given (--override); allowed: at least socket.request.max.bytes (104857600), or no limit (-1)`},
		{[]string{"log.cleaner.dedupe.buffer.size=1"}, `log.cleaner.dedupe.buffer.size: "1" given (--override); allowed: at least 1 MiB (1048576)`},
		{[]string{"max.connections.per.ip=0"}, `max.connections.per.ip: "0" given (--override); allowed: zero only if max.connections.per.ip.overrides is set`},
		{[]string{"max.connections.per.ip.overrides=foo"}, `max.connections.per.ip.overrides: "foo" given (--override); allowed: host:limit, comma-separated`},
		{[]string{"max.connections.per.ip.overrides=127.0.0.1:x"}, `max.connections.per.ip.overrides: "127.0.0.1:x" given (--override); allowed: host:limit, comma-separated ("x" is no limit)`},
		{[]string{"offsets.topic.compression.codec=9"}, `offsets.topic.compression.codec: "9" given (--override); allowed: 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)`},
		{[]string{"group.coordinator.rebalance.protocols=consumer"}, `group.coordinator.rebalance.protocols: "consumer" given (--override); allowed: a list with classic in it (disabling the 'classic' protocol is not supported)`},
		{[]string{"group.consumer.heartbeat.interval.ms=4000"}, `group.consumer.heartbeat.interval.ms: "4000" given (--override); allowed: at least group.consumer.min.heartbeat.interval.ms (5000)`},
		{[]string{"group.consumer.session.timeout.ms=70000"}, `group.consumer.session.timeout.ms: "70000" given (--override); allowed: at most group.consumer.max.session.timeout.ms (60000)`},
		{[]string{"group.consumer.max.assignment.interval.ms=10", "group.consumer.min.assignment.interval.ms=20"},
			`group.consumer.max.assignment.interval.ms: "10" given (--override); allowed: at least group.consumer.min.assignment.interval.ms (20)`},
		{[]string{"group.consumer.heartbeat.interval.ms=50000", "group.consumer.max.heartbeat.interval.ms=50000"},
			`group.consumer.heartbeat.interval.ms: "50000" given (--override); allowed: less than group.consumer.session.timeout.ms (45000)`},
		{[]string{zk, "inter.broker.protocol.version=9"}, `inter.broker.protocol.version: "9" given (--override); allowed: a version of Kafka from 0.8.0 to 4.0, such as 3.9`},
		{[]string{"authorizer.class.name=kafka.security.authorizer.AclAuthorizer"}, `authorizer.class.name: "kafka.security.authorizer.AclAuthorizer" given (--override); allowed: nothing (` + refuseAuthorizer + `)`},
		{[]string{"replica.selector.class=com.example.Selector"}, `replica.selector.class: "com.example.Selector" given (--override); allowed: org.apache.kafka.common.replica.LeaderSelector, org.apache.kafka.common.replica.RackAwareReplicaSelector (` + refuseJava + `)`},
		{[]string{"create.topic.policy.class.name=com.example.Policy"}, `create.topic.policy.class.name: "com.example.Policy" given (--override); allowed: nothing (` + refuseJava + `)`},
		{[]string{"group.consumer.assignors=range,com.example.Assignor"}, `group.consumer.assignors: "range,com.example.Assignor" given (--override); allowed: uniform, range, org.apache.kafka.coordinator.group.assignor.UniformAssignor, org.apache.kafka.coordinator.group.assignor.RangeAssignor (` + refuseJava + `)`},
		{[]string{"config.providers=file"}, `config.providers: "file" given (--override); allowed: nothing (` + refuseJava + `)`},
		{[]string{"remote.log.storage.system.enable=true"}, `remote.log.storage.system.enable: "true" given (--override); allowed: false (there is no tiered storage)`},
		{[]string{"security.inter.broker.protocol=SSL"}, `security.inter.broker.protocol: "SSL" given (--override); allowed: PLAINTEXT (TLS and SASL do not exist yet)`},
		{[]string{"nonsense"}, `--override: "nonsense" given; allowed: key=value`},
	} {
		_, _, err := Load(Sources{Overrides: c.overrides})
		if err == nil || err.Error() != c.want {
			t.Errorf("%v:\n  got  %v\n  want %s", c.overrides, err, c.want)
		}
	}
	if _, _, err := Load(Sources{File: "testdata/none.properties"}); err == nil || !strings.Contains(err.Error(), "none.properties") {
		t.Error(err)
	}
	if _, _, err := Load(Sources{Env: []string{"KAFKA_CFG_NUM_IO_THREADS=x"}}); err == nil || !strings.Contains(err.Error(), "(KAFKA_CFG_NUM_IO_THREADS)") {
		t.Error(err)
	}
}

// A password is told to nobody.
func TestSecretsStayHidden(t *testing.T) {
	s, notices := load(t, "ssl.key.password=geheim", "listener.name.x.ssl.key.password=geheim", "sasl.jaas.config=geheim", "some.unknown=geheim")
	if strings.Contains(texts(notices), "geheim") {
		t.Error(texts(notices))
	}
	for _, r := range DescribeBroker(s, nil) {
		if text := showRow(r); strings.Contains(text, "geheim") {
			t.Error(text)
		}
	}
	rows := DescribeBroker(s, []string{"ssl.key.password", "some.unknown"})
	if len(rows) != 2 || showRow(rows[0]) != "some.unknown=null STATIC_BROKER_CONFIG  sensitive read-only STATIC_BROKER_CONFIG:some.unknown=null" ||
		showRow(rows[1]) != "ssl.key.password=null STATIC_BROKER_CONFIG PASSWORD sensitive read-only STATIC_BROKER_CONFIG:ssl.key.password=null" {
		t.Error(rows)
	}
}

func TestWithBrokerID(t *testing.T) {
	s, _ := load(t)
	s = s.WithBrokerID(5)
	if id, set := s.BrokerID(); id != 5 || !set {
		t.Error(id, set)
	}
	if rows := DescribeBroker(s, []string{"broker.id", "node.id"}); *rows[0].Value != "5" || *rows[1].Value != "5" {
		t.Error(rows)
	}
}

// A key that is not honoured says why, and a key that is honoured is read: by a handle, by this package, or as a topic's
// default.
func TestEveryKeyIsReadOrExplained(t *testing.T) {
	read := namesInSource(t)
	for i := range topicTable.keys {
		for _, k := range topicTable.keys[i].synonyms {
			read[k.Name] = true
		}
	}
	for _, table := range []*scopeKeys{brokerTable, topicTable, groupTable, clientMetricsTable} {
		for i := range table.keys {
			k := &table.keys[i]
			if (k.Standing == Honoured || k.Standing == Extended) != (k.Why == "") {
				t.Errorf("%s: standing %d, why %q", k.Name, k.Standing, k.Why)
			}
			if k.Why == whyAlone && k.Standing != Clustered {
				t.Errorf("%s has no effect in a cluster either, and says %q", k.Name, k.Why)
			}
			if (k.Standing == Refused) != (len(k.Allow) > 0) {
				t.Errorf("%s: standing %d, allows %q", k.Name, k.Standing, k.Allow)
			}
			if k.Standing == Honoured && !read[k.Name] {
				t.Errorf("nothing reads %s", k.Name)
			}
		}
	}
}

// namesInSource returns what looks like a key in the sources of this package, but for the table's.
func namesInSource(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasPrefix(file, "keys_") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, literal := range regexp.MustCompile(`"([a-z.]+)"`).FindAllStringSubmatch(string(source), -1) {
			names[literal[1]] = true
		}
	}
	return names
}
