package log

import (
	"github.com/gregor-broker/gregor/log/record"
)

// Log is one replica's log. Safe for concurrent use.
type Log struct{}

func (l *Log) TopicPartition() TopicPartition { panic("skeleton") }
func (l *Log) TopicID() TopicID               { panic("skeleton") }
func (l *Log) Dir() string                    { panic("skeleton") }
func (l *Log) Config() *Config                { panic("skeleton") }
func (l *Log) SetConfig(c *Config)            { panic("skeleton") }
func (l *Log) CanAppendNow(bytes int) bool    { panic("skeleton") }
func (l *Log) Append(c *record.Checked, leaderEpoch int32) (Appended, error) {
	panic("skeleton")
}
func (l *Log) AppendAsFollower(raw []byte) (Appended, error) { panic("skeleton") }
func (l *Log) WriteMarker(m Marker) (Appended, error)        { panic("skeleton") }
func (l *Log) Read(offset int64, maxBytes int, iso Isolation, minOne bool) (Read, error) {
	panic("skeleton")
}
func (l *Log) Bounds() Bounds                              { panic("skeleton") }
func (l *Log) BytesFrom(offset int64, iso Isolation) int64 { panic("skeleton") }
func (l *Log) AdvanceHighWatermark(o int64) (moved bool)   { panic("skeleton") }
func (l *Log) AbortedTxns(from, to int64) []AbortedTxn     { panic("skeleton") }
func (l *Log) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, err error) {
	panic("skeleton")
}
func (l *Log) OffsetOfMaxTimestamp() (offset, timestamp int64, epoch int32, err error) {
	panic("skeleton")
}
func (l *Log) LegacyOffsets(ts int64, max int) []int64                { panic("skeleton") }
func (l *Log) LatestEpoch() (int32, bool)                             { panic("skeleton") }
func (l *Log) EpochForOffset(offset int64) (int32, bool)              { panic("skeleton") }
func (l *Log) EndOffsetForEpoch(epoch int32) (found int32, end int64) { panic("skeleton") }
func (l *Log) AssignEpoch(epoch int32) error                          { panic("skeleton") }
func (l *Log) DeleteRecords(to int64) (start int64, err error)        { panic("skeleton") }
func (l *Log) TruncateTo(o int64) error                               { panic("skeleton") }
func (l *Log) TruncateFullyTo(start int64) error                      { panic("skeleton") }
func (l *Log) Producers() []ProducerState                             { panic("skeleton") }
func (l *Log) Size() int64                                            { panic("skeleton") }
func (l *Log) Flush() error                                           { panic("skeleton") }

// Marker ends a transaction on a partition.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32
	LeaderEpoch      int32 // of the partition
}
