package bench

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
)

// meter is what a run counts while it goes on. Safe for concurrent use.
type meter struct {
	records, bytes, errors atomic.Int64
	latency                histogram
}

func (m *meter) count(bytes int) {
	m.records.Add(1)
	m.bytes.Add(int64(bytes))
}

// goal is when a run is done: after a number of records, or a time.
type goal struct {
	records  int64 // 0: as many as the time allows
	duration time.Duration
}

// part is how much of the goal is reached, from 0 to 1.
func (g goal) part(records int64, passed time.Duration) float64 {
	done := 0.0
	if g.records > 0 {
		done = float64(records) / float64(g.records)
	}
	if g.duration > 0 {
		done = max(done, float64(passed)/float64(g.duration))
	}
	return min(done, 1)
}

const barPerSecond = 5

// drawProgress draws a bar until stop is called, which erases it.
func drawProgress(w io.Writer, g goal, m *meter) (stop func()) {
	started, quit, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second / barPerSecond)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-ticker.C:
				fmt.Fprint(w, "\r\x1b[K"+progressLine(g, m, time.Since(started)))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func progressLine(g goal, m *meter, passed time.Duration) string {
	records, part := m.records.Load(), g.part(m.records.Load(), passed)
	line := fmt.Sprintf("%s %s records", cli.Bar(part), grouped(records))
	if s := passed.Seconds(); s > 0 {
		line += fmt.Sprintf(", %s/s, %.1f MB/s", grouped(int64(float64(records)/s)), float64(m.bytes.Load())/s/1e6)
	}
	if p99 := m.latency.quantile(0.99); p99 > 0 {
		line += fmt.Sprintf(", p99 %.2f ms", millis(p99))
	}
	return line
}
