package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// setting is one value that somebody wrote.
type setting struct {
	name, value string
	origin      string // for messages: "server.properties:12", a variable's name, "--override"
}

// read returns the settings of all sources, later ones with precedence.
func (s Sources) read() ([]setting, []Notice, error) {
	var all []setting
	var notices []Notice
	if s.File != "" {
		fromFile, twice, err := readFile(s.File)
		if err != nil {
			return nil, nil, err
		}
		all, notices = append(all, fromFile...), append(notices, twice...)
	}
	fromEnv, envNotices := readEnv(s.Env)
	all, notices = append(all, fromEnv...), append(notices, envNotices...)
	for _, text := range s.Overrides {
		name, value, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, nil, fmt.Errorf("--override: %q given; allowed: key=value", text)
		}
		all = append(all, setting{name, value, "--override"})
	}
	return all, notices, nil
}

func readFile(path string) ([]setting, []Notice, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	entries, err := parseProperties(string(text))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	var settings []setting
	var notices []Notice
	lines := map[string]int{}
	for _, e := range entries {
		origin := fmt.Sprintf("%s:%d", filepath.Base(path), e.line)
		if first, twice := lines[e.key]; twice {
			notices = append(notices, Notice{Key: e.key, Warn: true,
				Text: fmt.Sprintf("%s is set twice in %s, in lines %d and %d; the last one counts", e.key, path, first, e.line)})
		}
		lines[e.key] = e.line
		settings = append(settings, setting{e.key, e.value, origin})
	}
	return settings, notices, nil
}

// Keys that are known by their form: those of one listener, and those that plug-ins of tiered storage read.
var (
	listenerKey = regexp.MustCompile(`^listener\.name\.[^.]+\.(.+)$`)
	pluginKey   = regexp.MustCompile(`^(rsm|rlmm)\.config\.`)
)

// resolve finds the row for a name as it may be written. The row is nil for a name that is known by its form only.
func resolve(name string) (*Key, bool) {
	if k := brokerTable.byName[name]; k != nil {
		return k, !k.Stored
	}
	return nil, formKnown(name)
}

// formKnown says that name is a known key with a listener's (and mechanism's) prefix, or a plug-in's.
func formKnown(name string) bool {
	if pluginKey.MatchString(name) {
		return true
	}
	m := listenerKey.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	if brokerTable.byName[m[1]] != nil {
		return true
	}
	_, afterMechanism, _ := strings.Cut(m[1], ".")
	return brokerTable.byName[afterMechanism] != nil
}
