// Package loglevel lets the levels of loggers change while the process runs, by their names, which are Kafka's.
package loglevel

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Root is the name of the logger that all others inherit their level from.
const Root = "root"

// The loggers, by the part of the broker that writes to them.
const (
	Server       = "kafka.server.KafkaServer" // start, stop, configuration
	APIs         = "kafka.server.KafkaApis"
	Replicas     = "kafka.server.ReplicaManager"
	Network      = "kafka.network.SocketServer"
	Logs         = "kafka.log.LogManager"
	Cleaner      = "kafka.log.LogCleaner"
	Controller   = "kafka.controller.KafkaController"
	Groups       = "kafka.coordinator.group.GroupCoordinator"
	Transactions = "kafka.coordinator.transaction.TransactionCoordinator"
	ZooKeeper    = "kafka.zookeeper.ZooKeeperClient"
)

// names are the loggers whose level can be set: those that are written to, and the one that is above all of them.
var names = []string{Root, "kafka", Server, APIs, Replicas, Network, Logs, Cleaner, Controller, Groups, Transactions, ZooKeeper}

// levels are Kafka's, least important first. Nothing here is written at TRACE, so that it is as DEBUG.
var levels = []struct {
	word string
	at   zapcore.Level
}{
	{"TRACE", zapcore.DebugLevel - 1}, {"DEBUG", zapcore.DebugLevel}, {"INFO", zapcore.InfoLevel}, {"WARN", zapcore.WarnLevel},
	{"ERROR", zapcore.ErrorLevel}, {"FATAL", zapcore.FatalLevel},
}

// Words are the levels that there are, in the order in which Kafka lists them.
var Words = func() (words []string) {
	for _, l := range levels {
		words = append(words, l.word)
	}
	return words
}()

// Levels holds the level of every logger. Safe for concurrent use.
type Levels struct {
	mu  sync.Mutex
	own map[string]string // those that were set, by name; Root always is
	now atomic.Pointer[effective]
}

// effective is what follows from own. Immutable.
type effective struct {
	words  map[string]string
	at     map[string]zapcore.Level
	lowest zapcore.Level
}

// New returns Levels where every logger has this one.
func New(root zapcore.Level) *Levels {
	word := "FATAL"
	for _, l := range slices.Backward(levels) {
		if l.at >= root {
			word = l.word
		}
	}
	l := &Levels{own: map[string]string{Root: word}}
	l.settle()
	return l
}

// settle computes what every logger has. The caller holds mu, or is New.
func (l *Levels) settle() {
	e := &effective{words: map[string]string{}, at: map[string]zapcore.Level{}, lowest: zapcore.FatalLevel}
	for _, name := range names {
		word := l.inherited(name)
		at := levels[slices.Index(Words, word)].at
		e.words[name], e.at[name], e.lowest = word, at, min(e.lowest, at)
	}
	l.now.Store(e)
}

// inherited is a logger's own level, or that of the nearest logger above it.
func (l *Levels) inherited(name string) string {
	for name != "" {
		if word, ok := l.own[name]; ok {
			return word
		}
		name = name[:max(0, strings.LastIndexByte(name, '.'))]
	}
	return l.own[Root]
}

// All returns the level of every logger.
func (l *Levels) All() map[string]string { return maps.Clone(l.now.Load().words) }

// Known says whether there is a logger of this name.
func (l *Levels) Known(name string) bool { return slices.Contains(names, name) }

// Set gives loggers these levels; "" takes a logger's own back, so that it has that of the one above. Names and levels must
// be known, and Root must keep one.
func (l *Levels) Set(changes map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, word := range changes {
		if word == "" {
			delete(l.own, name)
		} else {
			l.own[name] = word
		}
	}
	l.settle()
}

// Logger returns base with these levels; what it writes is named by Named.
func (l *Levels) Logger(base *zap.Logger) *zap.Logger {
	return base.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return &core{c, l} }))
}

// core lets pass what its logger's level allows.
type core struct {
	zapcore.Core
	levels *Levels
}

// Enabled is asked without a name: something may pass.
func (c *core) Enabled(at zapcore.Level) bool {
	return at >= c.levels.now.Load().lowest && c.Core.Enabled(at)
}

// With keeps the levels.
func (c *core) With(fields []zapcore.Field) zapcore.Core { return &core{c.Core.With(fields), c.levels} }

// Check decides by the logger's name.
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	now := c.levels.now.Load()
	least, known := now.at[e.LoggerName]
	if !known {
		least = now.at[Root]
	}
	if e.Level < least {
		return checked
	}
	return c.Core.Check(e, checked)
}
