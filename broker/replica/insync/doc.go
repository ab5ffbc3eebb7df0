// Package insync decides what the leader of a partition makes of its followers' progress: how far the high watermark
// goes, who joins and who leaves the in-sync replicas. It does no I/O, takes no lock and knows no clock: what it is to
// know of the outside comes with an Env. A simulation runs the same code as the broker.
//
// # Why the high watermark is safe
//
// A change of the in-sync replicas is proposed to the controller and counts when that has answered. In between nobody
// here knows which of the two sets is written down, so the high watermark waits for the replicas of both (the maximal
// ISR, KIP-497): whichever set the next leader is taken from, its member has every record below the high watermark.
//
// After kafka.cluster.Partition and Replica of Apache Kafka 3.9.
package insync
