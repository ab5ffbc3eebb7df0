package schema

// SubscribedTopics returns the topics in a subscription of the consumer protocol, the metadata that members of a group of
// protocol type "consumer" join with. Version 0 is the beginning of all versions.
// Source: ConsumerProtocolSubscription.json, ConsumerProtocol.deserializeConsumerProtocolSubscription.
func SubscribedTopics(metadata []byte) ([]string, error) {
	r := reader{src: metadata}
	if version := r.int16(); version < 0 {
		return nil, ErrMalformed
	}
	var topics []string
	for n := r.int32(); n > 0; n-- {
		topic := r.string(false)
		if r.bad || topic == nil {
			return nil, ErrMalformed
		}
		topics = append(topics, string(topic))
	}
	r.bytes(false)
	return topics, r.done()
}
