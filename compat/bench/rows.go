//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// sample holds what one run measured, by the metric's name.
type sample map[string]float64

// metric is one figure of a row. Must and aim are ratios of gregor's median to the other's; 0 is none.
type metric struct {
	name, unit string
	higher     bool // higher is better
	must, aim  float64
	against    string // what the ratio is to; "" = kafka
	itself     bool   // must and aim are for our own figure, whatever the other's is
}

// row is a line, or more, of the table: a thing to do to a broker, and what it is judged by.
type row struct {
	name    string
	metrics []metric
	bare    bool // also measured against a program that only moves the bytes
	measure func(b *bench, t *server) (sample, error)
}

// group is a list of rows that are measured on the same brokers.
type group struct {
	name    string
	rows    []row
	measure func(b *bench, rows []row) error
	server  func(name, dir string) (*server, error) // makes what is measured
}

func (g *group) selected(only *regexp.Regexp) []row {
	var rows []row
	for _, r := range g.rows {
		if only.MatchString(r.name) {
			rows = append(rows, r)
		}
	}
	return rows
}

var groups = []group{
	{"start", startRows, measureFresh, newServer},
	{"load", loadRows, measureWarm, newServer},
	{"transactions", transactionRows, measureWarm, newServer},
	{"loading", loadingRows, measureFresh, newServer},
	{"partitions", partitionRows, measureFresh, newServer},
	{"metadata", metadataRows, measureFresh, newServer},
	{"groups", groupRows, measureFresh, newServer},
	{"cluster", clusterRows, measureWarm, newWarmCluster},
	{"cluster-faults", clusterFaultRows, measureFresh, newCluster},
	{"cluster-partitions", clusterPartitionRows, measureFresh, newObservedCluster},
}

// bench is the state of a group while it is measured.
type bench struct {
	settings *settings
	dir      string
	results  *results
	make     func(name, dir string) (*server, error)
	servers  map[string]*server
}

// Names of what is measured.
const (
	gregorName = "gregor"
	kafkaName  = "kafka"
	bareName   = "bare"
)

// order returns n times each name, in the order A B B A A B …
func order(n int, names ...string) []string {
	var list []string
	for i := range n {
		turn := slices.Clone(names)
		if i%2 == 1 {
			slices.Reverse(turn)
		}
		list = append(list, turn...)
	}
	return list
}

// server returns the group's server of that name, which need not run yet.
func (b *bench) server(name string) (*server, error) {
	if s := b.servers[name]; s != nil {
		return s, nil
	}
	s, err := b.make(name, b.dir)
	if err != nil {
		return nil, err
	}
	if name == bareName {
		if s.extra, err = writeBareFile(b); err != nil {
			return nil, err
		}
	}
	if b.servers == nil {
		b.servers = map[string]*server{}
	}
	b.servers[name] = s
	return s, nil
}

func (b *bench) stopAll() {
	for _, name := range slices.Sorted(maps.Keys(b.servers)) {
		b.servers[name].kill()
	}
	_ = os.RemoveAll(b.dir)
}

// tries is how often a run may be repeated because others used the machine.
const tries = 4

// measureRow runs a row once against the server that next gives, again when the machine was not quiet, and keeps the result.
func (b *bench) measureRow(r row, next func() (*server, error), keep bool) error {
	for try := 1; ; try++ {
		t, err := next()
		if err != nil {
			return err
		}
		syscall.Sync() // what earlier runs left to write
		profile := b.profile(r, t, keep)
		got, err := r.measure(b, t)
		if err = errors.Join(err, profile()); err != nil {
			return fmt.Errorf("%s, %s: %w", r.name, t.name, err)
		}
		noisy := got[otherCores] > b.settings.noise
		if !keep {
			return nil
		}
		if noisy && try < tries {
			b.results.thrown++
			fmt.Fprintf(os.Stderr, "%-28s %-7s thrown away: others used %.2f cores\n", r.name, t.name, got[otherCores])
			continue
		}
		b.results.add(r, t.name, got, noisy)
		var words []string
		for _, m := range r.metrics {
			if v, ok := got[m.name]; ok {
				words = append(words, fmt.Sprintf("%s %s %s", m.name, figure(v), m.unit))
			}
		}
		fmt.Fprintf(os.Stderr, "%-28s %-7s %s; others %.2f cores\n", r.name, t.name, strings.Join(words, ", "), got[otherCores])
		return nil
	}
}

// measureFresh measures each row on brokers that were started for it: the row starts and stops them itself.
func measureFresh(b *bench, rows []row) error {
	for _, r := range rows {
		for _, name := range order(b.settings.runs, b.settings.brokers...) {
			if err := b.measureAnew(r, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureAnew measures a row on a broker without data, each time that it has to be repeated too.
func (b *bench) measureAnew(r row, name string) error {
	var t *server
	end := func() error {
		if t != nil {
			t.kill()
		}
		return os.RemoveAll(b.dir)
	}
	err := b.measureRow(r, func() (s *server, err error) {
		if err = end(); err == nil {
			t, err = b.make(name, b.dir)
		}
		return t, err
	}, true)
	return errors.Join(err, end())
}

// same gives one server again and again.
func same(t *server) func() (*server, error) {
	return func() (*server, error) { return t, nil }
}

// measureWarm measures rows on one broker of each kind, after a whole unmeasured pass. Who is not measured is frozen.
func measureWarm(b *bench, rows []row) error {
	for _, name := range b.settings.brokers {
		t, err := b.server(name)
		if err != nil {
			return err
		}
		if _, err := t.start(); err != nil {
			return err
		}
		for range b.settings.passes {
			for _, r := range rows {
				fmt.Fprintf(os.Stderr, "%-28s %-7s unmeasured\n", r.name, name)
				if err := b.measureRow(r, same(t), false); err != nil {
					return err
				}
			}
		}
		if err := t.freeze(); err != nil {
			return err
		}
	}
	for _, r := range rows {
		names := slices.Clone(b.settings.brokers)
		if r.bare {
			names = append(names, bareName)
		}
		for _, name := range order(b.settings.runs, names...) {
			t, err := b.server(name)
			if err != nil {
				return err
			}
			if err := t.thaw(); err != nil {
				return err
			}
			if err := b.measureRow(r, same(t), true); err != nil {
				return err
			}
			if err := t.freeze(); err != nil {
				return err
			}
		}
	}
	return nil
}
