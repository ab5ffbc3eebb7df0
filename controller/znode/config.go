package znode

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The kinds of things that have a configuration; they are the names of their directories below /config.
const (
	Topics  = "topics"
	Brokers = "brokers"
	Clients = "clients"
	Users   = "users"
	IPs     = "ips"

	// Of these a broker of 3.9 on ZooKeeper knows nothing; they exist in the embedded store, and below OwnConfigPath.
	Groups        = "groups"
	ClientMetrics = "client-metrics"
)

var (
	// ConfigKinds lists those that every cluster has.
	ConfigKinds = []string{Topics, Brokers, Clients, Users, IPs}
	// EmbeddedConfigKinds lists those that are not below ConfigPath on ZooKeeper.
	EmbeddedConfigKinds = []string{Groups, ClientMetrics}
)

// encoded says whether ConfigEntity encodes the names of a kind. Those of users and client ids come encoded, as EntityName does:
// "<default>" and "U/clients/C" would not say whether a person, a default, or one or two names are meant.
func encoded(kind string) bool { return slices.Contains(EmbeddedConfigKinds, kind) }

// Default is the name that stands for all others of a kind.
const Default = "<default>"

var emptyConfig = []byte(`{"version":1,"config":{}}`)

// EncodeConfig is the data of a configuration node, keys in order.
func EncodeConfig(values map[string]string) []byte {
	if len(values) == 0 {
		return bytes.Clone(emptyConfig)
	}
	return encode(struct {
		Version int32             `json:"version"`
		Config  map[string]string `json:"config"`
	}{1, values})
}

// DecodeConfig reads a configuration node; nil when it has no values or no data.
func DecodeConfig(data []byte) (map[string]string, error) {
	if len(data) == 0 || bytes.Equal(data, emptyConfig) {
		return nil, nil
	}
	var v struct {
		Config map[string]string `json:"config"`
	}
	err := decode("a configuration", data, &v)
	if len(v.Config) == 0 {
		return nil, err
	}
	return v.Config, err
}

// EncodeConfigChange is the data of a change notification: path is the configuration's below /config.
func EncodeConfigChange(path string) []byte {
	return encode(struct {
		Version int32  `json:"version"`
		Path    string `json:"entity_path"`
	}{2, path})
}

// DecodeConfigChange returns the path below /config that a change notification names, versions 1 and 2.
func DecodeConfigChange(data []byte) (string, error) {
	var v struct {
		Path string `json:"entity_path"`
		Type string `json:"entity_type"` // version 1
		Name string `json:"entity_name"`
	}
	if err := decode("a configuration change", data, &v); err != nil {
		return "", err
	}
	if v.Path == "" && v.Type != "" && v.Name != "" {
		v.Path = v.Type + "/" + v.Name
	}
	if kind, name, ok := strings.Cut(v.Path, "/"); !ok || kind == "" || name == "" {
		return "", fmt.Errorf("not a configuration change: %s", data)
	}
	return v.Path, nil
}

// Sanitize makes a user or client name a node's name: URL encoding, with %20 for a space and %2A for a star.
// After org.apache.kafka.common.utils.Sanitizer, which leaves the two names alone that no node can have.
func Sanitize(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return strings.NewReplacer("+", "%20", "~", "%7E").Replace(url.QueryEscape(name))
}

// Desanitize is the inverse of Sanitize.
func Desanitize(name string) (string, error) { return url.PathUnescape(name) }

// ConfigEntity returns the path below /config of a configuration: kind and name as in controller.Observer.
func ConfigEntity(kind, name string) string {
	if encoded(kind) {
		name = Sanitize(name)
	}
	return kind + "/" + name
}

// JoinNames is the name among users of a client id of a user, both as from Sanitize, or Default.
func JoinNames(user, client string) string { return user + "/" + Clients + "/" + client }

// SplitNames is the inverse of JoinNames; both is false for the name of a user alone.
func SplitNames(name string) (user, client string, both bool) {
	return strings.Cut(name, "/"+Clients+"/")
}

// ParseConfigEntity is the inverse of ConfigEntity.
func ParseConfigEntity(path string) (kind, name string, err error) {
	kind, name, ok := strings.Cut(path, "/")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q is no configuration", path)
	}
	switch kind {
	case Topics, Brokers, IPs:
		return kind, name, nil
	}
	parts := strings.Split(name, "/")
	if len(parts) != 1 && (len(parts) != 3 || kind != Users || parts[1] != Clients) {
		return "", "", fmt.Errorf("%q is no configuration", path)
	}
	for i := range parts {
		if parts[i], err = Desanitize(parts[i]); err != nil {
			return "", "", fmt.Errorf("%q is no configuration: %w", path, err)
		}
	}
	if encoded(kind) {
		name = parts[0]
	}
	return kind, name, nil
}
