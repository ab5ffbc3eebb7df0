// Package txn coordinates transactions: which producer may use a transactional id, which partitions take part in its transaction,
// and that a commit or abort, once decided, reaches every one of them. It owns what is stored in __transaction_state.
//
// A Coordinator holds one machine for each partition of __transaction_state that this broker leads (package runtime): a map of
// transactional ids, and decisions without I/O. A transaction goes
//
//	Empty ─▶ Ongoing ─▶ PrepareCommit ─▶ CompleteCommit ─▶ Ongoing …
//	              └───▶ PrepareAbort ──▶ CompleteAbort ──▶ Ongoing …
//
// Prepare* is the point of no return: when it is replicated the client is answered, and markers go to the leaders of all
// partitions (the sender), again and again until each has taken its marker or is gone; then Complete* is written. Whoever loads a
// Prepare* sends its markers. The markers' coordinator epoch, the leader epoch of our partition, fences an earlier coordinator.
//
// Two versions of the protocol (KIP-890) live side by side, by what the producer speaks: in the first a producer's epoch rises when
// it initialises, in the second with every transaction, so that no late record of one can end up in the next.
//
// The answers are those of Apache Kafka 4.4.0, or of 3.9 where the two differ and Settings.Kafka4 is off. Known differences:
//
//   - While a write waits to be replicated Kafka answers CONCURRENT_TRANSACTIONS to all other requests of the transactional id; here
//     they are judged by the state to come, and answered when it is replicated. Likewise a request of a producer that is fenced is
//     told so at once while a transaction ends.
//   - AddPartitionsToTxn and AddOffsetsToTxn wait up to 100 ms for the end of the transaction before; Kafka answers
//     CONCURRENT_TRANSACTIONS at once, and the producer tries again after a pause.
//   - A producer that names an older epoch when all epochs are used up is fenced; Kafka answers UNKNOWN_SERVER_ERROR.
//   - A partition is taken for deleted, and its marker for written, after metadata has not known it for two seconds.
package txn
