// Package znode holds every path and every data form of Apache Kafka 3.9 in ZooKeeper mode. Numbers that are strings, keys that
// are absent and orders of keys are Kafka's own (core/zk/ZkData.scala), so that a real 3.9 broker reads what we write and the
// other way round. Decoders take any key order and ignore keys that they do not know.
package znode

// Endpoint is an address that a broker advertises on one of its listeners.
type Endpoint struct {
	Listener string // name
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
	Host     string
	Port     int32
}

// Broker is a registration, version 5.
type Broker struct {
	ID          int32 // in the path
	Endpoints   []Endpoint
	Rack        string // empty: none
	JMXPort     int32  // -1: none
	TimestampMs int64
}
