package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// unserved is an API that brokers of Kafka serve and this one does not.
type unserved struct {
	key               kmsg.Key
	zooKeeper, kafka4 Versions // as in Entry
	why               string
}

// Why an API is not served.
const (
	noSASL      = "later: SASL does not exist yet"
	noACLs      = "later: authorisation does not exist yet"
	noMoves     = "later: replicas are not moved between log directories yet"
	noForwards  = "never: only brokers on KRaft forward requests to their controller"
	noKRaft     = "never: there are no KRaft controllers"
	noLeaving   = "never: brokers register themselves, as on ZooKeeper"
	noShares    = "later: share groups do not exist yet"
	noStreamers = "later: streams groups do not exist yet"
)

// missing are the APIs that are not served, in the order of the keys.
var missing = []unserved{
	{kmsg.SASLHandshake, v(0, 1), v(0, 1), noSASL},
	{kmsg.DescribeACLs, v(0, 3), v(1, 3), noACLs},
	{kmsg.CreateACLs, v(0, 3), v(1, 3), noACLs},
	{kmsg.DeleteACLs, v(0, 3), v(1, 3), noACLs},
	{kmsg.AlterReplicaLogDirs, v(0, 2), v(1, 2), noMoves},
	{kmsg.SASLAuthenticate, v(0, 2), v(0, 2), noSASL},
	{kmsg.CreateDelegationToken, v(0, 3), v(1, 3), noSASL},
	{kmsg.RenewDelegationToken, v(0, 2), v(1, 2), noSASL},
	{kmsg.ExpireDelegationToken, v(0, 2), v(1, 2), noSASL},
	{kmsg.DescribeDelegationToken, v(0, 3), v(1, 3), noSASL},
	{kmsg.AlterUserSCRAMCredentials, v(0, 0), v(0, 0), noSASL},
	{kmsg.Envelope, v(0, 0), none, noForwards},
	{kmsg.UnregisterBroker, none, v(0, 0), noLeaving},
	{kmsg.ShareGroupHeartbeat, none, v(1, 1), noShares},
	{kmsg.ShareGroupDescribe, none, v(1, 1), noShares},
	{kmsg.ShareFetch, none, v(1, 2), noShares},
	{kmsg.ShareAcknowledge, none, v(1, 2), noShares},
	{kmsg.AddRaftVoter, none, v(0, 1), noKRaft},
	{kmsg.RemoveRaftVoter, none, v(0, 0), noKRaft},
	{kmsg.InitializeShareGroupState, none, v(0, 0), noShares},
	{kmsg.ReadShareGroupState, none, v(0, 0), noShares},
	{kmsg.WriteShareGroupState, none, v(0, 1), noShares},
	{kmsg.DeleteShareGroupState, none, v(0, 0), noShares},
	{kmsg.ReadShareGroupStateSummary, none, v(0, 1), noShares},
	{kmsg.StreamsGroupHeartbeat, none, v(0, 1), noStreamers},
	{kmsg.StreamsGroupDescribe, none, v(0, 1), noStreamers},
	{kmsg.DescribeShareGroupOffsets, none, v(0, 1), noShares},
	{kmsg.AlterShareGroupOffsets, none, v(0, 0), noShares},
	{kmsg.DeleteShareGroupOffsets, none, v(0, 0), noShares},
	{kmsg.StreamsGroupTopologyDescriptionUpdate, none, v(0, 0), noStreamers},
	{kmsg.UnregisterController, none, v(0, 0), noKRaft},
}

// kafkaWords turns kmsg's names of APIs into Kafka's.
var kafkaWords = strings.NewReplacer("ISR", "Isr", "ID", "Id", "SASL", "Sasl", "ACL", "Acl", "SCRAM", "Scram",
	"AlterPartitionAssignments", "AlterPartitionReassignments")

// Name is what Kafka calls an API.
func Name(key int16) string { return kafkaWords.Replace(kmsg.Key(key).Name()) }
