// Package controller owns what the cluster knows about itself: topics, partitions, their leaders and in-sync replicas,
// configuration, and which brokers live. All of it lies in a store (package store) in the form of ZooKeeper-mode Kafka 3.9
// (package znode).
//
// The Machine decides and does no I/O. It takes events (answers of the store and of brokers, changes, requests, timers) and
// returns actions; whoever calls Step carries them out and brings back the results. In a broker that is the driver, in tests a
// script or a seeded simulation. Every broker runs one: it registers the broker, keeps its configuration up to date and stands
// for election. While it is elected it also holds a reign: brokers, topics, and the orders that go out to brokers.
//
// The invariants:
//
//   - While a reign lasts every write checks the version of /controller_epoch in the same commit, so a reign that has ended
//     without knowing it changes nothing. The first failed check ends it.
//   - A commit whose reply was lost is never guessed: the nodes are read back, and decide.
//   - At most one commit is under way for a partition's state, and none for a topic that is being removed.
//   - A reassignment's end is written into the topic's node when the replicas that go have been stopped, never before they have left
//     the in-sync ones: whoever takes over in between goes on from there.
//   - A leader that lives is told last that it leads no more, when its successor has answered.
//   - Slices of replicas and in-sync replicas are replaced, never changed, so that requests can share them.
//   - Orders go out at the end of a turn, batched: per broker LeaderAndIsr, UpdateMetadata, StopReplica, each answered
//     before the next is sent. So a broker takes records for a partition before it tells clients that it leads it.
package controller
