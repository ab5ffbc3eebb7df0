package config

import "slices"

// Key is one row of the table: everything that is to be known about a configuration key.
type Key struct {
	Name     string
	In       Version   // the versions of Kafka that have it; 0 means both
	Type     Type      //
	Default  string    // as it would be written; none: no value. Kafka 4.4's where the two differ
	Valid    Valid     // what values of the type are allowed; zero: all
	Update   Update    // whether Kafka changes it while the broker runs (broker keys); zero: no
	AtStart  string    // why it changes only at the start here, although Update says otherwise
	Ours     bool      // no version of Kafka has it
	Stored   bool      // exists in the metadata store only: no file, no default that is described
	Internal bool      // not described unless it is set
	In39     Differs   // where Kafka 3.9 differs
	Embedded string    // our own default without ZooKeeper, in place of Kafka 4.4's; "": Kafka's
	Synonyms []string  // broker keys that give the value when it is not set itself, in order of precedence
	Standing Standing  // what gregor does with it
	Why      string    // why it is Accepted or Refused
	Allow    []string  // the values of a Refused key that are understood
	Always   bool      // honoured in both modes although only one version of Kafka has it
	Doc      string    // one sentence
	index    int       // in the table
	scope    Scope     //
	synonyms []*Key    // Synonyms, looked up
	defaults [2]parsed // per mode, parsed
}

// Differs is what Kafka 3.9 has otherwise than 4.4; zero fields do not differ.
type Differs struct {
	Type     Type
	Default  string // blank: the empty string
	Valid    Valid  // anything: no restriction
	Update   Update
	Internal bool
}

// parsed is a value in its Go type: nil, bool, int64, float64, string, or []string.
type parsed = any

const (
	none  = "\x00none"  // a default: there is no value
	blank = "\x00blank" // a default that differs: the empty string
)

// Version is a version of Kafka whose defaults and keys a broker has, or a set of them.
type Version uint8

// The versions.
const (
	Kafka39 Version = 1 << iota // a broker on ZooKeeper
	Kafka44                     // a broker with embedded metadata
)

// Update says when a broker key can change.
type Update uint8

// When a key can change.
const (
	ReadOnly    Update = iota + 1 // at the start only
	PerBroker                     // for each broker while it runs
	ClusterWide                   // for each broker or for all of them
)

// Standing says what gregor does with a key.
type Standing uint8

// The standings.
const (
	Honoured  Standing = iota
	Accepted           // without effect
	Clustered          // honoured on ZooKeeper, without effect on a broker that is alone
	Extended           // honoured on a broker that is alone, and on ZooKeeper while gregor.extensions is on
	Refused            // but for the values in Allow
)

// Scope says what a key configures.
type Scope uint8

// The scopes.
const (
	ScopeBroker Scope = iota
	ScopeTopic
	ScopeGroup
	ScopeClientMetrics
	ScopeQuota
)

// scopeKeys is a scope's part of the table.
type scopeKeys struct {
	keys   []Key
	byName map[string]*Key
}

// The table, by scope. Filled when the program starts and constant from then on.
var (
	brokerTable = newScope(ScopeBroker, nil, serverKeys, logKeys, replicationKeys, groupKeys, transactionKeys, shareKeys,
		streamsKeys, kraftKeys, zookeeperKeys, tieredKeys, securityKeys)
	topicTable         = newScope(ScopeTopic, brokerTable, topicRows)
	groupTable         = newScope(ScopeGroup, brokerTable, groupRows)
	clientMetricsTable = newScope(ScopeClientMetrics, brokerTable, clientMetricsRows)
	clientQuotaTable   = newScope(ScopeQuota, brokerTable, clientQuotaRows)
	ipQuotaTable       = newScope(ScopeQuota, brokerTable, ipQuotaRows)
)

// newScope joins rows, sorted by name. It panics for rows that contradict themselves; the tests run it.
func newScope(scope Scope, brokers *scopeKeys, rows ...[]Key) *scopeKeys {
	t := &scopeKeys{keys: slices.Concat(rows...), byName: map[string]*Key{}}
	slices.SortFunc(t.keys, func(a, b Key) int { return compareStrings(a.Name, b.Name) })
	if brokers == nil {
		brokers = t
	}
	for i := range t.keys {
		k := &t.keys[i]
		k.index, k.scope = i, scope
		t.byName[k.Name] = k
	}
	for i := range t.keys {
		k := &t.keys[i]
		for _, name := range k.Synonyms {
			k.synonyms = append(k.synonyms, brokers.byName[name])
		}
		for _, mode := range []Version{Kafka39, Kafka44} {
			k.defaults[mode-1] = k.mustParse(mode, k.defaultOf(mode))
		}
	}
	return t
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (k *Key) mustParse(mode Version, written string) parsed {
	if written == none {
		return nil
	}
	v, problem := k.parse(mode, written)
	if problem != nil {
		panic("config: default of " + k.Name + ": " + problem.kafka)
	}
	return v
}

// in says whether the version of Kafka whose mode this is has the key.
func (k *Key) in(mode Version) bool { return k.In == 0 || k.In&mode != 0 }

func (k *Key) typeIn(mode Version) Type {
	if mode == Kafka39 && k.In39.Type != 0 {
		return k.In39.Type
	}
	return k.Type
}

func (k *Key) validIn(mode Version) Valid {
	if mode == Kafka39 && k.In39.Valid.set() {
		return k.In39.Valid
	}
	return k.Valid
}

func (k *Key) internalIn(mode Version) bool {
	return k.Internal || mode == Kafka39 && k.In39.Internal
}

// updateIn says when Kafka changes the key.
func (k *Key) updateIn(mode Version) Update {
	if mode == Kafka39 && k.In39.Update != 0 {
		return k.In39.Update
	}
	return max(k.Update, ReadOnly)
}

func (k *Key) readOnlyIn(mode Version) bool { return k.updateIn(mode) == ReadOnly }

// kafkaDefault is the default of the Kafka whose mode this is, as written, or none.
func (k *Key) kafkaDefault(mode Version) string {
	if mode == Kafka39 {
		switch k.In39.Default {
		case "":
		case blank:
			return ""
		default:
			return k.In39.Default
		}
	}
	return k.Default
}

// defaultOf is our default in a mode, as written, or none.
func (k *Key) defaultOf(mode Version) string {
	if mode == Kafka44 && k.Embedded != "" {
		return k.Embedded
	}
	return k.kafkaDefault(mode)
}

func (k *Key) sensitive() bool { return k.Type == Password }
