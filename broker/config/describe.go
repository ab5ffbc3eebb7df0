package config

import (
	"maps"
	"slices"
)

// Source says where a described value comes from; the numbers are DescribeConfigs' own.
type Source int8

// The sources of a value.
const (
	SourceUnknown              Source = 0
	SourceTopic                Source = 1
	SourceDynamicBroker        Source = 2
	SourceDynamicDefaultBroker Source = 3
	SourceStaticBroker         Source = 4
	SourceDefault              Source = 5
	SourceBrokerLogger         Source = 6
	SourceClientMetrics        Source = 7
)

// Synonym is a place that a described value could come from.
type Synonym struct {
	Name   string
	Value  *string // nil if sensitive
	Source Source
}

// Row is one key as DescribeConfigs shows it.
type Row struct {
	Name      string
	Value     *string // nil if unset or sensitive
	Source    Source
	Synonyms  []Synonym // most important first; the first is where Value comes from
	ReadOnly  bool
	Sensitive bool
	Type      Type // Unknown for a key that is no key
	Doc       string
}

// Type is the type of a key's value; the numbers are DescribeConfigs' own.
type Type int8

// The types of values.
const (
	Unknown  Type = 0
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// DescribeBroker returns the rows of the broker, by name: all, or (names not nil) those named; unknown names are left
// out. After Kafka's ConfigHelper: keys that the file sets are shown even if nothing knows them, but not their values.
func DescribeBroker(s *Snapshot, names []string) []Row {
	var rows []Row
	for i := range brokerTable.keys {
		k := &brokerTable.keys[i]
		if !wanted(names, k.Name) {
			continue
		}
		_, static := s.static[k.Name]
		set := len(s.layersOf(k)) > 0
		switch {
		case k.in(s.mode) && (set && k.Stored || !k.Stored && !k.internalIn(s.mode)):
			rows = append(rows, s.brokerRow(k))
		case static && k.Ours:
			rows = append(rows, s.brokerRow(k))
		case static:
			rows = append(rows, unknownRow(k.Name))
		}
	}
	for _, name := range s.prefixed() {
		if wanted(names, name) {
			rows = append(rows, s.prefixedRow(name))
		}
	}
	for name := range s.static {
		if keyOf(name) == nil && wanted(names, name) {
			rows = append(rows, unknownRow(name))
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return compareStrings(a.Name, b.Name) })
	return rows
}

func wanted(names []string, name string) bool { return names == nil || slices.Contains(names, name) }

func unknownRow(name string) Row {
	return Row{Name: name, Source: SourceStaticBroker, ReadOnly: true, Sensitive: true,
		Synonyms: []Synonym{{Name: name, Source: SourceStaticBroker}}}
}

// DescribeDefaults returns the rows of the dynamic configuration of all brokers (the resource without a name), also of what
// has no effect on this one. The value of a key that is not known here is not shown: it may be a secret.
func DescribeDefaults(s *Snapshot, names []string) []Row {
	var rows []Row
	for _, name := range slices.Sorted(maps.Keys(s.stored)) {
		if !wanted(names, name) {
			continue
		}
		row := Row{Name: name, ReadOnly: true, Sensitive: true}
		if k := brokerTable.byName[name]; k != nil {
			row = s.brokerRow(k)
			row.Value = shown(k, s.stored[name])
		} else if prefixedKey(name) != nil {
			row = s.prefixedRow(name)
			row.Value = pointer(s.stored[name])
		}
		row.Source = SourceDynamicDefaultBroker
		row.Synonyms = []Synonym{{Name: name, Value: row.Value, Source: SourceDynamicDefaultBroker}}
		rows = append(rows, row)
	}
	return rows
}

func (s *Snapshot) brokerRow(k *Key) Row {
	row := Row{Name: k.Name, Type: k.typeIn(s.mode), Sensitive: k.sensitive(), ReadOnly: k.fixed(s.mode), Doc: k.Doc}
	if v := s.values[k.index]; v != nil && !row.Sensitive {
		row.Value = pointer(format(v))
	}
	row.Synonyms = s.synonymsOf(k)
	row.Source = firstSource(row.Synonyms)
	return row
}

// fixed says that a request to change the key is refused: by Kafka, or by us who could only pretend to.
func (k *Key) fixed(mode Version) bool {
	return k.readOnlyIn(mode) || k.AtStart != "" || k.unchangeable()
}

func pointer(s string) *string { return &s }

func firstSource(list []Synonym) Source {
	if len(list) == 0 {
		return SourceDefault
	}
	return list[0].Source
}

// synonymsOf lists where the value of a broker key could come from: layer by layer, in each the key and then its
// synonyms. What comes before the first mention of the key itself is left out; that is why a key that is unset has
// none, even if a synonym gives its value. Both are as in Kafka's ConfigHelper.configSynonyms.
func (s *Snapshot) synonymsOf(k *Key) []Synonym {
	var list []Synonym
	keys := append([]*Key{k}, k.synonyms...)
	for _, source := range []Source{SourceDynamicBroker, SourceDynamicDefaultBroker, SourceStaticBroker, SourceDefault} {
		for _, one := range keys {
			if value, ok := s.written(one, source); ok {
				list = append(list, Synonym{Name: one.Name, Value: shown(one, value), Source: source})
			}
		}
	}
	first := slices.IndexFunc(list, func(y Synonym) bool { return y.Name == k.Name })
	if first < 0 {
		return nil
	}
	return list[first:]
}

func shown(k *Key, value string) *string {
	if k.sensitive() {
		return nil
	}
	return &value
}

// written is what a layer says about a key.
func (s *Snapshot) written(k *Key, source Source) (string, bool) {
	if source == SourceDefault {
		v := k.defaults[s.mode-1]
		return format(v), v != nil && !k.Stored
	}
	for _, l := range s.layersOf(k) {
		if l.source == source {
			return l.value, true
		}
	}
	return "", false
}

// DescribeTopic returns the rows of a topic with these overrides, by name: all, or (names not nil) those named.
func DescribeTopic(s *Snapshot, overrides map[string]string, names []string) []Row {
	var rows []Row
	for i := range topicTable.keys {
		k := &topicTable.keys[i]
		_, set := overrides[k.Name]
		if k.in(s.mode) && (set || !k.internalIn(s.mode)) && wanted(names, k.Name) {
			rows = append(rows, s.topicRow(k, overrides))
		}
	}
	return rows
}

func (s *Snapshot) topicRow(k *Key, overrides map[string]string) Row {
	row := Row{Name: k.Name, Type: k.typeIn(s.mode), Doc: k.Doc}
	value, own := s.topicValue(k, overrides)
	if value != nil {
		row.Value = pointer(format(value))
	}
	if own {
		row.Synonyms = append(row.Synonyms, Synonym{Name: k.Name, Value: row.Value, Source: SourceTopic})
	}
	if len(k.synonyms) > 0 {
		row.Synonyms = append(row.Synonyms, s.synonymsOf(k.synonyms[0])...)
	}
	row.Source = firstSource(row.Synonyms)
	return row
}
