package log

import (
	"context"
	"errors"
	"fmt"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/epoch"
	"github.com/gregor-broker/gregor/log/vfs"
)

// fewTouched is up to how many logs are synced one by one when a directory is closed.
const fewTouched = 16

// close ends the use of the directory; see Manager.Close.
func (d *dir) close(ctx context.Context) error {
	d.sched.close()
	d.syncer.close()
	logs := d.all()
	err := d.closeLogs(ctx, logs)
	if err == nil && d.failed.Load() {
		err = errors.New("an earlier write failed")
	}
	if err == nil {
		err = d.checkpointAll()
	}
	if err == nil {
		err = checkpoint.WriteCleanShutdown(d.fs, d.path)
	}
	for _, l := range logs {
		l.closeFiles()
	}
	if cerr := d.lock.Close(); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("log directory %s: %w", d.path, err)
	}
	return nil
}

// closeLogs stops appends and makes durable what changed.
func (d *dir) closeLogs(ctx context.Context, logs []*Log) error {
	var touched []*Log
	var errs []error
	for _, l := range logs {
		changed, err := l.finish()
		if err != nil {
			errs = append(errs, err)
		} else if changed {
			touched = append(touched, l)
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	if len(touched) > fewTouched {
		err := d.syncTogether(touched)
		if !errors.Is(err, vfs.ErrUnsupported) {
			return errors.Join(append(errs, err)...)
		}
	}
	for _, l := range touched {
		errs = append(errs, l.flushNow())
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// finish refuses further appends and writes the log's indexes and producer state as a closed log has them, not synced.
// changed says whether there is something to sync.
func (l *Log) finish() (changed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.state.CompareAndSwap(int32(live), int32(closed)) {
		return false, l.usable()
	}
	if !l.mu.touched {
		return false, nil
	}
	if err := l.active().Finish(); err != nil {
		return false, l.storage("close", err)
	}
	if err := l.writeSnapshot(l.pub.end.Load()); err != nil {
		return false, l.storage("producer snapshot", err)
	}
	l.mu.touched = false
	return true, nil
}

// syncTogether syncs the file system instead of each log: first what was written, with the leader epochs beside their
// old files, then the renames that put those in place.
func (d *dir) syncTogether(logs []*Log) error {
	// A log start that rose has cut the epochs: it must not be forgotten when they are.
	if err := d.checkpoint(startCheckpoint, false); err != nil {
		return err
	}
	plans := make([]flushPlan, len(logs))
	for i, l := range logs {
		l.mu.Lock()
		plans[i] = l.planFlush()
		l.mu.Unlock()
		if plans[i].writeEpochs {
			if err := checkpoint.Stage(d.fs, l.path+"/"+epoch.FileName, plans[i].epochs.Format(), false); err != nil {
				return l.storage("leader epochs", err)
			}
		}
	}
	if err := d.fs.SyncAll(d.path); err != nil {
		if errors.Is(err, vfs.ErrUnsupported) {
			d.unplan(logs, plans)
		}
		return err
	}
	renamed := false
	for i, l := range logs {
		if plans[i].writeEpochs {
			renamed = true
			if err := checkpoint.Publish(d.fs, l.path+"/"+epoch.FileName); err != nil {
				return l.storage("leader epochs", err)
			}
		}
		for _, s := range plans[i].segs {
			s.MarkSynced()
		}
		l.flushed(plans[i])
	}
	if !renamed {
		return nil
	}
	return d.fs.SyncAll(d.path)
}

// unplan gives back what plans took, for another way.
func (d *dir) unplan(logs []*Log, plans []flushPlan) {
	for i, l := range logs {
		l.mu.Lock()
		l.mu.unsynced = append(l.mu.unsynced, plans[i].snapshots...)
		l.mu.epochsDirty = l.mu.epochsDirty || plans[i].writeEpochs
		l.mu.namesDirty = l.mu.namesDirty || plans[i].syncNames
		l.mu.Unlock()
	}
}
