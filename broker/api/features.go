package api

import (
	"maps"
	"slices"

	"github.com/gregor-broker/gregor/controller"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The features of a cluster that this broker can serve: those of 4.4 (org.apache.kafka.server.common.Feature) that something
// here goes by. metadata.version, kraft.version and eligible.leader.replicas.version are about KRaft and mean nothing here.
var features = []controller.Feature{
	{Name: groupVersion, Max: 1, Initial: 1},
	{Name: TransactionVersion, Max: 2, Initial: 2},
}

// groupVersion is the feature of groups of the consumer protocol (KIP-848): on at level 1.
const groupVersion = "group.version"

// TransactionVersion is the feature that says how transactions go (KIP-890): from 1 on their states are stored in the flexible
// form, from 2 on every one has a producer epoch of its own.
const TransactionVersion = "transaction.version"

// Features returns those that a single broker can serve, which are also what gregor.extensions brings to a cluster on ZooKeeper.
func Features() []controller.Feature { return features }

// supported are the features that clients are told of: on ZooKeeper none, as with 3.9, but while gregor.extensions is on.
func (s *Services) supported() []controller.Feature {
	switch {
	case s.Embedded:
		return features
	case s.extended():
		return append([]controller.Feature{{Name: controller.Extensions, Max: controller.ExtensionsLevel}}, features...)
	}
	return nil
}

// addFeatures tells a client which features this broker can serve and which are in force. Below version 4 a feature that may be
// off is left out of the first: clients of then take level 0 for a mistake (KAFKA-17011).
func (s *Services) addFeatures(response *kmsg.ApiVersionsResponse, inForce *controller.Finalised, version int16) {
	for _, f := range s.supported() {
		if version < 4 {
			break
		}
		supported := kmsg.NewApiVersionsResponseSupportedFeature()
		supported.Name, supported.MinVersion, supported.MaxVersion = f.Name, 0, f.Max
		response.SupportedFeatures = append(response.SupportedFeatures, supported)
	}
	response.FinalizedFeaturesEpoch = inForce.Epoch
	for _, name := range slices.Sorted(maps.Keys(inForce.Levels)) {
		finalised := kmsg.NewApiVersionsResponseFinalizedFeature()
		finalised.Name, finalised.MinVersionLevel, finalised.MaxVersionLevel = name, inForce.Levels[name], inForce.Levels[name]
		response.FinalizedFeatures = append(response.FinalizedFeatures, finalised)
	}
}
