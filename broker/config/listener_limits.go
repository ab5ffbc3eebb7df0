package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// listenerLimit is the form of the limits of one listener, which Kafka takes under its prefix. The name of the listener is in
// lower case in it.
var listenerLimit = regexp.MustCompile(`^listener\.name\.([^.]+)\.(max\.connections|max\.connection\.creation\.rate)$`)

// ListenerLimits are the limits of a listener of its own, beside those of the whole broker.
type ListenerLimits struct {
	MaxConnections int     // at a time; 0: no limit, < 0: none
	CreationRate   float64 // per second; 0: no limit
}

// ListenerLimits returns the limits of the listeners that have any, by name in lower case.
func (s *Snapshot) ListenerLimits() map[string]ListenerLimits {
	limits := map[string]ListenerLimits{}
	for _, name := range s.prefixed() {
		m := listenerLimit.FindStringSubmatch(name)
		n, _ := s.prefixedValue(name).(int64)
		l := limits[m[1]]
		if m[2] == MaxConnections.Name() {
			l.MaxConnections = NoneIfZero(int(n))
		} else {
			l.CreationRate = float64(n)
		}
		limits[m[1]] = l
	}
	return limits
}

// NoneIfZero is a limit of Kafka's, where 0 lets nobody in, as ours, where it is no limit.
func NoneIfZero(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}

// prefixed lists the limits of single listeners that are set in any layer.
func (s *Snapshot) prefixed() []string {
	names := map[string]bool{}
	for _, layer := range []map[string]string{s.dynBroker, s.dynDefault} {
		for name := range layer {
			names[name] = listenerLimit.MatchString(name)
		}
	}
	for name := range s.static {
		names[name] = names[name] || listenerLimit.MatchString(name)
	}
	maps.DeleteFunc(names, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(names))
}

// prefixedKey is the row that a name is about that has a listener's prefix and is honoured with it, else nil.
func prefixedKey(name string) *Key {
	if m := listenerLimit.FindStringSubmatch(name); m != nil {
		return brokerTable.byName[m[2]]
	}
	return nil
}

// hasListener says whether a setting of one listener is about one of this broker's.
func (s *Snapshot) hasListener(setting string) bool {
	m := listenerLimit.FindStringSubmatch(setting)
	return m != nil && slices.ContainsFunc(s.listeners, func(l Listener) bool { return strings.EqualFold(l.Name, m[1]) })
}

// keyOf is the row of a name, with a listener's prefix or without.
func keyOf(name string) *Key {
	if k := brokerTable.byName[name]; k != nil {
		return k
	}
	return prefixedKey(name)
}

func (s *Snapshot) prefixedValue(name string) parsed {
	k := prefixedKey(name)
	for _, y := range s.prefixedSynonyms(name) {
		if v, problem := k.parse(s.mode, *y.Value); problem == nil {
			return v
		}
	}
	return nil
}

// prefixedSynonyms lists the layers in which a listener's limit is set.
func (s *Snapshot) prefixedSynonyms(name string) (list []Synonym) {
	add := func(value string, set bool, source Source) {
		if set {
			list = append(list, Synonym{Name: name, Value: &value, Source: source})
		}
	}
	one, set := s.dynBroker[name]
	add(one, set, SourceDynamicBroker)
	all, set := s.dynDefault[name]
	add(all, set, SourceDynamicDefaultBroker)
	file, set := s.static[name]
	add(strings.TrimSpace(file.value), set, SourceStaticBroker)
	return list
}

// prefixedRow describes a listener's limit.
func (s *Snapshot) prefixedRow(name string) Row {
	k, list := prefixedKey(name), s.prefixedSynonyms(name)
	row := Row{Name: name, Type: k.typeIn(s.mode), Doc: k.Doc, Synonyms: list, Source: firstSource(list)}
	if v := s.prefixedValue(name); v != nil {
		row.Value = pointer(format(v))
	}
	return row
}
