package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Live is the configuration that holds now. It is read from any goroutine, once for what must fit together; only its
// owner replaces it (broker.dynamicConfig).
type Live struct{ now atomic.Pointer[Snapshot] }

// NewLive returns a Live that begins with s.
func NewLive(s *Snapshot) *Live {
	l := &Live{}
	l.Set(s)
	return l
}

// Now returns the configuration of this moment.
func (l *Live) Now() *Snapshot { return l.now.Load() }

// Set replaces the configuration. For its owner.
func (l *Live) Set(s *Snapshot) { l.now.Store(s) }

// WithDynamic returns the configuration with other dynamic layers: forAll for every broker, forOne for this one. What
// cannot be changed while a broker runs, or is not allowed, is left out and told, as Kafka does with what it finds
// stored. An error means that the values do not go together.
func (s *Snapshot) WithDynamic(forAll, forOne map[string]string) (*Snapshot, []Notice, error) {
	next := *s
	var notices, more []Notice
	next.stored = forAll
	next.dynDefault, notices = s.usable(forAll, false)
	next.dynBroker, more = s.usable(forOne, true)
	next.values = next.effective()
	return &next, append(notices, more...), next.checkDynamic()
}

func (s *Snapshot) usable(layer map[string]string, perBroker bool) (map[string]string, []Notice) {
	kept := map[string]string{}
	var notices []Notice
	for _, name := range slices.Sorted(maps.Keys(layer)) {
		if reason := s.unusable(name, layer[name], perBroker); reason != "" {
			notices = append(notices, Notice{Key: name, Text: "the dynamic value of " + name + " is ignored: " + reason, Warn: true})
			continue
		}
		kept[name] = layer[name]
	}
	return kept, notices
}

// unusable says why a stored value has no effect here; "" when it has.
func (s *Snapshot) unusable(name, value string, perBroker bool) string {
	k := keyOf(name)
	switch {
	case k == nil:
		return "it is no known key"
	case k.readOnlyIn(s.mode):
		return "it changes only at the start"
	case k.AtStart != "":
		return k.AtStart
	case k.updateIn(s.mode) == PerBroker && !perBroker:
		return "it cannot be the same for all brokers"
	}
	if _, problem := k.parse(s.mode, value); problem != nil {
		return problem.message(name)
	}
	return ""
}

// AlterBroker returns the dynamic configuration that changes make of old (IncrementalAlterConfigs): of this broker
// (perBroker), or the one that all have; old is not modified. What Kafka does not let one change is refused with its
// words, and what has no effect here with ours. What is stored already, by another kind of broker perhaps, may stay.
// Errors carry INVALID_REQUEST, or INVALID_CONFIG for a list operation on something else. After ConfigAdminManager and
// DynamicBrokerConfig.
func AlterBroker(s *Snapshot, perBroker bool, old map[string]string, changes []Change) (map[string]string, error) {
	next, err := s.applyAll(brokerTable, old, changes)
	if err != nil {
		return nil, err
	}
	return next, s.checkAltered(perBroker, old, next)
}

// ReplaceBroker returns the dynamic configuration that AlterConfigs sets: exactly these values and no others.
func ReplaceBroker(s *Snapshot, perBroker bool, old map[string]string, values []Change) (map[string]string, error) {
	if err := wellFormed(values); err != nil {
		return nil, err
	}
	next := map[string]string{}
	for _, c := range values {
		next[c.Name] = *c.Value
	}
	return next, s.checkAltered(perBroker, old, next)
}

// checkAltered judges what is new in next.
func (s *Snapshot) checkAltered(perBroker bool, old, next map[string]string) error {
	var news []string
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if was, had := old[name]; !had || was != next[name] {
			news = append(news, name)
		}
	}
	for _, rule := range []func(names []string, perBroker bool) error{s.checkDynamicNames, s.checkLevel, s.checkHonoured} {
		if err := rule(news, perBroker); err != nil {
			return err
		}
	}
	for _, name := range news {
		k := keyOf(name)
		if k == nil {
			continue
		}
		v, problem := k.parse(s.mode, next[name])
		if problem != nil {
			return errcode.New(kerr.InvalidRequest, problem.message(name))
		}
		if err := s.checkStep(name, k, v); err != nil {
			return err
		}
	}
	return s.checkTogether(perBroker, next)
}

// reconfigurable are the keys of certificates that change while a broker runs, each for one listener only
// (SslConfigs.RECONFIGURABLE_CONFIGS).
var reconfigurable = []string{
	"ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type",
	"ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
}

// checkDynamicNames refuses what Kafka refuses whatever its value is.
func (s *Snapshot) checkDynamicNames(names []string, _ bool) error {
	var fixed, secure []string
	for _, name := range names {
		k := keyOf(name)
		switch {
		case k == nil:
		case k.readOnlyIn(s.mode):
			fixed = append(fixed, name)
		case slices.Contains(reconfigurable, name):
			secure = append(secure, name)
		}
	}
	switch {
	case len(fixed) > 0:
		return errcode.New(kerr.InvalidRequest, "Cannot update these configs dynamically: "+s.setOf("Set", fixed))
	case len(secure) > 0:
		return errcode.New(kerr.InvalidRequest, "These security configs can be dynamically updated only per-listener using the listener prefix: "+
			s.setOf("HashSet", secure))
	}
	return nil
}

// checkLevel refuses for all brokers what each has to have of its own.
func (s *Snapshot) checkLevel(names []string, perBroker bool) error {
	var single []string
	for _, name := range names {
		k := keyOf(name)
		if !perBroker && (k == nil && ofOneListener.MatchString(name) || k != nil && k.updateIn(s.mode) == PerBroker) {
			single = append(single, name)
		}
	}
	if len(single) == 0 {
		return nil
	}
	return errcode.New(kerr.InvalidRequest, "Cannot update these configs at default cluster level, broker id must be specified: "+s.setOf("Set", single))
}

// setOf writes names as Scala prints a set of some class, or as Java does.
func (s *Snapshot) setOf(class string, names []string) string {
	if s.mode == Kafka39 {
		return class + "(" + strings.Join(names, ", ") + ")"
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// checkHonoured refuses what Kafka takes and we could only pretend to.
func (s *Snapshot) checkHonoured(names []string, _ bool) error {
	for _, name := range names {
		k := keyOf(name)
		switch {
		case k == nil: // Kafka keeps it for a plugin that may know it; here it is logged that nothing reads it
		case k.AtStart != "":
			return errcode.Newf(kerr.InvalidRequest, "%s cannot be changed while the broker runs: %s", name, k.AtStart)
		case k.unchangeable():
			return errcode.Newf(kerr.InvalidRequest, "%s is not changed, since it would have no effect: %s", name, k.Why)
		}
	}
	return nil
}

// unchangeable says that changing the key would have no effect. The throttle of moves between directories is the exception:
// the tools set and clear it with the others, and as long as nothing is moved it is kept to.
func (k *Key) unchangeable() bool {
	return k.Standing == Refused || k.Standing == Accepted && !k.Stored
}

// ofOneListener is the form of a setting of one listener. Only the limits that keyOf knows, and the number of processors, may be the
// same for all brokers.
var ofOneListener = regexp.MustCompile(`^listener\.name\.[^.]*\..+$`)

// resizable are the numbers of workers, which change by half or to the double at a time (DynamicThreadPool).
var resizable = []string{"num.io.threads", "num.replica.fetchers"}

// checkStep judges the step from the value of now to the next one. A limit that lets nobody in is for the file only, or for a listener
// that there is not.
func (s *Snapshot) checkStep(name string, k *Key, v parsed) error {
	switch {
	case name != k.Name && !s.hasListener(name):
		return nil
	case k.Name == MaxConnections.Name() || k.Name == ConnectionCreationRate.Name():
		if limit, _ := v.(int64); limit <= 0 {
			return errcode.Newf(kerr.InvalidRequest, "Invalid %s %d", k.Name, limit)
		}
		return nil
	case !slices.Contains(resizable, k.Name):
		return nil
	}
	now, next := s.value(k.Name).(int64), v.(int64)
	reason := ""
	switch {
	case next <= 0:
		return errcode.Newf(kerr.InvalidRequest, "Dynamic thread count update validation failed for %s=%d, value should be at least 1", k.Name, next)
	case next < now/2:
		reason = "be at least half the current value"
	case next > now*2:
		reason = "not be greater than double the current value"
	default:
		return nil
	}
	return errcode.Newf(kerr.InvalidRequest, "Dynamic thread count update validation failed for %s=%d, value should %s %d", k.Name, next, reason, now)
}

// checkTogether tries the new layer beside the other one.
func (s *Snapshot) checkTogether(perBroker bool, layer map[string]string) error {
	forAll, forOne := layer, s.dynBroker
	if perBroker {
		forAll, forOne = s.stored, layer
	}
	if _, _, err := s.WithDynamic(forAll, forOne); err != nil {
		return errcode.New(kerr.InvalidRequest, err.Error())
	}
	return nil
}
