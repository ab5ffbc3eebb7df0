package serve

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestNewLogger(t *testing.T) {
	for _, c := range []struct {
		level, format string
		ok            bool
	}{{"info", "text", true}, {"debug", "json", true}, {"loud", "text", false}, {"info", "xml", false}} {
		logger, err := newLogger(c.level, c.format)
		if (err == nil) != c.ok {
			t.Errorf("%v: %v", c, err)
		}
		if err == nil && logger.Core().Enabled(zapcore.DebugLevel) != (c.level == "debug") {
			t.Errorf("%v: debug", c)
		}
	}
}

func TestServeProfiles(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	stop, err := serveProfiles("127.0.0.1:0", zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	url := strings.TrimPrefix(logs.All()[0].Message, "profiles at ")
	response, err := http.Get(url + "goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), "goroutine profile") {
		t.Errorf("%v %s", err, body)
	}
	if _, err := serveProfiles("256.0.0.1:0", zap.NewNop()); err == nil {
		t.Error("no such address")
	}
}
