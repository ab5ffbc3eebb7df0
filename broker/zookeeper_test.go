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
	for version, allowed := range map[string]bool{"3.9": true, "3.9-IV0": true, "3.8": true, "2.8": true, "2.7": false, "4.0": false, "0.10.2": false} {
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

// Below 3.0 the format of records is a setting that 3.9 honours; this broker writes one only.
func TestFormatOfRecords(t *testing.T) {
	for _, c := range []struct{ protocol, format, want string }{
		{"2.8", "0.10.2", "log.message.format.version: "}, {"2.8", "0.11.0", ""}, {"2.8", "2.8", ""}, {"3.0", "0.10.2", ""},
	} {
		snapshot, _, err := config.Load(config.Sources{Overrides: []string{
			"zookeeper.connect=in-memory:1", "inter.broker.protocol.version=" + c.protocol, "log.message.format.version=" + c.format, "broker.id=1",
		}})
		if err != nil {
			t.Fatal(err)
		}
		err = New(Options{Config: snapshot, Logger: zap.NewNop()}).checkProtocol()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
