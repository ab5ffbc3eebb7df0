package logdump

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// versioned is how Kafka's tools show a record of an internal topic.
type versioned struct {
	Type    *int16 `json:"type,string,omitempty"`    // of a key
	Version *int16 `json:"version,string,omitempty"` // of a value
	Data    any    `json:"data"`
}

func key(version int16, data any) string   { return toJSON(versioned{Type: &version, Data: data}) }
func value(version int16, data any) string { return toJSON(versioned{Version: &version, Data: data}) }

func toJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("<%v>", err) // cannot be: these types have no part that JSON lacks
	}
	return string(text)
}

// undecodable shows bytes that are no such record.
func undecodable(what string, b []byte) string {
	return fmt.Sprintf("<not %s: %d bytes>", what, len(b))
}

// none is how a value that deletes its key is shown.
const none = "<DELETE>"

type offsetKey struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type offsetValue struct {
	Offset          int64  `json:"offset"`
	LeaderEpoch     *int32 `json:"leaderEpoch,omitempty"`
	Metadata        string `json:"metadata"`
	CommitTimestamp int64  `json:"commitTimestamp"`
	ExpireTimestamp *int64 `json:"expireTimestamp,omitempty"`
	TopicID         string `json:"topicId,omitempty"`
}

type groupKey struct {
	Group string `json:"group"`
}

type groupValue struct {
	ProtocolType          string        `json:"protocolType"`
	Generation            int32         `json:"generation"`
	Protocol              *string       `json:"protocol"`
	Leader                *string       `json:"leader"`
	CurrentStateTimestamp *int64        `json:"currentStateTimestamp,omitempty"`
	Members               []groupMember `json:"members"`
}

type groupMember struct {
	MemberID         string   `json:"memberId"`
	InstanceID       **string `json:"groupInstanceId,omitempty"`
	ClientID         string   `json:"clientId"`
	ClientHost       string   `json:"clientHost"`
	RebalanceTimeout *int32   `json:"rebalanceTimeout,omitempty"`
	SessionTimeout   int32    `json:"sessionTimeout"`
	Subscription     any      `json:"subscription"`
	Assignment       any      `json:"assignment"`
}

type subscription struct {
	Topics       []string          `json:"topics"`
	UserData     []byte            `json:"userData"`
	Owned        []topicPartitions `json:"ownedPartitions"`
	GenerationID int32             `json:"generationId"`
	RackID       *string           `json:"rackId"`
}

type assignment struct {
	Assigned []topicPartitions `json:"assignedPartitions"`
	UserData []byte            `json:"userData"`
}

type topicPartitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// decodeOffsets shows a record of __consumer_offsets. Keys of version 0 and 1 are of offsets, of 2 of groups.
func decodeOffsets(k, v []byte) (string, string) {
	if len(k) < 2 {
		return undecodable("a key of __consumer_offsets", k), ""
	}
	switch version := int16(k[0])<<8 | int16(k[1]); version {
	case 0, 1:
		return decodeOffset(k, v)
	case 2:
		return decodeGroup(k, v)
	default:
		return fmt.Sprintf("<a key of type %d>", version), ""
	}
}

func decodeOffset(k, v []byte) (string, string) {
	var dk kmsg.OffsetCommitKey
	if err := dk.ReadFrom(k); err != nil {
		return undecodable("an offset's key", k), ""
	}
	shown := key(dk.Version, offsetKey{dk.Group, dk.Topic, dk.Partition})
	if v == nil {
		return shown, none
	}
	var dv kmsg.OffsetCommitValue
	if err := dv.ReadFrom(v); err != nil {
		return shown, undecodable("an offset", v)
	}
	data := offsetValue{Offset: dv.Offset, Metadata: dv.Metadata, CommitTimestamp: dv.CommitTimestamp}
	if dv.Version >= 3 {
		data.LeaderEpoch = &dv.LeaderEpoch
	}
	if dv.Version == 1 {
		data.ExpireTimestamp = &dv.ExpireTimestamp
	}
	if dv.TopicID != [16]byte{} {
		data.TopicID = base64.RawURLEncoding.EncodeToString(dv.TopicID[:])
	}
	return shown, value(dv.Version, data)
}

func decodeGroup(k, v []byte) (string, string) {
	var dk kmsg.GroupMetadataKey
	if err := dk.ReadFrom(k); err != nil {
		return undecodable("a group's key", k), ""
	}
	shown := key(dk.Version, groupKey{dk.Group})
	if v == nil {
		return shown, none
	}
	var dv kmsg.GroupMetadataValue
	if err := dv.ReadFrom(v); err != nil {
		return shown, undecodable("a group", v)
	}
	data := groupValue{ProtocolType: dv.ProtocolType, Generation: dv.Generation, Protocol: dv.Protocol, Leader: dv.Leader, Members: []groupMember{}}
	if dv.Version >= 2 {
		data.CurrentStateTimestamp = &dv.CurrentStateTimestamp
	}
	for _, m := range dv.Members {
		member := groupMember{MemberID: m.MemberID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			SessionTimeout: m.SessionTimeoutMillis, Subscription: m.Subscription, Assignment: m.Assignment}
		if dv.ProtocolType == "consumer" {
			member.Subscription, member.Assignment = decodeSubscription(m.Subscription), decodeAssignment(m.Assignment)
		}
		if dv.Version >= 3 {
			member.InstanceID = &m.InstanceID
		}
		if dv.Version >= 1 {
			member.RebalanceTimeout = &m.RebalanceTimeoutMillis
		}
		data.Members = append(data.Members, member)
	}
	return shown, value(dv.Version, data)
}

// decodeSubscription shows what a consumer joined with; bytes that are not that stay bytes.
func decodeSubscription(b []byte) any {
	m := kmsg.NewConsumerMemberMetadata()
	if err := m.ReadFrom(b); err != nil {
		return b
	}
	shown := subscription{Topics: m.Topics, UserData: m.UserData, Owned: []topicPartitions{}, GenerationID: m.Generation, RackID: m.Rack}
	for _, o := range m.OwnedPartitions {
		shown.Owned = append(shown.Owned, topicPartitions{o.Topic, o.Partitions})
	}
	return shown
}

// decodeAssignment shows what a consumer was assigned, likewise.
func decodeAssignment(b []byte) any {
	var m kmsg.ConsumerMemberAssignment
	if err := m.ReadFrom(b); err != nil {
		return b
	}
	shown := assignment{Assigned: []topicPartitions{}, UserData: m.UserData}
	for _, t := range m.Topics {
		shown.Assigned = append(shown.Assigned, topicPartitions{t.Topic, t.Partitions})
	}
	return shown
}

type transactionKey struct {
	TransactionalID string `json:"transactionalId"`
}

type transactionValue struct {
	ProducerID    int64                   `json:"producerId"`
	ProducerEpoch int16                   `json:"producerEpoch"`
	TimeoutMs     int32                   `json:"transactionTimeoutMs"`
	State         string                  `json:"transactionStatus"`
	Partitions    []transactionPartitions `json:"transactionPartitions"`
	LastUpdate    int64                   `json:"transactionLastUpdateTimestampMs"`
	Start         int64                   `json:"transactionStartTimestampMs"`
}

type transactionPartitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitionIds"`
}

// decodeTransactions shows a record of __transaction_state.
func decodeTransactions(k, v []byte) (string, string) {
	var dk kmsg.TxnMetadataKey
	if err := dk.ReadFrom(k); err != nil || dk.Version != 0 {
		return undecodable("a key of __transaction_state", k), ""
	}
	shown := key(dk.Version, transactionKey{dk.TransactionalID})
	if v == nil {
		return shown, none
	}
	var dv kmsg.TxnMetadataValue
	if err := dv.ReadFrom(v); err != nil {
		return shown, undecodable("a transaction", v)
	}
	data := transactionValue{ProducerID: dv.ProducerID, ProducerEpoch: dv.ProducerEpoch, TimeoutMs: dv.TimeoutMillis,
		State: dv.State.String(), LastUpdate: dv.LastUpdateTimestamp, Start: dv.StartTimestamp}
	if dv.State != kmsg.TransactionStateEmpty { // whose partitions Kafka writes as null; kmsg reads null and none alike
		data.Partitions = []transactionPartitions{}
	}
	for _, t := range dv.Topics {
		data.Partitions = append(data.Partitions, transactionPartitions{t.Topic, t.Partitions})
	}
	return shown, value(dv.Version, data)
}
