// Package config owns the broker's configuration: the one table of every key that Apache Kafka 3.9 (in ZooKeeper mode)
// and 4.4 know, the layers that a value can come from, and what is derived from the values (listeners, the
// configuration of a topic's log, the rows of DescribeConfigs, the documentation).
//
// Nothing else in the project spells a key: others use the handles (handles.go).
//
// The layers, later ones with precedence: default, file, environment, --override, dynamic for all brokers, dynamic for
// this broker. The mode decides the defaults: with zookeeper.connect they are those of Kafka 3.9, without it those of
// 4.4, save the short list of rows that have an Embedded value (listed in docs/compatibility.md).
package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sources says where values come from, besides the defaults. Later ones win: File, Env, Overrides.
type Sources struct {
	File      string   // path of a server.properties, or ""
	Env       []string // as os.Environ gives it
	Overrides []string // "key=value"
}

// Notice is something about the configuration that its writer should know but that does not stop the start.
type Notice struct {
	Key  string // as it was written; the first one if the notice is about several
	Text string // one line that names the key
	Warn bool   // needs a look: an unknown key, a value that cannot have the effect it was meant to have
}

// Invalid is a value that stops the start.
type Invalid struct {
	Key, Given, Origin string
	Allowed            string // what is allowed, in words
}

func (e *Invalid) Error() string {
	given := fmt.Sprintf("%q given", e.Given)
	if e.Origin != "" {
		given += " (" + e.Origin + ")"
	}
	return fmt.Sprintf("%s: %s; allowed: %s", e.Key, given, e.Allowed)
}

// Load reads the sources and returns the configuration with what there is to say about it. The error is one line that
// says which key is wrong, what was given and what is allowed.
func Load(s Sources) (*Snapshot, []Notice, error) {
	settings, notices, err := s.read()
	if err != nil {
		return nil, nil, err
	}
	l := &loader{notices: notices, static: map[string]setting{}, mode: Kafka44, accepted: map[string][]string{}}
	for _, one := range settings {
		l.static[one.name] = one
	}
	if strings.TrimSpace(l.static[zookeeperConnect].value) != "" {
		l.mode = Kafka39
	} else {
		delete(l.static, zookeeperConnect)
	}
	l.deriveListeners()
	l.mirrorID()
	clusterID, noID := clusterIDFrom(s.Env)
	l.notices = append(l.notices, noID...)
	snapshot := &Snapshot{mode: l.mode, static: l.static, clusterID: clusterID}
	if err := l.judge(); err != nil {
		return nil, nil, err
	}
	snapshot.values = snapshot.effective()
	if err := snapshot.check(); err != nil {
		return nil, nil, err
	}
	return snapshot, append(l.notices, snapshot.remarks()...), nil
}

// Keys that decide how the others are read.
const (
	zookeeperConnect    = "zookeeper.connect"
	listenersKey        = "listeners"
	advertisedListeners = "advertised.listeners"
	brokerIDKey         = "broker.id"
	nodeIDKey           = "node.id"
)

// loader collects while the static layers become a snapshot.
type loader struct {
	mode     Version
	static   map[string]setting
	accepted map[string][]string // why → the keys
	notices  []Notice
}

// deriveListeners does what the official container image does: an environment that only says what is advertised
// listens on the same ports of every address.
func (l *loader) deriveListeners() {
	advertised, ok := l.static[advertisedListeners]
	if _, has := l.static[listenersKey]; has || !ok || !strings.HasPrefix(advertised.origin, envPrefix) {
		return
	}
	var list []string
	for _, item := range splitList(strings.TrimSpace(advertised.value), false) {
		if m := endpointForm.FindStringSubmatch(item); m != nil {
			list = append(list, m[1]+"://0.0.0.0:"+m[3])
		}
	}
	if len(list) > 0 {
		l.static[listenersKey] = setting{listenersKey, strings.Join(list, ","), "from " + advertised.origin}
	}
}

// mirrorID gives the two names of the broker's id the same value, as Kafka does.
func (l *loader) mirrorID() {
	node, hasNode := l.static[nodeIDKey]
	broker, hasBroker := l.static[brokerIDKey]
	switch {
	case hasNode && !hasBroker:
		l.static[brokerIDKey] = setting{brokerIDKey, node.value, node.origin}
	case hasBroker && !hasNode && !strings.HasPrefix(strings.TrimSpace(broker.value), "-"):
		l.static[nodeIDKey] = setting{nodeIDKey, broker.value, broker.origin}
	}
}

// judge looks at every static setting: is it known, is its value allowed, does it have an effect?
func (l *loader) judge() error {
	for _, name := range slices.Sorted(maps.Keys(l.static)) {
		one := l.static[name]
		key, known := resolve(name)
		switch {
		case !known:
			l.notices = append(l.notices, unknownKey(name, one.origin))
		case key == nil && prefixedKey(name) != nil:
			if err := l.judgeValue(prefixedKey(name), one); err != nil {
				return err
			}
		case key == nil:
			l.accept(name, whyForm(name))
		default:
			if err := l.judgeValue(key, one); err != nil {
				return err
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(l.accepted)) {
		keys := l.accepted[why]
		l.notices = append(l.notices, Notice{Key: keys[0],
			Text: "without effect, since " + why + ": " + strings.Join(keys, ", ")})
	}
	return nil
}

func whyForm(name string) string {
	if pluginKey.MatchString(name) {
		return whyTiered
	}
	return whySecurity
}

func (l *loader) accept(name, why string) { l.accepted[why] = append(l.accepted[why], name) }

func (l *loader) judgeValue(k *Key, one setting) error {
	value, problem := k.parse(l.mode, one.value)
	if problem != nil {
		return k.invalid(one, k.allowed(l.mode))
	}
	if k.Standing == Refused {
		return k.refuse(one, value)
	}
	if format(value) == format(k.defaults[l.mode-1]) {
		return nil
	}
	switch {
	case k.Standing == Accepted, k.Standing == Clustered && l.mode == Kafka44:
		l.accept(k.Name, k.Why)
	case !k.in(l.mode) && !k.Always:
		l.accept(k.Name, whyOther[l.mode])
	}
	return nil
}

var whyOther = map[Version]string{
	Kafka39: "Kafka 3.9 on ZooKeeper has no such key",
	Kafka44: "Kafka 4.4 has no such key",
}

// refuse returns an error unless every part of the value is among those that are understood.
func (k *Key) refuse(one setting, value parsed) error {
	parts, isList := value.([]string)
	if !isList {
		parts = []string{format(value)}
	}
	for _, part := range parts {
		if !slices.Contains(k.Allow, part) {
			return k.invalid(one, k.understood()+" ("+k.Why+")")
		}
	}
	return nil
}

// understood lists the values of a refused key that are allowed.
func (k *Key) understood() string {
	var named []string
	for _, v := range k.Allow {
		if v != "" {
			named = append(named, v)
		}
	}
	if len(named) == 0 {
		return "nothing"
	}
	return strings.Join(named, ", ")
}

func (k *Key) invalid(one setting, allowed string) error {
	given := one.value
	if k.sensitive() {
		given = "[hidden]"
	}
	return &Invalid{Key: one.name, Given: given, Origin: one.origin, Allowed: allowed}
}
