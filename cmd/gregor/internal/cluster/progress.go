package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kadm"
)

// gauge measures how far moves are: bytes that the new replicas hold, of those that the old ones do.
type gauge struct {
	copies map[partition]*copying
}

// copying is the replicas of a partition that are being made.
type copying struct {
	adding []int32
	size   int64 // of the largest replica that has been seen
}

// bytes is how much is to be copied in all.
func (c *copying) bytes() int64 { return c.size * int64(len(c.adding)) }

// reading is how far the moves of a gauge are at one moment.
type reading struct {
	done        map[partition]bool // no longer under way
	bytesOf     map[partition]int64
	bytes, size int64 // copied, and to be copied
}

// begin makes a gauge of moves; nil = of all that are under way.
func begin(ctx context.Context, s session, moves []move) (*gauge, error) {
	g := &gauge{copies: map[partition]*copying{}}
	for _, m := range moves {
		g.copies[m.partition] = &copying{adding: m.adding()}
	}
	moving, err := s.underWay(ctx)
	if err != nil {
		return nil, err
	}
	for p, now := range moving {
		if moves == nil || g.copies[p] != nil {
			g.copies[p] = &copying{adding: now.AddingReplicas}
		}
	}
	return g, nil
}

// measure looks where the moves are.
func (g *gauge) measure(ctx context.Context, s session) (reading, error) {
	moving, err := s.underWay(ctx)
	if err != nil {
		return reading{}, err
	}
	topics := kadm.TopicsSet{}
	done := map[partition]bool{}
	for p := range g.copies {
		topics.Add(p.topic, p.id)
		_, under := moving[p]
		done[p] = !under
	}
	return g.read(done, s.replicas(ctx, topics)), nil
}

func (g *gauge) read(done map[partition]bool, dirs kadm.DescribedAllLogDirs) reading {
	r := reading{done: done, bytesOf: map[partition]int64{}}
	held := map[partition]int64{}
	for broker, of := range dirs {
		of.EachPartition(func(d kadm.DescribedLogDirPartition) {
			p := partition{d.Topic, d.Partition}
			c := g.copies[p]
			if c == nil || d.IsFuture {
				return
			}
			if slices.Contains(c.adding, broker) {
				held[p] += d.Size
			} else {
				c.size = max(c.size, d.Size)
			}
		})
	}
	for p, c := range g.copies {
		n := min(held[p], c.bytes())
		if done[p] {
			n = c.bytes()
		}
		r.bytesOf[p] = n
		r.bytes += n
		r.size += c.bytes()
	}
	return r
}

func (r reading) finished() (done, all int) {
	for _, d := range r.done {
		if d {
			done++
		}
	}
	return done, len(r.done)
}

// lookEvery is how often the brokers are asked.
const lookEvery = 500 * time.Millisecond

// follow shows the moves until all are done or the context ends. A broker that does not answer for a while is no reason to end.
func (g *gauge) follow(ctx context.Context, s session, d *display) error {
	defer d.close()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	started, first := time.Now(), int64(-1)
	for {
		r, err := g.measure(ctx, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			d.show("waiting for the controller", "")
		default:
			if first < 0 {
				first = r.bytes
			}
			done, all := r.finished()
			d.show(r.line(r.bytes-first, time.Since(started)), fmt.Sprintf("%d of %s done", done, cli.Count(all, "move")))
			if done == all {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// line is the progress bar; copied is the bytes since it began.
func (r reading) line(copied int64, passed time.Duration) string {
	done, all := r.finished()
	part := float64(done) / float64(max(all, 1))
	if r.size > 0 {
		part = float64(r.bytes) / float64(r.size)
	}
	if done < all {
		part = min(part, 0.99) // what was copied is still to catch up
	}
	line := fmt.Sprintf("%s %s of %s, %d of %s done", cli.Bar(part), cli.Size(r.bytes), cli.Size(r.size), done, cli.Count(all, "move"))
	if rate := float64(copied) / passed.Seconds(); copied > 0 && passed > 0 {
		line += fmt.Sprintf(", %s/s", cli.Size(int64(rate)))
		if left := time.Duration(float64(r.size-r.bytes) / rate * float64(time.Second)); done < all && left > time.Second {
			line += fmt.Sprintf(", %v left", left.Round(time.Second))
		}
	}
	return line
}

// display shows a line that changes: on a terminal in place, elsewhere a plainer one whenever that has changed.
type display struct {
	w        io.Writer
	terminal bool
	last     string
}

func newDisplay(w io.Writer) *display {
	return &display{w: w, terminal: w == io.Writer(os.Stderr) && cli.IsTerminal(os.Stderr)}
}

func (d *display) show(bar, plain string) {
	switch {
	case d.terminal:
		fmt.Fprint(d.w, "\r\x1b[K"+bar)
	case plain != "" && plain != d.last:
		d.last = plain
		fmt.Fprintln(d.w, plain)
	}
}

func (d *display) close() {
	if d.terminal {
		fmt.Fprint(d.w, "\r\x1b[K")
	}
}
