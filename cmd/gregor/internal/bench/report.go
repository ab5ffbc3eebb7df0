package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
)

// result is what a run measured.
type result struct {
	Command   string     `json:"command"`
	Topic     string     `json:"topic"`
	Records   int64      `json:"records"`
	Bytes     int64      `json:"bytes"`
	Errors    int64      `json:"errors"`
	Seconds   float64    `json:"seconds"`
	PerSecond float64    `json:"records_per_second"`
	MBPerSec  float64    `json:"megabytes_per_second"` // 10^6 bytes
	FirstMs   float64    `json:"first_record_ms,omitempty"`
	Latency   *latencies `json:"latency_ms,omitempty"`
}

type latencies struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

func newResult(command, topic string, m *meter, took time.Duration) result {
	r := result{Command: command, Topic: topic, Records: m.records.Load(), Bytes: m.bytes.Load(), Errors: m.errors.Load(), Seconds: took.Seconds()}
	if took > 0 {
		r.PerSecond = float64(r.Records) / r.Seconds
		r.MBPerSec = float64(r.Bytes) / r.Seconds / 1e6
	}
	if m.latency.quantile(1) > 0 {
		h := &m.latency
		r.Latency = &latencies{millis(h.quantile(0.5)), millis(h.quantile(0.9)), millis(h.quantile(0.99)), millis(h.quantile(0.999)), millis(h.quantile(1))}
	}
	return r
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r result) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	fmt.Fprintf(w, "%s: %s records, %s in %.2f s: %s records/s, %.1f MB/s\n",
		r.Topic, grouped(r.Records), cli.Size(r.Bytes), r.Seconds, grouped(int64(r.PerSecond)), r.MBPerSec)
	if r.FirstMs > 0 {
		fmt.Fprintf(w, "first record after %.1f ms\n", r.FirstMs)
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(w, "latency in ms: p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f\n", l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	if r.Errors > 0 {
		fmt.Fprintf(w, "%s records failed\n", grouped(r.Errors))
	}
	return nil
}

// grouped writes a number with a comma every three digits.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
