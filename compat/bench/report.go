//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// runResult is one measured run, as it stands in the JSON file.
type runResult struct {
	Row    string `json:"row"`
	Broker string `json:"broker"`
	Noisy  bool   `json:"noisy,omitempty"` // others used the machine in every try
	Values sample `json:"values"`
}

// results collects runs.
type results struct {
	rows   []row
	runs   []runResult
	thrown int
}

func (rs *results) add(r row, broker string, values sample, noisy bool) {
	if !slices.ContainsFunc(rs.rows, func(known row) bool { return known.name == r.name }) {
		rs.rows = append(rs.rows, r)
	}
	rs.runs = append(rs.runs, runResult{r.name, broker, noisy, values})
}

// values returns a metric's figures of a broker, sorted.
func (rs *results) values(rowName, broker, metric string) []float64 {
	var list []float64
	for _, run := range rs.runs {
		if v, ok := run.Values[metric]; ok && run.Row == rowName && run.Broker == broker {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return list
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// figure prints a number with three significant digits.
func figure(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

func spread(sorted []float64) string {
	if len(sorted) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s / %s / %s", figure(sorted[0]), figure(median(sorted)), figure(sorted[len(sorted)-1]))
}

// verdict compares a ratio, or a figure itself, to what is asked for.
func (m metric) verdict(ratio float64) string {
	reached := func(limit float64) bool {
		if m.higher {
			return ratio >= limit
		}
		return ratio <= limit
	}
	switch {
	case m.must == 0:
		return ""
	case !reached(m.must):
		return "FALLS SHORT"
	case m.aim != 0 && !reached(m.aim):
		return "must"
	default:
		return "aim"
	}
}

func (m metric) limit(v float64) string {
	if v == 0 {
		return ""
	}
	sign := "≤"
	if m.higher {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s", sign, figure(v))
}

// print writes the table: min / median / max of each broker's runs, and the ratio of the medians.
func (rs *results) print(w io.Writer) {
	host, _ := os.Hostname()
	fmt.Fprintf(w, "%d cores, %s; min / median / max; ratio is gregor to Kafka 4.4.0 (cluster rows: 3.9.2), or to what the row names\n", runtime.NumCPU(), host)
	fmt.Fprintf(w, "runs thrown away because others used the machine: %d\n\n", rs.thrown)
	fmt.Fprintln(w, "| row | figure | gregor | other | ratio | must | aim | reached | others' cores |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, r := range rs.rows {
		for _, m := range r.metrics {
			against := m.against
			if against == "" {
				against = kafkaName
			}
			ours, theirs := rs.values(r.name, gregorName, m.name), rs.values(r.name, against, m.name)
			ratio, verdict := "–", ""
			if len(ours) > 0 && len(theirs) > 0 && median(theirs) != 0 {
				v := median(ours) / median(theirs)
				ratio, verdict = figure(v), m.verdict(v)
			}
			if m.itself && len(ours) > 0 {
				verdict = m.verdict(median(ours))
			}
			other := spread(theirs)
			if m.against != "" {
				other += " (" + m.against + ")"
			}
			quiet := append(rs.values(r.name, gregorName, otherCores), rs.values(r.name, against, otherCores)...)
			slices.Sort(quiet)
			fmt.Fprintf(w, "| %s | %s, %s | %s | %s | %s | %s | %s | %s | %s |\n", r.name, strings.ReplaceAll(m.name, "_", " "), m.unit,
				spread(ours), other, ratio, m.limit(m.must), m.limit(m.aim), verdict, spread(quiet))
		}
	}
}
