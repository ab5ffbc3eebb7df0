package wire

import (
	"github.com/gregor-broker/gregor/wire/netloop"
	"github.com/gregor-broker/gregor/wire/reactor"
	"github.com/gregor-broker/gregor/wire/session"
)

const bestEngine = EngineReactor

func newEngine(name string, o session.Options) (engine, error) {
	if name == EngineReactor {
		return reactor.New(o)
	}
	return netloop.New(o), nil
}
