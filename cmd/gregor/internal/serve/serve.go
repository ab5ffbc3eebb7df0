// Package serve is the command that runs a broker.
package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/gregor-broker/gregor/broker"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type options struct {
	sources   config.Sources
	readyFile string
	pprof     string
	logLevel  string
	logFormat string
	engine    string
	requests  float64
}

// Command returns "gregor serve". version is told in the log.
func Command(version string) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve [--config FILE] [--override key=value ...]",
		Short: "Run a broker",
		Long: `Run a broker until it is told to stop (Ctrl-C or SIGTERM; a second time stops it without waiting for clients).

The configuration is Kafka's server.properties: same keys, defaults and units. Environment variables override the file
(KAFKA_LOG_RETENTION_MS or KAFKA_CFG_LOG_RETENTION_MS for log.retention.ms; "__" is an underscore, "___" a dash), and
--override overrides both. Without configuration the broker listens on port 9092 of every address and keeps its data in
/tmp/kafka-logs, as Kafka does.`,
		Example: `  gregor serve --override log.dirs=/var/lib/gregor
  gregor serve --config server.properties --override listeners=PLAINTEXT://127.0.0.1:0 --ready-file ready
  KAFKA_NUM_PARTITIONS=6 gregor serve`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.sources.Env = os.Environ()
			return run(cmd.Context(), o, version)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.sources.File, "config", "c", "", "a server.properties `FILE`")
	f.StringArrayVarP(&o.sources.Overrides, "override", "o", nil, "a setting, `key=value`, that counts before the file and the environment (repeatable)")
	f.StringVar(&o.readyFile, "ready-file", "", "`FILE` to write, once the broker serves, with a line \"LISTENER host:port\" for each listener")
	f.StringVar(&o.pprof, "pprof", "", "`ADDR` (host:port) to serve Go's profiles on")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.Float64Var(&o.requests, "log-requests", 0, "`SHARE` of the requests to write to the log: 1 all, 0.01 one in a hundred")
	f.StringVar(&o.engine, "engine", "", "network engine: reactor or netloop (default: the best for this system)")
	_ = f.MarkHidden("engine")
	_ = cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("override", completeKeys)
	return cmd
}

func completeKeys(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return config.BrokerKeys(typed, "="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func run(ctx context.Context, o options, version string) error {
	all, levels, err := newLogger(o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	logger := levels.Logger(all)
	defer func() { _ = logger.Sync() }()
	snapshot, notices, err := config.Load(o.sources)
	if err != nil {
		return err
	}
	logger.Info("gregor " + version)
	for _, n := range notices {
		if n.Warn {
			logger.Warn(n.Text)
		} else {
			logger.Info(n.Text)
		}
	}
	if o.pprof != "" {
		stop, err := serveProfiles(o.pprof, logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	every, err := oneIn(o.requests)
	if err != nil {
		return err
	}
	spareProcessors(config.NumNetworkThreads.Of(snapshot))
	defer runtime.KeepAlive(ballast())
	b := broker.New(broker.Options{Config: snapshot, Logger: all, Levels: levels, ReadyFile: o.readyFile, Engine: o.engine, LogRequests: every})
	hurry, stop := secondSignal()
	defer stop()
	return b.Run(ctx, hurry)
}

// oneIn says of a share which every so manieth it is, 0 for none.
func oneIn(share float64) (int64, error) {
	switch {
	case !(share >= 0 && share <= 1):
		return 0, fmt.Errorf("--log-requests is %v; allowed: from 0 to 1", share)
	case share == 0:
		return 0, nil
	}
	return int64(math.Round(min(1/share, 1e12))), nil
}

// spareProcessors gives the Go scheduler a processor more for each of the network's, which hold theirs while they wait
// in the kernel (docs/performance.md). Who sets GOMAXPROCS has decided.
func spareProcessors(network int) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + network)
	}
}

// ballastBytes is garbage that may lie about before it is collected, on top of as much again as is in use.
const ballastBytes = 8 << 20

// ballast is memory that is never touched, so that it costs none, and counts as in use: the live heap of a broker is a few
// MB, and to collect after as many more, several times a second under load, is what the slowest answers wait for. Who sets
// GOGC has decided.
func ballast() []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, ballastBytes)
}

// secondSignal returns a channel that is closed when the process is told to stop a second time.
func secondSignal() (hurry <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	second, done := make(chan struct{}), make(chan struct{})
	go func() {
		for range 2 {
			select {
			case <-signals:
			case <-done:
				return
			}
		}
		close(second)
	}()
	return second, func() {
		signal.Stop(signals)
		close(done)
	}
}

// newLogger returns what writes every line, and the levels that say which of them are wanted.
func newLogger(level, format string) (*zap.Logger, *loglevel.Levels, error) {
	var l zapcore.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, cli.Usagef("--log-level %s: want debug, info, warn or error", level)
	}
	encoding := zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", MessageKey: "msg", LineEnding: "\n",
		EncodeTime: zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00"), EncodeLevel: zapcore.CapitalLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder, ConsoleSeparator: " ",
	}
	var encoder zapcore.Encoder
	switch format {
	case "text":
		encoder = zapcore.NewConsoleEncoder(encoding)
	case "json":
		encoding.EncodeLevel = zapcore.LowercaseLevelEncoder
		encoder = zapcore.NewJSONEncoder(encoding)
	default:
		return nil, nil, cli.Usagef("--log-format %s: want text or json", format)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), zapcore.DebugLevel-1)), loglevel.New(l), nil
}

// serveProfiles serves net/http/pprof, on paths of its own server.
func serveProfiles(addr string, logger *zap.Logger) (stop func(), err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--pprof %s: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			logger.Warn("profiles are no longer served", zap.Error(err))
		}
	}()
	logger.Info("profiles at http://" + listener.Addr().String() + "/debug/pprof/")
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
