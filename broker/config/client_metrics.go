package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ClientMetrics is a subscription to clients' metrics (KIP-714).
type ClientMetrics struct {
	Metrics  []string      // prefixes of names; "*" is all
	Interval time.Duration // between a client's pushes
	// Match says which clients it is for: each pattern must match the whole of what the parameter is for a client. None: all.
	Match map[string]*regexp.Regexp
}

// matchParameters are what a pattern can be for, after Kafka's ClientMetricsConfigs.
var matchParameters = []string{
	"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
}

// ParseClientMetrics reads a subscription. Errors: INVALID_REQUEST, INVALID_CONFIG.
func ParseClientMetrics(s *Snapshot, values map[string]string) (ClientMetrics, error) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if clientMetricsTable.byName[name] == nil {
			return ClientMetrics{}, errcode.Newf(kerr.InvalidRequest, "Unknown client metrics configuration: %s", name)
		}
	}
	parsed := map[string]parsed{}
	for i := range clientMetricsTable.keys {
		k := &clientMetricsTable.keys[i]
		parsed[k.Name] = k.defaults[s.mode-1]
		if written, ok := values[k.Name]; ok {
			v, problem := k.parse(s.mode, written)
			if problem != nil {
				return ClientMetrics{}, errcode.New(kerr.InvalidConfig, problem.message(k.Name))
			}
			parsed[k.Name] = v
		}
	}
	interval, _ := parsed["interval.ms"].(int64)
	if interval < 100 || interval > 3600000 {
		return ClientMetrics{}, errcode.Newf(kerr.InvalidRequest,
			"Invalid value %d for interval.ms, interval must be between 100 and 3600000 (1 hour)", interval)
	}
	match, err := parseMatch(asList(parsed["match"]))
	return ClientMetrics{asList(parsed["metrics"]), time.Duration(interval) * time.Millisecond, match}, err
}

func parseMatch(patterns []string) (map[string]*regexp.Regexp, error) {
	match := map[string]*regexp.Regexp{}
	for _, p := range patterns {
		parameter, pattern, ok := strings.Cut(p, "=")
		parameter = strings.TrimSpace(parameter)
		re, err := regexp.Compile(`\A(?:` + strings.TrimSpace(pattern) + `)\z`)
		if !ok || pattern == "" || strings.Contains(pattern, "=") || err != nil || !slices.Contains(matchParameters, parameter) {
			return nil, errcode.Newf(kerr.InvalidConfig, "Illegal client matching pattern: %s", p)
		}
		match[parameter] = re
	}
	return match, nil
}

// AlterClientMetrics returns what changes make of a subscription (IncrementalAlterConfigs), validated; old is not modified.
func AlterClientMetrics(s *Snapshot, old map[string]string, changes []Change) (map[string]string, error) {
	next, err := s.applyAll(clientMetricsTable, old, changes)
	if err != nil {
		return nil, err
	}
	_, err = ParseClientMetrics(s, next)
	return next, err
}

// ReplaceClientMetrics returns the subscription that AlterConfigs sets.
func ReplaceClientMetrics(s *Snapshot, values []Change) (map[string]string, error) {
	return AlterClientMetrics(s, nil, values)
}

// DescribeClientMetrics returns the rows of a subscription, by name: all, or (names not nil) those named.
func DescribeClientMetrics(s *Snapshot, values map[string]string, names []string) []Row {
	var rows []Row
	for i := range clientMetricsTable.keys {
		k := &clientMetricsTable.keys[i]
		if !wanted(names, k.Name) {
			continue
		}
		row := Row{Name: k.Name, Type: k.typeIn(s.mode), Doc: k.Doc, Source: SourceDefault, Value: pointer(format(k.defaults[s.mode-1]))}
		if written, ok := values[k.Name]; ok {
			row.Value, row.Source = &written, SourceClientMetrics
			row.Synonyms = []Synonym{{Name: k.Name, Value: &written, Source: SourceClientMetrics}}
		}
		rows = append(rows, row)
	}
	return rows
}
