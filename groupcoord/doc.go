// Package groupcoord coordinates consumer groups: who is a member, who gets which assignment, and how far each group has
// read. It owns what is stored in __consumer_offsets.
//
// A Coordinator holds one shard for each partition of __consumer_offsets that this broker leads (package runtime). A shard
// replays its partition, then answers requests, one goroutine for all its groups. Package group is the state machine of a
// classic group, package offset the committed offsets of one, package schema the records that both are stored as.
//
// The answers are those of Apache Kafka 4.4.0 (testdata: answers, states, walks), or of 3.9 where Settings.Kafka4 is off and the two
// differ. Known differences:
//
//   - OffsetCommit and OffsetFetch v0 are served like the later versions where there is no ZooKeeper; Kafka 3.9 and 4.4 refuse
//     them there. On ZooKeeper they are not the coordinator's affair (broker/oldoffsets).
//   - A group that only consists of a JoinGroup without result is not stored; Kafka 4.4 writes an empty generation 0 for it.
//   - A JoinGroup or SyncGroup that its client sends again while the first one waits gets REBALANCE_IN_PROGRESS for the first
//     one, and a SyncGroup of a member that is removed UNKNOWN_MEMBER_ID; Kafka leaves both unanswered.
//   - LeaveGroup is answered at once, as in 3.9; 4.4 waits until the emptied group is stored.
//   - Of equally many votes for a protocol, the one that the first member prefers wins; in Kafka chance decides.
//   - A TxnOffsetCommit that is refused leaves no group behind; 3.9 makes an empty one first, and keeps it for a while.
//   - DeleteGroups v3 says in words why a group was not deleted.
//
// It knows the log and the cluster's metadata only by the interfaces Log and Metadata, which the broker implements.
package groupcoord
