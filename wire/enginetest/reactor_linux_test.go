package enginetest

import (
	"testing"

	"github.com/gregor-broker/gregor/wire"
)

func TestReactor(t *testing.T) { (&Suite{Engine: wire.EngineReactor}).Run(t) }
