package config

// clientQuotaRows are the quotas of users and client ids, ipQuotaRows those of addresses. They stand in the metadata store
// only (AlterClientQuotas).
var (
	clientQuotaRows = []Key{
		{Name: "producer_byte_rate", Type: Long, Default: noLimit, Doc: "Bytes per second that a client may write to a broker."},
		{Name: "consumer_byte_rate", Type: Long, Default: noLimit, Doc: "Bytes per second that a client may read from a broker."},
		{Name: "request_percentage", Type: Double, Default: "9223372036854775807",
			Doc: "Per cent of a handler's time that a client's requests may take of a broker."},
		{Name: "controller_mutation_rate", Type: Double, Default: "9223372036854775807",
			Doc: "Partitions per second that a client may create and delete."},
	}
	ipQuotaRows = []Key{
		{Name: "connection_creation_rate", Type: Int, Default: "2147483647",
			Doc: "Connections per second that an address may make to a broker."},
	}
)
