package txn

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// TestLevelChangesUnderProducers: transaction.version goes down and up while a producer of the second protocol and one of the first are in
// the middle of transactions; both commit what they have begun, and what they begin then.
func TestLevelChangesUnderProducers(t *testing.T) {
	b := harness.Start(t, harness.Options{Props: few})
	if b.Kind == harness.Kafka39 {
		t.Skip("3.9 on ZooKeeper has no features")
	}
	second, first := newSession(t, b, "level-second", true), newSession(t, b, "level-first", false)
	sessions := []*session{second, first}
	for _, s := range sessions {
		s.init(60_000)
	}
	levels := []int16{1, 0, 2}
	if b.Kind != harness.Gregor {
		levels = []int16{1, 1, 2} // at level 0 Kafka 4.4.0 cannot write how such a transaction ends, and the producer waits for ever
	}
	for _, level := range levels {
		for _, s := range sessions {
			s.write()
		}
		setLevel(t, second.c, level)
		for _, s := range sessions {
			s.end(true)
			s.write()
			s.end(true)
		}
	}
	for _, s := range sessions {
		if got := len(readCommitted(t, b, s.topic)); got != 6 {
			t.Errorf("%s: %d records of 6 are committed\n%v", s.topic, got, s.lines)
		}
	}
}

// setLevel finalises a level of transaction.version.
func setLevel(t *testing.T, c *raw.Conn, level int16) {
	t.Helper()
	r := raw.With(kmsg.NewPtrUpdateFeaturesRequest(), 1)
	r.TimeoutMillis = 60_000
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	const upgrade, downgrade = 1, 2
	u.Feature, u.MaxVersionLevel, u.UpgradeType = "transaction.version", level, downgrade
	if level == 2 {
		u.UpgradeType = upgrade
	}
	r.FeatureUpdates = append(r.FeatureUpdates, u)
	a := raw.Do[*kmsg.UpdateFeaturesResponse](c, r)
	if a.ErrorCode != 0 {
		t.Fatalf("transaction.version %d: %s", level, code(a.ErrorCode))
	}
	for _, result := range a.Results {
		if result.ErrorCode != 0 {
			t.Fatalf("transaction.version %d: %s", level, code(result.ErrorCode))
		}
	}
}
