package api

import "github.com/twmb/franz-go/pkg/kmsg"

// operationsOn lists what can be done to a kind of resource (AclEntry.supportedOperations of Apache Kafka).
var operationsOn = map[kmsg.ACLResourceType][]kmsg.ACLOperation{
	kmsg.ACLResourceTypeTopic: {
		kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationDelete, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
	},
	kmsg.ACLResourceTypeGroup: {
		kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationDelete,
		kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
	},
	kmsg.ACLResourceTypeCluster: {
		kmsg.ACLOperationCreate, kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs,
		kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe,
	},
}

// groupsAbove39 are operations that groups have since they have configurations, which they have not on ZooKeeper.
const groupsAbove39 = 1<<kmsg.ACLOperationDescribeConfigs | 1<<kmsg.ACLOperationAlterConfigs

// allGroupOperations is allOperations for a group.
func (s *Services) allGroupOperations() int32 {
	bits := allOperations(kmsg.ACLResourceTypeGroup)
	if !s.Embedded {
		bits &^= groupsAbove39
	}
	return bits
}

// allOperations is the bit set (KIP-430) of everything that can be done to a resource: without an authorizer everybody
// may do everything.
func allOperations(resource kmsg.ACLResourceType) int32 {
	var bits int32
	for _, op := range operationsOn[resource] {
		bits |= 1 << op
	}
	return bits
}
