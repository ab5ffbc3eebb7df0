package broker

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestProtocolAmongBrokers(t *testing.T) {
	for version, allowed := range map[string]bool{"3.9": true, "3.9-IV0": true, "3.8": false, "2.8-IV1": false} {
		snapshot, _, err := config.Load(config.Sources{Overrides: []string{
			"zookeeper.connect=in-memory:1", "inter.broker.protocol.version=" + version, "broker.id=1",
		}})
		if err != nil {
			t.Fatal(err)
		}
		tree := storetest.NewFake(clock.System)
		b := New(Options{Config: snapshot, Logger: zap.NewNop(), Store: tree.Client()})
		err = b.connectStore(t.Context())
		if allowed != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), "inter.broker.protocol.version: ") {
			t.Errorf("%s: %v", version, err)
		}
	}
}
