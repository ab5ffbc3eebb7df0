// Package config owns the broker's configuration: the one table of every key that Apache Kafka 3.9 (in ZooKeeper mode)
// and 4.4 know, the layers that a value can come from, and what is derived from the values (listeners, the
// configuration of a topic's log, the rows of DescribeConfigs, the documentation).
//
// Nothing else in the project spells a key: others use the handles (handles.go).
package config

// Sources says where values come from, besides the defaults. Later ones win: File, Env, Overrides.
type Sources struct {
	File      string   // path of a server.properties, or ""
	Env       []string // as os.Environ gives it
	Overrides []string // "key=value"
}

// Notice is something about the configuration that its writer should know but that does not stop the start.
type Notice struct {
	Key  string // as it was written
	Text string // one line that names the key
	Warn bool   // needs a look: an unknown key, a value that cannot have the effect it was meant to have
}

// Load reads the sources and returns the configuration with what there is to say about it. The error is one line that
// says which key is wrong, what was given and what is allowed.
func Load(s Sources) (*Snapshot, []Notice, error) { panic("being written") }

// Snapshot is one immutable configuration. Safe for concurrent use.
type Snapshot struct{}

// Embedded says that the broker keeps its metadata itself (zookeeper.connect is unset): then the defaults are those of
// Kafka 4.4, otherwise of 3.9.
func (s *Snapshot) Embedded() bool { panic("being written") }

// BrokerID returns the broker's id and whether the configuration names one.
func (s *Snapshot) BrokerID() (id int32, set bool) { panic("being written") }

// LogDirs returns the data directories, as written.
func (s *Snapshot) LogDirs() []string { panic("being written") }

// Listener is a socket that the broker listens on and what it tells clients about it.
type Listener struct {
	Name           string // as in listeners, upper case
	Host           string // "" = every address
	Port           int    // 0 = any free port
	Protocol       string // PLAINTEXT
	AdvertisedHost string // "" = the local address of the client's own connection
	AdvertisedPort int    // 0 = the bound port
}

// Listeners returns the listeners to bind.
func (s *Snapshot) Listeners() []Listener { panic("being written") }

// InterBrokerListener returns the name of the listener that other brokers are told.
func (s *Snapshot) InterBrokerListener() string { panic("being written") }

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
	Type      Type
	Doc       string
}

// Type is the type of a key's value; the numbers are DescribeConfigs' own.
type Type int8

// The types of values.
const (
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

// DescribeBroker returns the rows of the broker, by name: all, or those named (unknown names are left out).
func DescribeBroker(s *Snapshot, names []string) []Row { panic("being written") }

// DescribeTopic returns the rows of a topic with these overrides, by name: all, or those named.
func DescribeTopic(s *Snapshot, overrides map[string]string, names []string) []Row {
	panic("being written")
}

// ValidateTopic returns nil or an error with code INVALID_CONFIG and Kafka's message.
func ValidateTopic(s *Snapshot, overrides map[string]string) error { panic("being written") }

// Op is what IncrementalAlterConfigs does to a key; the numbers are the protocol's.
type Op int8

// The operations.
const (
	Set      Op = 0
	Delete   Op = 1
	Append   Op = 2
	Subtract Op = 3
)

// Change is one operation on one key.
type Change struct {
	Name  string
	Op    Op
	Value *string
}

// AlterTopic returns the overrides that changes make of old (IncrementalAlterConfigs), validated; old is not modified.
// Errors carry a code: INVALID_REQUEST, INVALID_CONFIG.
func AlterTopic(s *Snapshot, old map[string]string, changes []Change) (map[string]string, error) {
	panic("being written")
}

// ReplaceTopic returns the overrides that AlterConfigs sets: exactly these and no others.
func ReplaceTopic(s *Snapshot, values []Change) (map[string]string, error) { panic("being written") }
