package controller

import (
	"testing"

	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestClusterIDIsGivenOnce(t *testing.T) {
	tree := storetest.NewFake(clock.System)
	first, second := tree.Client(), tree.Client()
	defer first.Close()
	defer second.Close()
	if id, err := ClusterID(t.Context(), first, "one"); err != nil || id != "one" {
		t.Errorf("a new cluster is %q (%v)", id, err)
	}
	if id, err := ClusterID(t.Context(), second, "two"); err != nil || id != "one" {
		t.Errorf("the cluster that exists is %q (%v)", id, err)
	}
}

func TestGeneratedBrokerIDsDiffer(t *testing.T) {
	tree := storetest.NewFake(clock.System)
	s := tree.Client()
	defer s.Close()
	for want := int32(1001); want <= 1003; want++ {
		if id, err := GenerateBrokerID(t.Context(), s, 1000); err != nil || id != want {
			t.Errorf("id %d (%v), want %d", id, err, want)
		}
	}
}
