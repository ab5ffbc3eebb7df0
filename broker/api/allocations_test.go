package api

import (
	"io"
	"net"
	"testing"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// exchange sends a frame again and again and returns how many allocations that takes, from its reading to its answer: on
// both sides of the pipe, but the client's side makes none.
func exchange(t *testing.T, conn net.Conn, r kmsg.Request) float64 {
	t.Helper()
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, r, 1)
	answer := make([]byte, 4<<10)
	return testing.AllocsPerRun(1000, func() {
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer[:4]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer[:int(answer[2])<<8|int(answer[3])]); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAllocationsOfRequests holds a whole Produce and a whole Fetch to a small number of allocations, and what each further
// partition adds to fewer than four.
func TestAllocationsOfRequests(t *testing.T) {
	const partitions = 20
	p := newPlane(t)
	p.topic("t", partitions)
	c := p.client()
	value := records(t, record.BatchOptions{}, "a record", clock.System.Now().UnixMilli())
	var sets []to
	var wants []at
	for i := range int32(partitions) {
		c.mustProduce("t", i, value)
		sets, wants = append(sets, to{"t", i, value}), append(wants, at{"t", i, 0, 100})
	}
	for _, w := range []struct {
		name    string
		request kmsg.Request
		most    float64
	}{
		{"produce", produceOf(9, replica.AcksAll, sets[0]), 20},
		{"produce to 20 partitions", produceOf(9, replica.AcksAll, sets...), 90},
		{"fetch", fetchOf(11, wants[0]), 25},
		{"fetch of 20 partitions", fetchOf(11, wants...), 75},
	} {
		if n := exchange(t, c.conn, w.request); n > w.most {
			t.Errorf("a %s makes %v allocations, more than %v", w.name, n, w.most)
		}
	}
}
