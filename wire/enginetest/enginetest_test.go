package enginetest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gregor-broker/gregor/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNetloop(t *testing.T) { (&Suite{Engine: wire.EngineNetloop}).Run(t) }
