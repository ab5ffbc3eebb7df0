package serve

import (
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The second signal hurries; the first does not.
func TestSecondSignal(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM) // one that arrives after the end would end this process
	hurry, stop := secondSignal()
	defer stop()
	kill := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	select {
	case <-hurry:
		t.Fatal("hurried at the first signal")
	default:
	}
	for done := false; !done; { // signals that come close together may become one
		kill()
		select {
		case <-hurry:
			done = true
		default:
			runtime.Gosched()
		}
	}
	_, stopUnused := secondSignal()
	stopUnused()
}

func TestNewLogger(t *testing.T) {
	for _, c := range []struct {
		level, format string
		ok            bool
	}{{"info", "text", true}, {"debug", "json", true}, {"loud", "text", false}, {"info", "xml", false}} {
		all, levels, err := newLogger(c.level, c.format)
		if (err == nil) != c.ok {
			t.Errorf("%v: %v", c, err)
		}
		if err == nil && levels.Logger(all).Core().Enabled(zapcore.DebugLevel) != (c.level == "debug") {
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
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), "goroutine profile") {
		t.Errorf("%v %s", err, body)
	}
	if _, err := serveProfiles("256.0.0.1:0", zap.NewNop()); err == nil {
		t.Error("no such address")
	}
}

func TestOneIn(t *testing.T) {
	for share, want := range map[float64]int64{0: 0, 1: 1, 0.5: 2, 0.01: 100, 1e-300: 1_000_000_000_000} {
		if got, err := oneIn(share); got != want || err != nil {
			t.Errorf("%v: one in %d, %v", share, got, err)
		}
	}
	for _, share := range []float64{-0.1, 1.5, math.NaN()} {
		if _, err := oneIn(share); err == nil {
			t.Errorf("%v is accepted", share)
		}
	}
}
