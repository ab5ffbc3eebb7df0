package log

import (
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Options configure a Manager. Zero values mean the defaults named here; a negative interval switches its work off.
type Options struct {
	Dirs      []string
	FS        vfs.FS      // the operating system's
	Clock     clock.Clock // clock.System
	Logger    *zap.Logger // none
	BrokerID  int32
	ClusterID string // "": that of meta.properties, or a new one

	// LeaveOut has directories that cannot be read or written left out (Manager.Dirs says which), as long as one is left. Else they
	// are an error. What lies in them must be led by others then.
	LeaveOut bool

	Defaults  *Config                    // DefaultConfig()
	ConfigFor func(topic string) *Config // of topics found on disk; Defaults

	// VerifyTransactions says whether the first batch of a transaction needs a guard (transaction.partition.verification.enable).
	VerifyTransactions func() bool // never

	// Flushed is told how long it took to make a segment durable. It must be quick; nil: nobody wants to know.
	Flushed func(took time.Duration)

	RecoveryThreadsPerDir         int           // number of CPUs
	RetentionCheckInterval        time.Duration // 5 min
	InitialTaskDelay              time.Duration // 30 s: before the first retention, and before recovery points and log starts are first written
	FlushCheckpointInterval       time.Duration // 1 min: recovery points
	HWCheckpointInterval          time.Duration // 5 s
	StartOffsetCheckpointInterval time.Duration // 1 min
	ProducerIDExpiration          time.Duration // 24 h
	ProducerIDCheckInterval       time.Duration // 10 min
	MaxOpenFiles                  int           // descriptors for segments beside those in use; half of what the process may have, at most 65536
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Defaults == nil {
		o.Defaults = DefaultConfig()
	}
	if o.ConfigFor == nil {
		defaults := o.Defaults
		o.ConfigFor = func(string) *Config { return defaults }
	}
	if o.Flushed == nil {
		o.Flushed = func(time.Duration) {}
	}
	if o.VerifyTransactions == nil {
		o.VerifyTransactions = func() bool { return false }
	}
	if o.RecoveryThreadsPerDir <= 0 {
		o.RecoveryThreadsPerDir = runtime.NumCPU()
	}
	if o.MaxOpenFiles <= 0 {
		o.MaxOpenFiles = min(max(vfs.MaxFiles()/2, 64), 1<<16)
	}
	for _, d := range [...]struct {
		value   *time.Duration
		instead time.Duration
	}{
		{&o.RetentionCheckInterval, 5 * time.Minute},
		{&o.InitialTaskDelay, 30 * time.Second},
		{&o.FlushCheckpointInterval, time.Minute},
		{&o.HWCheckpointInterval, 5 * time.Second},
		{&o.StartOffsetCheckpointInterval, time.Minute},
		{&o.ProducerIDExpiration, 24 * time.Hour},
		{&o.ProducerIDCheckInterval, 10 * time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.instead
		}
	}
	return o
}
