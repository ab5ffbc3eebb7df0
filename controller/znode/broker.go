package znode

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Endpoint is an address that a broker advertises on one of its listeners.
type Endpoint struct {
	Listener string // name
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
	Host     string
	Port     int32
}

// Broker is the data of /brokers/ids/N.
type Broker struct {
	ID          int32 // in the path
	Endpoints   []Endpoint
	Rack        string // empty: none
	JMXPort     int32  // -1: none
	TimestampMs int64
	Extensions  int16 // highest level of the setting Extensions that the broker can serve, 0: it knows nothing of it
}

// Extensions is the name of the setting that lets a cluster on ZooKeeper have more than Apache Kafka 3.9 has, and of the supported
// feature (KIP-584) by which a registration says that its broker can: a 3.9 broker reads supported features and makes nothing of
// one that nobody finalised in /feature.
const Extensions = "gregor.extensions"

// supported is a feature of a registration. Brokers before 3.9 refuse to read one that begins at 0.
type supported struct {
	Min int16 `json:"min_version"`
	Max int16 `json:"max_version"`
}

type brokerJSON struct {
	Features  json.RawMessage   `json:"features"`
	Protocols map[string]string `json:"listener_security_protocol_map"`
	Endpoints []string          `json:"endpoints"`
	Rack      *string           `json:"rack,omitempty"`
	JMXPort   int32             `json:"jmx_port"`
	Port      int32             `json:"port"`
	Host      *string           `json:"host"`
	Version   int32             `json:"version"`
	Timestamp string            `json:"timestamp"`
}

// Encode writes version 5. host and port repeat the first PLAINTEXT endpoint for old clients.
func (b Broker) Encode() []byte {
	v := brokerJSON{Features: json.RawMessage("{}"), Protocols: map[string]string{}, Endpoints: []string{}, JMXPort: b.JMXPort,
		Port: -1, Version: 5, Timestamp: strconv.FormatInt(b.TimestampMs, 10)}
	for _, e := range b.Endpoints {
		v.Protocols[e.Listener] = e.Protocol
		v.Endpoints = append(v.Endpoints, e.Listener+"://"+net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
		if e.Protocol == "PLAINTEXT" && v.Host == nil {
			v.Host, v.Port = &e.Host, e.Port
		}
	}
	if b.Rack != "" {
		v.Rack = &b.Rack
	}
	if b.Extensions > 0 {
		v.Features = encode(map[string]supported{Extensions: {1, b.Extensions}})
	}
	return encode(v)
}

// DecodeBroker reads the registration of broker id, versions 2 (without a protocol map, so listener names are protocols) to 5.
func DecodeBroker(id int32, data []byte) (Broker, error) {
	v := brokerJSON{JMXPort: -1}
	if err := decode("a broker", data, &v); err != nil {
		return Broker{}, err
	}
	ms, err := parseDecimal("a broker", v.Timestamp)
	if err != nil {
		return Broker{}, err
	}
	b := Broker{ID: id, JMXPort: v.JMXPort, TimestampMs: ms, Extensions: decodeExtensions(v.Features)}
	if v.Rack != nil {
		b.Rack = *v.Rack
	}
	for _, text := range v.Endpoints {
		e, err := parseEndpoint(text)
		if err != nil {
			return Broker{}, err
		}
		e.Protocol = e.Listener
		if p, ok := v.Protocols[e.Listener]; ok {
			e.Protocol = p
		}
		b.Endpoints = append(b.Endpoints, e)
	}
	return b, nil
}

// decodeExtensions returns the highest level of Extensions among supported features. What cannot be read holds none.
func decodeExtensions(features json.RawMessage) int16 {
	var v map[string]json.RawMessage
	var s supported
	if json.Unmarshal(features, &v) != nil || json.Unmarshal(v[Extensions], &s) != nil {
		return 0
	}
	return max(s.Max, 0)
}

func parseEndpoint(text string) (Endpoint, error) {
	listener, address, ok := strings.Cut(text, "://")
	host, portText, err := net.SplitHostPort(address)
	port, perr := strconv.ParseInt(portText, 10, 32)
	if !ok || err != nil || perr != nil {
		return Endpoint{}, fmt.Errorf("not a broker: endpoint %q", text)
	}
	return Endpoint{Listener: listener, Host: host, Port: int32(port)}, nil
}
