// Package cleaner owns log compaction: for the topics with cleanup.policy=compact it rewrites segments so that of every
// key the last value stays. One goroutine cleans one log after the other, the dirtiest first.
//
// # A round
//
//		clean section │ dirty section          │ not yet: after the last stable offset, younger than
//		0 … firstDirty│ firstDirty … end       │ min.compaction.lag.ms, or the segment that grows
//
//	 1. The dirty section is read into a map from key to its last offset. If the map is full, the round ends there.
//	 2. All segments up to the round's end are rewritten, in groups that fit one segment. A record stays if no later one in
//	    the map has its key; a tombstone stays until its delete horizon (KIP-534); records of aborted transactions go.
//	 3. The rewritten segment takes the place of its group, and the round's end becomes firstDirty, which is kept in
//	    cleaner-offset-checkpoint.
//
// # What holds
//
//   - Offsets, sequences, epochs and the ranges of batches never change, so that a reader who asks for any offset gets on.
//   - The last batch of each live producer stays, emptied if need be: recovery finds the sequence in it.
//   - A marker goes only when no record of its transaction is left and its horizon has passed.
//   - After a crash either the old or the new segments are there (log.Replace). A checkpoint that was lost makes the
//     next round do more than it need.
//   - A batch whose checksum is wrong is never rewritten: its log is left alone.
//
// After LogCleaner and LogCleanerManager of Kafka 3.9, and MemoryRecords.filterTo.
package cleaner
