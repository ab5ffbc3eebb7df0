// Package zookeeper runs controller/store/zk against a real ZooKeeper: the conformance suite, and what only a real server and
// a real network show. A proxy between the two counts requests, loses replies and cuts connections.
package zookeeper
