// Package fetcher is a follower's side of replication: it fetches from leaders what its replicas lack, and cuts off what
// they have and the leaders have not.
//
// For each broker that leads something there are a few Fetchers (num.replica.fetchers), each a goroutine with a
// connection and a fetch session of its own (KIP-227). What a Fetcher does next, and what it makes of an answer, is
// decided by a Machine, which knows neither clock nor network, and reaches the logs through the interface Replica. A
// simulation runs the same Machine.
//
//	Machine.Next ──▶ Fetch ──▶ Machine.Fetched ──▶ Replica.Append, or TruncateTo where histories part
//	            ──▶ ListOffsets ──▶ Machine.Listed ──▶ TruncateTo, RestartAt: our end is outside the leader's log
//	            ──▶ wait, for a partition that had an error or for a new one
//
// A partition's leader epoch goes with every request and every change of the log: the leader answers only in that
// epoch, and the replica takes only what was fetched in the epoch that it is in. So an answer that comes late changes
// nothing.
//
// After kafka.server.AbstractFetcherThread and ReplicaFetcherThread of Apache Kafka 3.9.
package fetcher
