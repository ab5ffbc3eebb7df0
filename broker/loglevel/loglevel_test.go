package loglevel

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestLevels(t *testing.T) {
	inner, lines := observer.New(zapcore.DebugLevel - 1)
	l := New(zapcore.InfoLevel)
	base := l.Logger(zap.New(inner))
	loggers := map[string]*zap.Logger{
		"": base, Controller: base.Named(Controller).With(zap.Int("broker", 1)), Logs: base.Named(Logs), "other": base.Named("other"),
	}
	passes := func(name string, at zapcore.Level) bool {
		before := lines.Len()
		loggers[name].Log(at, "line")
		return lines.Len() > before
	}
	for _, step := range []struct {
		set    map[string]string
		levels map[string]string
		debug  map[string]bool
		info   map[string]bool
	}{
		{nil, map[string]string{Root: "INFO", Controller: "INFO"}, nil, map[string]bool{"": true, Controller: true, Logs: true, "other": true}},
		{map[string]string{Controller: "DEBUG"}, map[string]string{Root: "INFO", Controller: "DEBUG", Logs: "INFO"},
			map[string]bool{Controller: true}, map[string]bool{"": true, Controller: true, Logs: true, "other": true}},
		{map[string]string{"kafka": "ERROR"}, map[string]string{Root: "INFO", "kafka": "ERROR", Controller: "DEBUG", Logs: "ERROR"},
			map[string]bool{Controller: true}, map[string]bool{"": true, Controller: true, "other": true}},
		{map[string]string{Controller: "", "kafka": "", Root: "TRACE"}, map[string]string{Root: "TRACE", Controller: "TRACE", Logs: "TRACE"},
			map[string]bool{"": true, Controller: true, Logs: true, "other": true}, map[string]bool{"": true, Controller: true, Logs: true, "other": true}},
		{map[string]string{Root: "FATAL"}, map[string]string{Root: "FATAL", Logs: "FATAL"}, nil, nil},
	} {
		l.Set(step.set)
		all := l.All()
		for name, want := range step.levels {
			if all[name] != want {
				t.Errorf("after %v: %s has %s, want %s", step.set, name, all[name], want)
			}
		}
		for name := range loggers {
			if got := passes(name, zapcore.DebugLevel); got != step.debug[name] {
				t.Errorf("after %v: a debug line of %q: %v", step.set, name, got)
			}
			if got := passes(name, zapcore.InfoLevel); got != step.info[name] {
				t.Errorf("after %v: an info line of %q: %v", step.set, name, got)
			}
		}
	}
}

func TestNewRoundsUp(t *testing.T) {
	for at, want := range map[zapcore.Level]string{
		zapcore.DebugLevel: "DEBUG", zapcore.InfoLevel: "INFO", zapcore.WarnLevel: "WARN", zapcore.ErrorLevel: "ERROR",
		zapcore.DPanicLevel: "FATAL", zapcore.DebugLevel - 1: "TRACE", zapcore.InvalidLevel: "FATAL",
	} {
		if got := New(at).All()[Root]; got != want {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
}

// What the logger below does not write stays unwritten.
func TestBaseLevel(t *testing.T) {
	inner, lines := observer.New(zapcore.WarnLevel)
	l := New(zapcore.DebugLevel)
	l.Logger(zap.New(inner)).Info("line")
	if lines.Len() != 0 {
		t.Error("it is written")
	}
}
