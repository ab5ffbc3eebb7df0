package tools

import (
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestFeatures: features are described and finalised at other levels, and what is not there is refused in words.
func TestFeatures(t *testing.T) {
	harness.Need(t, "java")
	p := started(t, harness.Options{})
	if p.Kind == harness.Kafka39 {
		t.Skip("3.9 on ZooKeeper has none")
	}
	both(t, func(t *testing.T, tools *harness.Tools) {
		features := featuresTool(p, tools)
		describe := func() harness.Output { return features(t, "describe") }
		level := func(n string) string {
			return `Feature: transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: ` + n + `\s`
		}
		wantMatch(t, describe(), level("2"))
		wantMatch(t, features(t, "downgrade", "--feature", "transaction.version=1", "--dry-run"), `transaction.version can be downgraded to 1\.`)
		wantMatch(t, describe(), level("2"))
		wantMatch(t, features(t, "downgrade", "--feature", "transaction.version=1"), `transaction.version was downgraded to 1\.`)
		awaitMatch(t, describe, level("1"))
		wantMatch(t, features(t, "disable", "--unsafe", "--feature", "transaction.version"), `transaction.version was disabled\.`)
		awaitMatch(t, describe, level("0"))
		wantMatch(t, features(t, "upgrade", "--feature", "transaction.version=2"), `transaction.version was upgraded to 2\.`)
		awaitMatch(t, describe, level("2"))
		wantRefused(t, features(t, "upgrade", "--feature", "transaction.version=9"), `only supports versions 0-2`)
		if tools.Version == harness.V44 {
			wantMatch(t, features(t, "describe", "--node-id", brokerID(t, p, tools)), level("2"))
			// These need no broker.
			wantMatch(t, features(t, "version-mapping"), `transaction\.version=2`)
			wantMatch(t, features(t, "version-mapping", "--release-version", "3.9-IV0"), `metadata\.version=21 \(3\.9-IV0\)`)
			wantMatch(t, features(t, "feature-dependencies", "--feature", "transaction.version=2"), `transaction\.version=2`)
		}
	})
}

// featuresTool runs kafka-features, which may fail.
func featuresTool(p *place, tools *harness.Tools) func(t testing.TB, args ...string) harness.Output {
	return func(t testing.TB, args ...string) harness.Output {
		t.Helper()
		return tools.Try(t, "kafka-features", "", append([]string{"--bootstrap-server", p.Addr}, args...)...)
	}
}

// TestExtensions: a cluster of this broker has one feature, with which it has clients' metrics, groups of the consumer protocol and
// configurations of groups.
func TestExtensions(t *testing.T) {
	harness.NeedCluster(t)
	if harness.Peer() != harness.Gregor {
		return // which has no such thing
	}
	c := harness.StartCluster(t, harness.ClusterOptions{})
	p := &place{Addr: c.Seeds(), Kind: harness.Gregor, brokers: c.Brokers, cluster: c}
	both(t, func(t *testing.T, tools *harness.Tools) {
		features := featuresTool(p, tools)
		describe := func() harness.Output { return features(t, "describe") }
		wantLines(t, describe())
		wantMatch(t, features(t, "upgrade", "--feature", "gregor.extensions=1", "--dry-run"), `gregor.extensions can be upgraded to 1\.`)
		wantMatch(t, features(t, "upgrade", "--feature", "gregor.extensions=1"), `gregor.extensions was upgraded to 1\.`)
		awaitMatch(t, describe, `Feature: gregor.extensions\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1\s`)
		p.awaitExtended(t)
		clientMetrics(t, p, tools)
		if tools.Version == harness.V44 {
			wantMatch(t, features(t, "describe", "--node-id", "2"), `Feature: gregor.extensions\s`)
			wantMatch(t, features(t, "version-mapping"), `transaction\.version=2`)
			wantMatch(t, features(t, "feature-dependencies", "--feature", "transaction.version=2"), `transaction\.version=2`)
			protocolGroups(t, p, tools)
			verifiable(t, p, tools, verifiableTopic(t, p, tools), "--group-protocol", "consumer", "--group-remote-assignor", "range")
			// A member of a group that never went away.
			wantRefused(t, features(t, "disable", "--feature", "gregor.extensions"), `groups of the consumer protocol have members: nextgen-group`)
			wantMatch(t, features(t, "disable", "--unsafe", "--feature", "gregor.extensions"), `gregor.extensions was disabled\.`)
		} else {
			earlyGroups(t, p, tools)
			wantMatch(t, features(t, "downgrade", "--unsafe", "--feature", "gregor.extensions=0"), `gregor.extensions was (downgraded to 0|disabled)\.`)
			wantMatch(t, features(t, "upgrade", "--feature", "gregor.extensions=1"), `gregor.extensions was upgraded to 1\.`)
			wantMatch(t, features(t, "disable", "--feature", "gregor.extensions"), `gregor.extensions was disabled\.`)
		}
		awaitNoMatch(t, describe, `gregor.extensions`)
	})
}
