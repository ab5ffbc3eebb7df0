//go:build !race && !invariants

package wire_test

import (
	"io"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gregor-broker/gregor/wire"
)

// TestPanicCostsOneConnection: in production a handler's panic ends the connection that caused it.
func TestPanicCostsOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.ErrorLevel)
		s, dial := pipes(t, wire.Config{Logger: zap.New(core)})
		defer s.Close()
		bad, good := dial(), dial()
		send(t, bad, 1) // no body: the handler panics
		if _, err := bad.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection ends with %v", err)
		}
		send(t, good, 2, 0)
		receive(t, good)
		if logs.Len() != 1 {
			t.Errorf("logged %v", logs.All())
		}
	})
}
