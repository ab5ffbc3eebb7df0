package kgosuite

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestKgoCluster is TestKgo on three brokers, every topic with three replicas.
func TestKgoCluster(t *testing.T) {
	harness.NeedCluster(t)
	c := harness.StartCluster(t, harness.ClusterOptions{Props: map[string]string{"auto.create.topics.enable": "true"}})
	excluded := exclusions(t)
	if harness.Peer() == harness.Kafka39 {
		// To see what fails on Kafka itself, where share groups do not exist.
		maps.DeleteFunc(excluded, func(name, _ string) bool { return !strings.Contains(name, "Share") })
	}
	names := slices.Sorted(maps.Keys(excluded))
	out := harness.Command(t, 8*time.Minute, "", []string{
		"KGO_SEEDS=" + c.Seeds(), "KGO_TEST_RF=3", "KGO_TEST_RECORDS=20000", "KGO_TEST_STABLE_FETCH=true", "KGO_LOG_LEVEL=none",
	}, "go", "test", "-json", "-count=1", "-timeout=7m", "-skip", "^("+strings.Join(names, "|")+")$", suite)
	report(t, out)
}
