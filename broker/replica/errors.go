package replica

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// The errors of this package. Those of log and record pass through it.
var (
	ErrUnknownPartition = errcode.New(kerr.UnknownTopicOrPartition, "the partition does not exist")
	ErrUnknownTopicID   = errcode.New(kerr.UnknownTopicID, "no topic has this id")
	ErrNotLeader        = errcode.New(kerr.NotLeaderForPartition, "this broker does not lead the partition")
	ErrFencedEpoch      = errcode.New(kerr.FencedLeaderEpoch, "the leader epoch is older than the partition's")
	ErrUnknownEpoch     = errcode.New(kerr.UnknownLeaderEpoch, "the leader epoch is newer than the partition's")
	ErrAcks             = errcode.New(kerr.InvalidRequiredAcks, "acks must be 0, 1 or -1")
	ErrInternalTopic    = errcode.New(kerr.InvalidTopicException, "the topic belongs to the brokers")

	ErrNotEnoughReplicas            = errcode.New(kerr.NotEnoughReplicas, "fewer replicas are in sync than min.insync.replicas")
	ErrNotEnoughReplicasAfterAppend = errcode.New(kerr.NotEnoughReplicasAfterAppend,
		"the records were written, but then fewer replicas were in sync than min.insync.replicas")
	ErrTimeout            = errcode.New(kerr.RequestTimedOut, "the records were not replicated in time")
	ErrOffsetNotAvailable = errcode.New(kerr.OffsetNotAvailable, "the new leader's high watermark has not caught up yet")
	ErrTimestamp          = errcode.New(kerr.UnsupportedVersion, "this kind of offset does not exist in this version of the request")
	ErrNegativeCount      = errcode.New(kerr.UnknownServerError, "a negative number of offsets cannot be told") // Kafka has no better code
	ErrEpochEndUnknown    = errcode.New(kerr.OffsetOutOfRange, "the end of the last fetched epoch is not known")
)
