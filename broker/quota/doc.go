// Package quota limits what clients and replication may take of a broker: rates that are measured over sliding windows,
// and what follows when one is exceeded. It does no I/O and starts nothing; time comes from a clock.Clock.
package quota
