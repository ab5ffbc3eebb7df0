package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Snapshot is one immutable configuration. Safe for concurrent use.
type Snapshot struct {
	mode       Version
	static     map[string]setting // file, environment and --override
	stored     map[string]string  // dynamic, for all brokers, with what has no effect here
	dynDefault map[string]string  // dynamic, for all brokers
	dynBroker  map[string]string  // dynamic, for this broker
	values     []parsed           // by index of the broker key
	listeners  []Listener
	interName  string
	perIP      map[string]int
	clusterID  string
}

// effective computes the value of every broker key. A dynamic value that is not allowed does not count.
func (s *Snapshot) effective() []parsed {
	values := make([]parsed, len(brokerTable.keys))
	for i := range brokerTable.keys {
		k := &brokerTable.keys[i]
		values[i] = k.defaults[s.mode-1]
		for _, written := range s.layersOf(k) {
			if v, problem := k.parse(s.mode, written.value); problem == nil {
				values[i] = v
				break
			}
		}
	}
	return values
}

// layered is a value in one of the layers.
type layered struct {
	value  string
	source Source
}

// layersOf returns what the layers above the default say about a key, most important first.
func (s *Snapshot) layersOf(k *Key) []layered {
	var found []layered
	if v, ok := s.dynBroker[k.Name]; ok {
		found = append(found, layered{v, SourceDynamicBroker})
	}
	if v, ok := s.dynDefault[k.Name]; ok {
		found = append(found, layered{v, SourceDynamicDefaultBroker})
	}
	if one, ok := s.static[k.Name]; ok && !k.Stored {
		found = append(found, layered{one.value, SourceStaticBroker})
	}
	return found
}

// WithBrokerID returns the configuration of a broker that learnt its id elsewhere (from its data directory).
func (s *Snapshot) WithBrokerID(id int32) *Snapshot {
	next := *s
	next.static = maps.Clone(s.static)
	for _, name := range []string{brokerIDKey, nodeIDKey} {
		next.static[name] = setting{name, strconv.Itoa(int(id)), ""}
	}
	next.values = next.effective()
	return &next
}

// Embedded says that the broker keeps its metadata itself (zookeeper.connect is unset): then the defaults are those of
// Kafka 4.4, otherwise of 3.9.
func (s *Snapshot) Embedded() bool { return s.mode == Kafka44 }

// BrokerID returns the broker's id and whether the configuration names one.
func (s *Snapshot) BrokerID() (id int32, set bool) {
	for _, name := range []string{nodeIDKey, brokerIDKey} {
		if n, ok := s.value(name).(int64); ok && n >= 0 {
			return int32(n), true
		}
	}
	return -1, false
}

// ClusterID returns the id that the environment names for a new cluster (CLUSTER_ID, as in the official image), or "".
// A data directory that has an id keeps it.
func (s *Snapshot) ClusterID() string { return s.clusterID }

// LogDirs returns the data directories, as written, each once.
func (s *Snapshot) LogDirs() []string {
	if dirs := s.value("log.dirs"); dirs != nil {
		return asList(dirs)
	}
	return asList(s.value("log.dir"))
}

// PerIPConnections returns the limits of max.connections.per.ip.overrides by address.
func (s *Snapshot) PerIPConnections() map[string]int { return s.perIP }

// value returns the effective value of a broker key.
func (s *Snapshot) value(name string) parsed {
	k := brokerTable.byName[name]
	if k == nil {
		panic("config: no such key: " + name)
	}
	return s.values[k.index]
}

// asList reads a value that is a list, or a text with commas (as some keys are in Kafka 3.9), without empty items.
func asList(v parsed) []string {
	list, ok := v.([]string)
	if !ok {
		text, _ := v.(string)
		list = splitList(text, true)
	}
	return slices.DeleteFunc(slices.Clone(list), func(item string) bool { return item == "" })
}

// resolved is the value of a broker key or, where it has none, of its synonyms, in the key's unit.
func (s *Snapshot) resolved(k *Key) parsed {
	if v := s.values[k.index]; v != nil {
		return v
	}
	for _, synonym := range k.synonyms {
		if v := s.values[synonym.index]; v != nil {
			return convert(v, synonym.Name, k.Name)
		}
	}
	return nil
}

// units are those that key names end in, coarse ones first.
var units = []struct {
	suffix string
	unit   time.Duration
}{{".hours", time.Hour}, {".minutes", time.Minute}, {".seconds", time.Second}, {".ms", time.Millisecond}}

func unitOf(name string) time.Duration {
	for _, u := range units {
		if len(name) > len(u.suffix) && name[len(name)-len(u.suffix):] == u.suffix {
			return u.unit
		}
	}
	return 0
}

// convert carries a number from the unit of one key's name to that of another's.
func convert(v parsed, from, to string) parsed {
	n, isInt := v.(int64)
	a, b := unitOf(from), unitOf(to)
	if !isInt || a == 0 || b == 0 || a == b {
		return v
	}
	return n * int64(a/b)
}

// invalid is an error about the value of a key, wherever it came from.
func (s *Snapshot) invalid(name, allowed string, args ...any) error {
	one, ok := s.static[name]
	if !ok {
		one = setting{name: name, value: format(s.value(name)), origin: "default"}
	}
	return brokerTable.byName[name].invalid(one, fmt.Sprintf(allowed, args...))
}
