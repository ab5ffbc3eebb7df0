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

// plain says whether the names of a kind are nodes' names as they are; those of others are encoded.
func plain(kind string) bool { return slices.Contains([]string{Topics, Brokers, IPs}, kind) }

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
// After org.apache.kafka.common.utils.Sanitizer.
func Sanitize(name string) string {
	return strings.NewReplacer("+", "%20", "~", "%7E").Replace(url.QueryEscape(name))
}

// Desanitize is the inverse of Sanitize.
func Desanitize(name string) (string, error) { return url.PathUnescape(name) }

// ConfigEntity returns the path below /config of a configuration: kind and name as in controller.Observer. Names that may have
// any characters are encoded, "<default>" never is.
func ConfigEntity(kind, name string) string {
	if plain(kind) {
		return kind + "/" + name
	}
	user, client, both := name, "", false
	if kind == Users {
		if i := strings.LastIndex(name, "/clients/"); i >= 0 {
			user, client, both = name[:i], name[i+len("/clients/"):], true
		}
	}
	path := kind + "/" + sanitizeEntity(user)
	if both {
		path += "/clients/" + sanitizeEntity(client)
	}
	return path
}

func sanitizeEntity(name string) string {
	if name == Default {
		return name
	}
	return Sanitize(name)
}

// ParseConfigEntity is the inverse of ConfigEntity.
func ParseConfigEntity(path string) (kind, name string, err error) {
	kind, name, ok := strings.Cut(path, "/")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q is no configuration", path)
	}
	if plain(kind) {
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
	return kind, strings.Join(parts, "/"), nil
}
