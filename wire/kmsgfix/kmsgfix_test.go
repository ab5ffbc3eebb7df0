package kmsgfix

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The bytes are written after Kafka's StopReplicaRequest.json: controllerId, isKRaftController (v4+), controllerEpoch, brokerEpoch,
// topics, tags.
var golden = map[int16]string{
	3: "00000001 00000007 0000000000000172 02 03743902 00000001 fffffffe 01 00 00 00",
	4: "00000001 00 00000007 0000000000000172 02 03743902 00000001 fffffffe 01 00 00 00",
}

func order(version int16) *kmsg.StopReplicaRequest {
	r := kmsg.NewPtrStopReplicaRequest()
	r.Version, r.ControllerID, r.ControllerEpoch, r.BrokerEpoch = version, 1, 7, 0x172
	topic := kmsg.NewStopReplicaRequestTopic()
	topic.Topic = "t9"
	p := kmsg.NewStopReplicaRequestTopicPartitionState()
	p.Partition, p.LeaderEpoch, p.Delete = 1, -2, true
	topic.PartitionStates = append(topic.PartitionStates, p)
	r.Topics = append(r.Topics, topic)
	return r
}

func TestStopReplica(t *testing.T) {
	for version, text := range golden {
		want, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		prefix := []byte("head")
		if got := Request(order(version)).AppendTo(bytes.Clone(prefix)); !bytes.Equal(got, append(prefix, want...)) {
			t.Errorf("v%d is written as %x, want %x", version, got[4:], want)
		}
		kept := bytes.Clone(want)
		read := kmsg.NewPtrStopReplicaRequest()
		read.Version = version
		if err := Request(read).ReadFrom(want); err != nil || !reflect.DeepEqual(read, order(version)) || !bytes.Equal(kept, want) {
			t.Errorf("v%d is read as %+v, %v", version, read, err)
		}
		for n := range want {
			_ = Request(read).ReadFrom(want[:n]) // must not panic
		}
	}
	kraft := order(4)
	kraft.IsKRaftController = true
	if b := Request(kraft).AppendTo(nil); b[4] != 1 || b[8] != 7 {
		t.Errorf("%x", b)
	}
}

func TestOthers(t *testing.T) {
	r := kmsg.NewPtrUpdateMetadataRequest()
	if Request(r) != kmsg.Request(r) {
		t.Error("a request that is right is not left alone")
	}
}
