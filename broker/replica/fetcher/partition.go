package fetcher

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// phase is what is to be done with a partition.
type phase int8

const (
	fetching  phase = iota
	waiting         // until retryAt, after an error
	lost            // its end is outside the leader's log: ask for the leader's end
	lostStart       // then for its start
	failed          // nothing until the next assignment
	removed
)

// wanted is what a Fetch says of a partition; the leader's session keeps it.
type wanted struct {
	offset      int64
	lastEpoch   int32
	logStart    int64
	leaderEpoch int32
}

// partition is a partition in a Machine.
type partition struct {
	Assignment
	number   int64 // of its arrival, for an order that does not depend on a map's
	phase    phase
	want     wanted
	sent     wanted // as the session has it, if inSession
	retryAt  time.Duration
	failures int
	troubled bool // in phase failed, because of an error

	inSession bool
	byName    bool  // in the session by name
	dirty     bool  // in Machine.dirty
	inSync    bool  // it had all that was committed when it was fetched last
	leaderEnd int64 // learned in phase lost
}

// refresh takes over how far the log goes.
func (p *partition) refresh() {
	at := p.Replica.Position()
	p.want = wanted{offset: at.End, lastEpoch: at.LastEpoch, logStart: at.Start, leaderEpoch: p.LeaderEpoch}
}

// begin makes the log fit to fetch at its end. One without epochs has records of the old formats only, or none: its end
// says nothing, so it goes back to what is committed.
func (p *partition) begin() error {
	at := p.Replica.Position()
	if hw := p.Replica.HighWatermark(); at.LastEpoch < 0 && hw < at.End {
		if err := p.Replica.TruncateTo(p.LeaderEpoch, hw); err != nil {
			return err
		}
	}
	p.refresh()
	return nil
}

// part truncates after the leader has said where the histories part. If that is where its log starts, it has deleted all by
// which they could be compared: nothing is kept then, since what lies below that start would show again if this broker led
// after a crash that the new start did not outlive.
func (p *partition) part(q *kmsg.FetchResponseTopicPartition) error {
	if start := q.LogStartOffset; q.DivergingEpoch.EndOffset <= start && p.Replica.Position().Start < start {
		return p.Replica.RestartAt(p.LeaderEpoch, start)
	}
	return p.truncate(q.DivergingEpoch.Epoch, q.DivergingEpoch.EndOffset)
}

// truncate brings the log to where it agrees with a leader whose records of epoch end at end.
func (p *partition) truncate(epoch int32, end int64) error {
	ownEpoch, ownEnd := p.Replica.EndOffsetForEpoch(epoch)
	to := TruncationPoint(epoch, end, ownEpoch, ownEnd, p.Replica.Position().End, p.Replica.HighWatermark())
	return p.Replica.TruncateTo(p.LeaderEpoch, to)
}

// wholeEntries returns the entries of a fetched range that are there to their end and belong to no later epoch than
// maxEpoch: what a leader of a later one has written is for those who follow that one. What is no entry at all stays in,
// for Append to say so.
func wholeEntries(buf []byte, maxEpoch int32) []byte {
	for rest := buf; len(rest) > 0; {
		e, tail, err := record.NextEntry(rest)
		switch {
		case errors.Is(err, record.ErrTruncated), err == nil && e.LeaderEpoch() > maxEpoch:
			return buf[:len(buf)-len(rest)]
		case err != nil:
			return buf
		}
		rest = tail
	}
	return buf
}

// idKey is a partition where topics have ids.
type idKey struct {
	id        log.TopicID
	partition int32
}
