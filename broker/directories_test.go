package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gregor-broker/gregor/broker/config"
)

// startLogged runs a broker on dir and stops it; it returns the cluster's id and the warnings.
func startLogged(t *testing.T, dir string, env ...string) (clusterID string, warnings []string) {
	t.Helper()
	return runLogged(t, config.Sources{Env: env, Overrides: []string{"log.dirs=" + dir}}, func(*Broker) {})
}

// runLogged runs a broker, does something with it and stops it.
func runLogged(t *testing.T, sources config.Sources, do func(*Broker)) (clusterID string, warnings []string) {
	t.Helper()
	sources.Overrides = append(sources.Overrides, "listeners=PLAINTEXT://127.0.0.1:0")
	snapshot, _, err := config.Load(sources)
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zapcore.WarnLevel)
	b := New(Options{Config: snapshot, Logger: zap.New(core), Pipes: true})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	clusterID = b.services.ClusterID
	do(b)
	if err := b.Stop(nil); err != nil {
		t.Error(err)
	}
	for _, entry := range logged.All() {
		warnings = append(warnings, entry.Message)
	}
	return clusterID, warnings
}

// The cluster id of the environment, which container images set at every start, is for data that is new.
func TestClusterIDOfTheEnvironment(t *testing.T) {
	const first, second = "MkU3OEVBNTcwNTJENDM2Qg", "5L6g3nShT-eMCtK--X86sw"
	dir := t.TempDir()
	for _, start := range []struct {
		env      string
		warnings int
	}{{first, 0}, {first, 0}, {second, 1}} {
		id, warnings := startLogged(t, dir, "CLUSTER_ID="+start.env)
		if id != first || len(warnings) != start.warnings {
			t.Errorf("CLUSTER_ID=%s: the cluster is %s, warnings %q", start.env, id, warnings)
		}
	}
}

// Partitions that Kafka wrote and nobody imported are told of.
func TestStraysAreToldOf(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "orders-0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, warnings := startLogged(t, dir); len(warnings) != 1 || !strings.Contains(warnings[0], "gregor import "+dir) {
		t.Errorf("warnings %q", warnings)
	}
}

// The metadata stays with the data when log.dirs names the directories in another order.
func TestOrderOfDirectories(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	startLogged(t, one+","+two)
	startLogged(t, two+","+one)
	if _, err := os.Stat(filepath.Join(two, StoreFile)); err == nil {
		t.Error("a second store was made")
	}
	if err := os.WriteFile(filepath.Join(two, StoreFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot, _, err := config.Load(config.Sources{Overrides: []string{"log.dirs=" + one + "," + two, "listeners=PLAINTEXT://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	err = New(Options{Config: snapshot, Logger: zap.NewNop(), Pipes: true}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), filepath.Join(one, StoreFile)) || !strings.Contains(err.Error(), filepath.Join(two, StoreFile)) {
		t.Errorf("two stores: %v", err)
	}
}

// Partitions whose directory was taken out of log.dirs are made anew, which is said loudly, once.
func TestLostDirectoryIsToldOf(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	runLogged(t, config.Sources{Overrides: []string{"log.dirs=" + one + "," + two}}, func(b *Broker) {
		cl := client(t, b)
		defer cl.Close()
		createTopic(t, cl, "t", 4, nil)
	})
	for start, want := range []int{1, 0} { // what was made anew is there at the next start
		_, warnings := runLogged(t, config.Sources{Overrides: []string{"log.dirs=" + one}}, func(*Broker) {})
		if len(warnings) != want || want > 0 && !strings.Contains(warnings[0], "were in none of its log directories") {
			t.Errorf("start %d: warnings %q", start, warnings)
		}
	}
}

// Groups that can only wait because their topic cannot be created: the log says why, once.
func TestUncreatedInternalTopicIsToldOf(t *testing.T) {
	_, warnings := runLogged(t, config.Sources{Overrides: []string{"log.dirs=" + t.TempDir(), "offsets.topic.replication.factor=3"}}, func(b *Broker) {
		cl := client(t, b)
		defer cl.Close()
		for range 3 {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.CoordinatorKeys = []string{"g"}
			answer, err := r.RequestWith(t.Context(), cl.SeedBrokers()[0])
			if err != nil {
				t.Fatal(err)
			}
			if code := answer.Coordinators[0].ErrorCode; code != kerr.CoordinatorNotAvailable.Code {
				t.Errorf("code %d", code)
			}
		}
	})
	if len(warnings) != 1 || !strings.Contains(warnings[0], "offsets.topic.replication.factor") {
		t.Errorf("warnings %q", warnings)
	}
}
