//go:build linux

// Command bench measures gregor beside Apache Kafka 4.4.0 (KRaft, its defaults) on this machine and prints ratios; rows that begin
// with "cluster" measure three brokers on a ZooKeeper beside three of Apache Kafka 3.9.2.
//
// Rules, since machines drift: both get the same bytes from the same client; both run one whole unmeasured pass first, in
// which the JVM compiles; runs alternate in the order A B B A; the broker that is not measured is stopped by a signal
// meanwhile, so that it uses nothing; what neither broker nor client used is measured too, and a run with much of it is
// thrown away and repeated. CPU comes first, as broker and client share the cores. All that a produce run wrote is read back
// and compared, and kafka-dump-log looks at it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/gregor-broker/gregor/compat/harness"
)

// settings are the flags.
type settings struct {
	runs      int
	only      *regexp.Regexp
	scratch   string
	jsonPath  string
	scale     float64 // of bytes and durations
	noise     float64 // cores that others may use in a run
	noDumpLog bool
	brokers   []string
	passes    int // unmeasured ones
	profiles  string
}

// clientGC keeps this process, which measures latencies, from collecting its garbage a hundred times a second.
const clientGC = 1000

func main() {
	if len(os.Args) > 1 && os.Args[1] == bareCommand {
		exitOn(bareMain(os.Args[2:]))
		return
	}
	if len(os.Args) > 2 && os.Args[1] == beatCommand {
		exitOn(beatMain(os.Args[2:]))
		return
	}
	var s settings
	only := flag.String("rows", "", "measure only the rows whose names match this regular expression")
	list := flag.Bool("list", false, "print the names of the rows")
	flag.IntVar(&s.runs, "runs", 3, "measured runs of each row for each broker")
	flag.StringVar(&s.scratch, "scratch", os.TempDir(), "folder for the brokers' data, on a real disk with 20 GB free")
	flag.StringVar(&s.jsonPath, "json", "", "write every run to this file as JSON")
	flag.Float64Var(&s.scale, "scale", 1, "multiply bytes and durations by this; below 1 for a quick look")
	flag.Float64Var(&s.noise, "noise", 0.3, "repeat a run in which others used more than this many cores")
	flag.BoolVar(&s.noDumpLog, "no-dump-log", false, "leave kafka-dump-log out of the checks")
	flag.IntVar(&s.passes, "passes", 1, "whole unmeasured passes of the rows that run on warm brokers")
	flag.StringVar(&s.profiles, "profiles", "", "folder to write a CPU profile of gregor to for each of its runs, which costs it a little")
	brokers := flag.String("brokers", gregorName+","+kafkaName, "measure only these, without ratios where one is left out")
	flag.Parse()
	if *list {
		for _, g := range groups {
			for _, r := range g.rows {
				fmt.Println(r.name)
			}
		}
		return
	}
	debug.SetGCPercent(clientGC)
	s.only = regexp.MustCompile(*only)
	s.brokers = strings.Split(*brokers, ",")
	exitOn(run(&s))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures all selected rows and prints the table.
func run(s *settings) error {
	if _, err := os.Stat(harness.Binary()); err != nil {
		return fmt.Errorf("%w (make build)", err)
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "gregor-bench.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another bench runs on this machine (%s): %w", lock.Name(), err)
	}
	dir, err := os.MkdirTemp(s.scratch, "gregor-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	results := &results{}
	var failed error
	for _, g := range groups {
		rows := g.selected(s.only)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s\n", g.name)
		b := &bench{settings: s, dir: filepath.Join(dir, g.name), results: results, make: profiled(s, g.server)}
		if err := g.measure(b, rows); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", g.name, err))
		}
		b.stopAll()
	}
	results.print(os.Stdout)
	if s.jsonPath != "" {
		text, err := json.MarshalIndent(results.runs, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.jsonPath, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return failed
}
