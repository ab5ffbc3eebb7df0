package replica

import (
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/replica/fetcher"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// follower is a partition as its fetcher sees it. It implements fetcher.Replica.
type follower struct{ *Partition }

// Position is how far the log goes.
func (f *follower) Position() fetcher.Position {
	b := f.log.Bounds()
	at := fetcher.Position{End: b.End, LastEpoch: -1, Start: b.Start}
	if epoch, ok := f.log.LatestEpoch(); ok {
		at.LastEpoch = epoch
	}
	return at
}

// EndOffsetForEpoch is the log's.
func (f *follower) EndOffsetForEpoch(epoch int32) (int32, int64) {
	return f.log.EndOffsetForEpoch(epoch)
}

// HighWatermark is the follower's own.
func (f *follower) HighWatermark() int64 { return f.log.Bounds().HighWatermark }

// Append writes what was fetched and takes over what the leader says of its log.
func (f *follower) Append(leaderEpoch int32, records []byte, highWatermark, logStart int64) error {
	moved := false
	err := f.change(leaderEpoch, func() error {
		if len(records) > 0 {
			if err := f.appendFetched(records); err != nil {
				return err
			}
			f.manager.options.OnReplicated(len(records), slices.Contains(f.role.Load().adding, f.manager.options.BrokerID))
		}
		moved = f.log.AdvanceHighWatermark(highWatermark)
		f.lag.Store(max(0, highWatermark-f.log.Bounds().End))
		if b := f.log.Bounds(); logStart > b.Start && logStart <= b.HighWatermark {
			return f.log.RaiseStart(logStart)
		}
		return nil
	})
	if moved {
		f.fetches.Notify()
		f.watched.notify(f.Partition)
	}
	return err
}

// appendFetched appends as a follower. An empty log may begin in the middle of the leader's first batch, where records
// were deleted: then it begins anew with the whole batch (Partition.appendRecordsToFollowerOrFutureReplica).
func (f *follower) appendFetched(records []byte) error {
	_, err := f.log.AppendAsFollower(records)
	if !errors.Is(err, log.ErrUnexpectedOffset) {
		return err
	}
	b := f.log.Bounds()
	first, _, bad := record.NextEntry(records)
	if bad != nil || b.Start != b.End || first.BaseOffset() >= b.End || first.LastOffset() < b.End {
		return err
	}
	if err := f.log.TruncateFullyTo(first.BaseOffset()); err != nil {
		return err
	}
	_, err = f.log.AppendAsFollower(records)
	return err
}

// TruncateTo drops what the leader does not have. Nothing below the high watermark is lost unless an unclean leader was
// elected: then it is said how much.
func (f *follower) TruncateTo(leaderEpoch int32, offset int64) error {
	return f.cut(leaderEpoch, offset, func() error { return f.log.TruncateTo(offset) })
}

// RestartAt drops everything, since the leader has deleted what would follow it.
func (f *follower) RestartAt(leaderEpoch int32, start int64) error {
	return f.cut(leaderEpoch, start, func() error { return f.log.TruncateFullyTo(start) })
}

// cut changes the log's end backwards, or to somewhere else.
func (f *follower) cut(leaderEpoch int32, to int64, how func() error) error {
	before := f.log.Bounds()
	err := f.change(leaderEpoch, how)
	if err == nil && to != before.End {
		fields := []zap.Field{
			zap.String("topic", f.tp.Topic), zap.Int32("partition", f.tp.Partition), zap.Int32("leader_epoch", leaderEpoch),
			zap.Int64("offset", to), zap.Int64("end", before.End), zap.Int64("high_watermark", before.HighWatermark),
		}
		if to < before.HighWatermark {
			f.manager.logger.Warn("committed records are cut off: the leader does not have them", fields...)
		} else {
			f.manager.logger.Info("the log is cut to where it agrees with the leader's", fields...)
		}
	}
	f.fetches.Notify()
	return err
}

// change runs what changes the log, if the partition follows in this epoch.
func (f *follower) change(leaderEpoch int32, how func() error) error {
	f.writing.RLock()
	defer f.writing.RUnlock()
	if r := f.role.Load(); r.leads || r.deleted || r.failed || r.leaderEpoch != leaderEpoch {
		return fetcher.ErrSuperseded
	}
	return f.wrote(how())
}
