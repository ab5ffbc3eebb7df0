// Package znode holds every path and every data form of Apache Kafka 3.9 in ZooKeeper mode. Numbers that are strings, keys that
// are absent and orders of keys are Kafka's own (core/zk/ZkData.scala), so that a real 3.9 broker reads what we write and the
// other way round. Decoders take any key order and ignore keys that they do not know.
package znode

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

// encode is JSON as Jackson writes it: no spaces, no escapes for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only our own types come here, none of which can fail
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// decode reads JSON of what, an article and a noun for the error.
func decode(what string, data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("not %s: %w", what, err)
	}
	return nil
}

// parseDecimal reads the digits of a decimal string form.
func parseDecimal(what, s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("not %s: %q is no number", what, s)
	}
	return n, nil
}

// FormatID is the text of a 16-byte id: base64url without padding, 22 characters, as Kafka's Uuid.
func FormatID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseID reads what FormatID wrote.
func ParseID(s string) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is no id of 22 base64url characters", s)
	}
	return [16]byte(b), nil
}

// EncodeClusterID is the data of /cluster/id.
func EncodeClusterID(id string) []byte {
	return encode(struct {
		Version string `json:"version"`
		ID      string `json:"id"`
	}{"1", id})
}

// DecodeClusterID reads /cluster/id.
func DecodeClusterID(data []byte) (string, error) {
	var v struct {
		ID string `json:"id"`
	}
	err := decode("a cluster id", data, &v)
	if err == nil && v.ID == "" {
		err = fmt.Errorf("not a cluster id: %s has none", data)
	}
	return v.ID, err
}

// Controller is the data of /controller. KRaftEpoch is -1 unless a KRaft controller that migrates the cluster registered itself.
type Controller struct {
	BrokerID    int32
	TimestampMs int64
	KRaftEpoch  int32
}

type controllerJSON struct {
	Version    int32  `json:"version"`
	BrokerID   int32  `json:"brokerid"`
	Timestamp  string `json:"timestamp"`
	KRaftEpoch *int32 `json:"kraftControllerEpoch"`
}

// Encode writes version 2.
func (c Controller) Encode() []byte {
	return encode(controllerJSON{2, c.BrokerID, strconv.FormatInt(c.TimestampMs, 10), &c.KRaftEpoch})
}

// DecodeController reads versions 1 and 2.
func DecodeController(data []byte) (Controller, error) {
	v := controllerJSON{BrokerID: -1}
	if err := decode("a controller", data, &v); err != nil {
		return Controller{}, err
	}
	ms, err := parseDecimal("a controller", v.Timestamp)
	c := Controller{BrokerID: v.BrokerID, TimestampMs: ms, KRaftEpoch: -1}
	if v.KRaftEpoch != nil {
		c.KRaftEpoch = *v.KRaftEpoch
	}
	return c, err
}

// EncodeControllerEpoch is the data of /controller_epoch.
func EncodeControllerEpoch(epoch int32) []byte { return strconv.AppendInt(nil, int64(epoch), 10) }

// DecodeControllerEpoch reads /controller_epoch.
func DecodeControllerEpoch(data []byte) (int32, error) {
	n, err := strconv.ParseInt(string(data), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("not a controller epoch: %q", data)
	}
	return int32(n), nil
}

// ProducerBlock is the data of /latest_producer_id_block: the block of ids, both ends included, that Broker took last.
type ProducerBlock struct {
	Broker     int32
	Start, End int64
}

type producerBlockJSON struct {
	Version int32  `json:"version"`
	Broker  int32  `json:"broker"`
	Start   string `json:"block_start"`
	End     string `json:"block_end"`
}

// Encode writes version 1.
func (b ProducerBlock) Encode() []byte {
	return encode(producerBlockJSON{1, b.Broker, strconv.FormatInt(b.Start, 10), strconv.FormatInt(b.End, 10)})
}

// DecodeProducerBlock reads /latest_producer_id_block.
func DecodeProducerBlock(data []byte) (b ProducerBlock, err error) {
	var v producerBlockJSON
	if err := decode("a block of producer ids", data, &v); err != nil {
		return b, err
	}
	b.Broker = v.Broker
	if b.Start, err = parseDecimal("a block of producer ids", v.Start); err != nil {
		return b, err
	}
	b.End, err = parseDecimal("a block of producer ids", v.End)
	return b, err
}

// FeaturesEnabled is the status of Feature when features are in use.
const FeaturesEnabled = 1

// Feature is the data of /feature. Status: 0 disabled, 1 enabled.
type Feature struct {
	Version  int32            // of its form: 1 before IBP 3.3; 0 = 2
	Features map[string]int16 // finalised maximum level
	Status   int32
}

// Encode writes the version that f has. Version 1 also says from which level on a feature is in force, which is 1.
func (f Feature) Encode() []byte {
	type level struct {
		Min int16 `json:"min_version_level,omitempty"`
		Max int16 `json:"max_version_level"`
	}
	f.Version = cmp.Or(f.Version, 2)
	v := struct {
		Features map[string]level `json:"features"`
		Version  int32            `json:"version"`
		Status   int32            `json:"status"`
	}{map[string]level{}, f.Version, f.Status}
	for name, n := range f.Features {
		v.Features[name] = level{Max: n}
		if f.Version == 1 {
			v.Features[name] = level{1, n}
		}
	}
	return encode(v)
}

// DecodeFeature reads versions 1 and 2.
func DecodeFeature(data []byte) (Feature, error) {
	var v struct {
		Features map[string]struct {
			Max int16 `json:"max_version_level"`
		} `json:"features"`
		Version int32 `json:"version"`
		Status  int32 `json:"status"`
	}
	if err := decode("features", data, &v); err != nil {
		return Feature{}, err
	}
	f := Feature{Version: v.Version, Features: map[string]int16{}, Status: v.Status}
	for name, level := range v.Features {
		f.Features[name] = level.Max
	}
	return f, nil
}

// DecodeMigration returns the KRaft controller that migrates the cluster, -1 none, out of /migration.
func DecodeMigration(data []byte) (int32, error) {
	v := struct {
		Controller int32 `json:"kraft_controller_id"`
	}{-1}
	err := decode("a migration", data, &v)
	return v.Controller, err
}
