package errcode

import "github.com/twmb/franz-go/pkg/kerr"

// substitute says that below version the code new is answered as old.
type substitute struct {
	key      int16
	version  int16
	new, old *kerr.Error
}

// Source: KafkaApis of Apache Kafka 3.9 (maybeDownConvertStorageError, handleTopicMetadataRequest and the transaction
// handlers).
var substitutes = []substitute{
	{1, 6, kerr.KafkaStorageError, kerr.NotLeaderForPartition},
	{3, 6, kerr.ListenerNotFound, kerr.LeaderNotAvailable},
	{22, 4, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
	{24, 2, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
	{25, 2, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
	{26, 2, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
}

// Versioned returns the code to answer in a response to API key at version in place of code.
func Versioned(key, version, code int16) int16 {
	if code == 0 {
		return 0
	}
	for _, s := range substitutes {
		if s.key == key && version < s.version && s.new.Code == code {
			return s.old.Code
		}
	}
	return code
}
