// Package groupcoord coordinates consumer groups: who is a member, who gets which assignment, and how far each group has
// read. It owns what is stored in __consumer_offsets.
//
// A Coordinator holds one shard for each partition of __consumer_offsets that this broker leads (package runtime). A shard
// replays its partition, then answers requests, one goroutine for all its groups. Package group is the state machine of a
// classic group, package offset the committed offsets of one, package schema the records that both are stored as.
//
// It knows the log and the cluster's metadata only by the interfaces Log and Metadata, which the broker implements.
package groupcoord
