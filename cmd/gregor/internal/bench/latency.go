package bench

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func latencyCommand(s *shared) *cobra.Command {
	p := producing{size: 100, rate: 1000, duration: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure the time from producing a record to consuming it",
		Long: `Produce at a rate and consume at the same time; the latency is the time from when a record was due to be sent until this
process has received it. The first second is not counted.`,
		Example: `  gregor bench latency
  gregor bench latency --rate 20000 --size 1024 --duration 30s --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			if p.rate == 0 || p.size < stampBytes {
				return cli.Usagef("want a --rate above 0 and a --size of at least %d", stampBytes)
			}
			if err := s.prepare(cmd.Context()); err != nil {
				return err
			}
			g, m := goal{duration: p.duration + warmUp}, &meter{}
			return s.measure(cmd, "latency", g, m, func(ctx context.Context) (result, error) { return p.runLatency(ctx, s, g, m) })
		},
	}
	p.addFlags(cmd)
	return cmd
}

const (
	stampBytes = 16          // of a record's value: the run's number, and when it was due
	warmUp     = time.Second // whose records are not counted
	lastWait   = 5 * time.Second
)

func (p *producing) runLatency(ctx context.Context, s *shared, g goal, m *meter) (result, error) {
	opts, err := p.clientOptions(s.topic)
	if err != nil {
		return result{}, err
	}
	producer, err := s.connection.Client(ctx, opts...)
	if err != nil {
		return result{}, err
	}
	defer producer.Close()
	end, err := kadm.NewClient(producer).ListEndOffsets(ctx, s.topic)
	if err != nil {
		return result{}, err
	}
	from := map[int32]kgo.Offset{}
	end.Each(func(o kadm.ListedOffset) { from[o.Partition] = kgo.NewOffset().At(o.Offset) })
	consumer, err := s.connection.Client(ctx, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: from}))
	if err != nil {
		return result{}, err
	}
	defer consumer.Close()

	run := &latencyRun{started: time.Now(), m: m}
	receiving, stop := context.WithCancel(ctx)
	received := make(chan struct{})
	go func() {
		defer close(received)
		run.receive(receiving, consumer)
	}()
	value := payloads(p.size)[0]
	pace(ctx, p.rate, g, func(_ int64, due time.Time) { run.send(ctx, producer, value, due) })
	_ = producer.Flush(ctx)
	took := time.Since(run.started)
	run.awaitRest(ctx)
	stop()
	<-received
	return newResult("latency", s.topic, m, max(took-warmUp, 0)), nil
}

// latencyRun is the state that both sides of a run share.
type latencyRun struct {
	started      time.Time
	m            *meter
	acknowledged atomic.Int64
	arrived      atomic.Int64
}

func (l *latencyRun) send(ctx context.Context, producer *kgo.Client, pattern []byte, due time.Time) {
	value := make([]byte, len(pattern))
	copy(value, pattern)
	binary.BigEndian.PutUint64(value, uint64(l.started.UnixNano()))
	binary.BigEndian.PutUint64(value[8:], uint64(due.Sub(l.started)))
	producer.Produce(ctx, kgo.SliceRecord(value), func(_ *kgo.Record, err error) {
		if err != nil {
			l.m.errors.Add(1)
			return
		}
		l.acknowledged.Add(1)
	})
}

func (l *latencyRun) receive(ctx context.Context, consumer *kgo.Client) {
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		now := time.Since(l.started)
		fetches.EachRecord(func(r *kgo.Record) { l.got(r.Value, now) })
	}
}

// got counts a record that has arrived, if it is one of this run.
func (l *latencyRun) got(value []byte, now time.Duration) {
	if len(value) < stampBytes || binary.BigEndian.Uint64(value) != uint64(l.started.UnixNano()) {
		return
	}
	l.arrived.Add(1)
	due := time.Duration(binary.BigEndian.Uint64(value[8:]))
	if due >= warmUp {
		l.m.latency.record(now - due)
		l.m.count(len(value))
	}
}

// awaitRest waits until what was acknowledged has arrived, for a while.
func (l *latencyRun) awaitRest(ctx context.Context) {
	for deadline := time.Now().Add(lastWait); l.arrived.Load() < l.acknowledged.Load() && time.Now().Before(deadline) && ctx.Err() == nil; {
		sleep(ctx, time.Millisecond)
	}
}
