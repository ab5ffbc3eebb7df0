package log

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Options configure a Manager. Zero values mean the defaults named here.
type Options struct {
	Dirs      []string
	FS        vfs.FS      // the operating system's
	Clock     clock.Clock // clock.System
	Logger    *zap.Logger // none
	BrokerID  int32
	ClusterID string // "": that of meta.properties, or a new one

	Defaults  *Config                    // DefaultConfig()
	ConfigFor func(topic string) *Config // of topics found on disk; Defaults

	RecoveryThreadsPerDir         int           // number of CPUs, at most 8
	RetentionCheckInterval        time.Duration // 5 min
	RetentionInitialDelay         time.Duration // 30 s
	FlushCheckpointInterval       time.Duration // 1 min: recovery points
	HWCheckpointInterval          time.Duration // 5 s
	StartOffsetCheckpointInterval time.Duration // 1 min
	ProducerIDExpiration          time.Duration // 24 h
	ProducerIDCheckInterval       time.Duration // 10 min
	MaxOpenFiles                  int           // descriptors for segments; a quarter of what the process may have
}

// Manager owns the log directories and every log in them. Safe for concurrent use.
type Manager struct{}

// New is a log to create.
type New struct {
	TopicPartition
	TopicID TopicID // zero: none is written
	Config  *Config // nil: Options.Defaults
}

// DirInfo describes a log directory.
type DirInfo struct {
	Path          string
	Total, Usable int64 // bytes of the file system, -1 when unknown
	Partitions    int
}

// OpenManager locks and loads the directories.
func OpenManager(ctx context.Context, o Options) (*Manager, error) { panic("skeleton") }

func (m *Manager) ClusterID() string               { panic("skeleton") }
func (m *Manager) BrokerID() int32                 { panic("skeleton") }
func (m *Manager) Get(tp TopicPartition) *Log      { panic("skeleton") }
func (m *Manager) All() []*Log                     { panic("skeleton") }
func (m *Manager) Dirs() []DirInfo                 { panic("skeleton") }
func (m *Manager) Create(news []New) []error       { panic("skeleton") }
func (m *Manager) Delete(tps []TopicPartition)     { panic("skeleton") }
func (m *Manager) CheckpointAll() error            { panic("skeleton") }
func (m *Manager) Close(ctx context.Context) error { panic("skeleton") }

// Inspection is what a log directory holds, as far as its names and small files tell.
type Inspection struct {
	ClusterID  string // "" if there is no meta.properties
	BrokerID   int32  // -1 likewise
	KRaft      bool   // the directory is one of a KRaft broker
	Partitions []InspectedPartition
}

// InspectedPartition is a partition directory. TopicID is zero without partition.metadata.
type InspectedPartition struct {
	TopicPartition
	TopicID TopicID
}

// Inspect lists a log directory without locking or changing anything.
func Inspect(dir string) (Inspection, error) { panic("skeleton") }
