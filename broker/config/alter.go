package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Op is what IncrementalAlterConfigs does to a key; the numbers are the protocol's.
type Op int8

// The operations.
const (
	Set      Op = 0
	Delete   Op = 1
	Append   Op = 2 // to a list
	Subtract Op = 3 // from a list
)

// Change is one operation on one key.
type Change struct {
	Name  string
	Op    Op
	Value *string
}

// AlterTopic returns the overrides that changes make of old (IncrementalAlterConfigs), validated; old is not modified.
// Errors carry a code: INVALID_REQUEST, INVALID_CONFIG. After Kafka's ConfigAdminManager and, for the messages, 4.4's
// ConfigurationControlManager.
func AlterTopic(s *Snapshot, old map[string]string, changes []Change) (map[string]string, error) {
	next, err := s.applyAll(topicTable, old, changes)
	if err != nil {
		return nil, err
	}
	return next, ValidateTopic(s, next)
}

// CheckTopicChanges says what is wrong with changes of a topic whatever its overrides are.
func CheckTopicChanges(s *Snapshot, changes []Change) error {
	_, err := s.applyAll(topicTable, nil, changes)
	return err
}

// CheckNoLists refuses list operations on what has no lists as far as 4.4's controller knows: groups and subscriptions to clients'
// metrics, for all that two of the latter's keys are lists.
func CheckNoLists(changes []Change) error {
	if err := wellFormed(changes); err != nil {
		return err
	}
	for _, c := range changes {
		if c.Op == Append || c.Op == Subtract {
			return errNoList(c)
		}
	}
	return nil
}

func errNoList(c Change) error {
	verb := map[Op]string{Append: "APPEND", Subtract: "SUBTRACT"}[c.Op]
	return errcode.Newf(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", verb, c.Name)
}

// ReplaceTopic returns the overrides that AlterConfigs sets: exactly these and no others.
func ReplaceTopic(s *Snapshot, values []Change) (map[string]string, error) {
	if err := wellFormed(values); err != nil {
		return nil, err
	}
	next := map[string]string{}
	for _, c := range values {
		next[c.Name] = *c.Value
	}
	return next, ValidateTopic(s, next)
}

// wellFormed refuses operations without the value that they need, and keys that are named twice.
func wellFormed(changes []Change) error {
	var nulls []string
	seen := map[string]bool{}
	twice := false
	for _, c := range changes {
		if c.Value == nil && c.Op != Delete {
			nulls = append(nulls, c.Name)
		}
		twice = twice || seen[c.Name]
		seen[c.Name] = true
	}
	switch {
	case len(nulls) > 0:
		return errcode.Newf(kerr.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ","))
	case twice:
		return errcode.New(kerr.InvalidRequest, "Error due to duplicate config keys")
	}
	return nil
}

// applyAll returns what changes make of old, which is not modified.
func (s *Snapshot) applyAll(table *scopeKeys, old map[string]string, changes []Change) (map[string]string, error) {
	if err := wellFormed(changes); err != nil {
		return nil, err
	}
	next := maps.Clone(old)
	if next == nil {
		next = map[string]string{}
	}
	for _, c := range changes {
		if err := s.apply(table, next, c); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// ErrUnknownOp refuses an operation that there is not.
func ErrUnknownOp(c Change) error {
	return errcode.Newf(kerr.InvalidRequest, "Unknown operation type %d for config key %s", c.Op, c.Name)
}

func (s *Snapshot) apply(table *scopeKeys, overrides map[string]string, c Change) error {
	switch c.Op {
	case Set:
		overrides[c.Name] = *c.Value
	case Delete:
		delete(overrides, c.Name)
	case Append, Subtract:
		return s.applyToList(table, overrides, c)
	default:
		return ErrUnknownOp(c)
	}
	return nil
}

// listed splits as Java's String.split does: blanks stay, and nothing is left of a list of commas alone, but of no text is one empty
// item, which few lists may have.
func listed(text string) []string {
	if text == "" {
		return []string{""}
	}
	items := strings.Split(text, ",")
	for len(items) > 0 && items[len(items)-1] == "" {
		items = items[:len(items)-1]
	}
	return items
}

// applyToList appends what is not there yet, or subtracts. A list without override begins as Kafka's default, not as
// the broker's.
func (s *Snapshot) applyToList(table *scopeKeys, overrides map[string]string, c Change) error {
	k := table.byName[c.Name]
	if k == nil || !k.in(s.mode) || k.typeIn(s.mode) != List {
		return errNoList(c)
	}
	list := asList(k.defaults[s.mode-1])
	if written, ok := overrides[c.Name]; ok {
		list = slices.DeleteFunc(listed(written), func(item string) bool { return item == "" })
	}
	for _, item := range listed(*c.Value) {
		has := slices.Contains(list, item)
		if c.Op == Append && !has {
			list = append(list, item)
		} else if c.Op == Subtract && has {
			list = slices.DeleteFunc(list, func(one string) bool { return one == item })
		}
	}
	overrides[c.Name] = strings.Join(list, ",")
	return nil
}
