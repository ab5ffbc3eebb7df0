// Package controller owns what the cluster knows about itself: topics, partitions, their leaders and in-sync replicas,
// configuration, and which brokers live.
package controller
