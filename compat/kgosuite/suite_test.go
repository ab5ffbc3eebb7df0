// Package kgosuite runs franz-go's own tests of pkg/kgo and pkg/kadm against the broker.
package kgosuite

import (
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/suite"
)

func TestMain(m *testing.M) { harness.Main(m) }

// tests are the tests of a package of franz-go, in the version that our own go.mod names, on brokers with that many replicas.
func tests(name, seeds, replicas string) suite.GoTests {
	return suite.GoTests{
		Env: []string{
			"KGO_SEEDS=" + seeds, "KGO_TEST_RF=" + replicas, "KGO_TEST_RECORDS=20000", "KGO_TEST_STABLE_FETCH=true", "KGO_LOG_LEVEL=none",
		},
		Packages: []string{"github.com/twmb/franz-go/pkg/" + name},
	}
}

// TestKgo runs the tests of pkg/kgo, of which some need no broker.
func TestKgo(t *testing.T) {
	b := harness.Start(t, harness.Options{Props: map[string]string{
		"offsets.topic.num.partitions":                 "5",
		"group.initial.rebalance.delay.ms":             "0",
		"auto.create.topics.enable":                    "true",
		"share.coordinator.state.topic.num.partitions": "5",
	}})
	table := suite.Load(t, "franz-go kgo")
	kgo := tests("kgo", b.Addr, "1")
	kgo.Exist(t, table)
	suite.Run(t, table, nil, kgo.Run)
}

// TestKgoCluster is TestKgo on three brokers, every topic with three replicas.
func TestKgoCluster(t *testing.T) {
	harness.NeedCluster(t)
	c := harness.StartCluster(t, harness.ClusterOptions{Props: map[string]string{"auto.create.topics.enable": "true"}})
	suite.Run(t, suite.Load(t, "franz-go kgo (cluster)"), nil, tests("kgo", c.Seeds(), "3").Run)
}

// TestKadm runs the tests of pkg/kadm, none of which asks a broker.
func TestKadm(t *testing.T) {
	suite.Run(t, suite.Load(t, "franz-go kadm"), nil, tests("kadm", "", "1").Run)
}
