//go:build !linux

package wire

import (
	"github.com/gregor-broker/gregor/wire/netloop"
	"github.com/gregor-broker/gregor/wire/session"
)

const bestEngine = EngineNetloop

func newEngine(_ string, o session.Options) (engine, error) { return netloop.New(o), nil }
