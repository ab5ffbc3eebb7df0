package config

// Why a key has no effect.
const (
	whyAlone       = "a single broker has no followers or other brokers to deal with"
	whyOrders      = "the controller's orders use the listener that brokers use among themselves"
	whySystem      = "the system chooses the size of this buffer"
	whyConnect     = "connecting to another broker may take as long as a request to it"
	whyUnclean     = "an unclean election happens as soon as it is allowed and needed"
	whyKRaft       = "there is no KRaft quorum; the broker keeps its metadata itself"
	whyJava        = "there is no JVM"
	whyThreads     = "background work is not done by a fixed number of threads"
	whyCoordinator = "the coordinator works otherwise"
	whyInside      = "the broker decides this itself"
	whyInflate     = "records are opened as a stream within a fixed bound"
	whyPurge       = "finished requests are not kept"
	whyUnstable    = "only what works is offered"
	whySecurity    = "only TLS and SASL listeners use it, and they are refused until they exist"
	whyMetrics     = "metrics are counted from the start, without samples"
	whyShare       = "share groups are not served yet"
	whyStreams     = "streams groups are not served yet"
	whyTiered      = "there is no tiered storage"
	whyCordon      = "log directories cannot be closed to new partitions yet"
	whyMoves       = "replicas are not moved between log directories yet"
	whyCleaner     = "one cleaner thread compacts, with buffers as large as its batches"
	whyFormat      = "everything is stored in record format 2"
	whyPreallocate = "a segment's file grows with what is written to it"
)

// Why a key changes only at the start, although Kafka changes it while a broker runs.
const (
	startListeners  = "listeners are opened when the broker starts"
	startProcessors = "processors own their connections, and are made when the broker starts"
	startRecovery   = "logs are loaded when the broker starts"
)

// Why values of a key stop the start.
const (
	refuseJava          = "Java classes cannot be run, and without this one the broker would behave otherwise than asked"
	refuseAuthorizer    = "authorisation does not exist yet, and without it everyone may do everything"
	refusePlaintextOnly = "TLS and SASL do not exist yet"
	refuseRevocation    = "revocation of ZooKeeper's certificates is not checked"
	refuseStorePassword = "keys and certificates are read from PEM files without a password"
	refuseSecurity      = "this protection does not exist yet"
	refuseTiered        = "there is no tiered storage"
	refuseMigration     = "a cluster cannot be moved to KRaft"
)
