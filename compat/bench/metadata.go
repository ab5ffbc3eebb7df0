//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataRows start a broker each time.
var metadataRows = []row{
	{name: "Metadata for 10,000 partitions", measure: metadataOf{topics: 10, partitions: 1000}.measure, metrics: []metric{
		{name: "answers_per_s", unit: "answers/s", higher: true, must: 2, aim: 5}, {name: "cpu_ms_per_answer", unit: "ms"},
		{name: "thousand_mb", unit: "MB more while a thousand wait for their answers"}, {name: "thousand_s", unit: "s"},
	}},
}

// metadataOf asks for all topics.
type metadataOf struct{ topics, partitions int }

// measure has 4 connections ask one request after the other; then a thousand connections ask at once and begin to read a second later,
// when all that the broker holds for them is held.
func (x metadataOf) measure(b *bench, t *server) (sample, error) {
	if _, err := t.start(); err != nil {
		return nil, err
	}
	for i := range x.topics {
		if err := createTopic(t, fmt.Sprint("metadata-", i), x.partitions); err != nil {
			return nil, err
		}
	}
	if err := x.check(t); err != nil {
		return nil, err
	}
	if _, _, err := askForAll(t, scaled(10*time.Second, b)); err != nil { // in which the JVM compiles
		return nil, err
	}
	answers, s, err := askForAll(t, scaled(5*time.Second, b))
	if err != nil {
		return nil, err
	}
	s["answers_per_s"] = float64(answers) / s["seconds"]
	s["cpu_ms_per_answer"] = s["cpu_s"] * 1000 / float64(answers)
	time.Sleep(scaled(settle, b))
	s["thousand_mb"], s["thousand_s"], err = thousandAsk(t)
	return s, err
}

// check sees that an answer names every partition and its leader.
func (x metadataOf) check(t *server) error {
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Version = metadataVersion
	response := kmsg.NewPtrMetadataResponse()
	if err := c.call(request, response); err != nil {
		return err
	}
	n := 0
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
			n++
		}
	}
	if n != x.topics*x.partitions {
		return fmt.Errorf("%d partitions in an answer for %d", n, x.topics*x.partitions)
	}
	return nil
}

// allTopics is the frame of a request for everything.
func allTopics() []byte {
	request := kmsg.NewPtrMetadataRequest()
	request.Version = metadataVersion
	return formatter.AppendRequest(nil, request, 0)
}

// skip reads one response and forgets it.
func (c *rawConn) skip() error {
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return err
	}
	_, err := c.in.Discard(int(binary.BigEndian.Uint32(size[:])))
	return err
}

// askForAll has connections ask for everything for a while and returns how many answers there were.
func askForAll(t *server, span time.Duration) (answers int, s sample, err error) {
	const conns = 4
	counts, errs := make([]int, conns), make([]error, conns)
	frame := allTopics()
	m := startMeter(t)
	end := time.Now().Add(span)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			c, err := dial(t.addr)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			for errs[i] == nil && time.Now().Before(end) {
				if _, errs[i] = c.Write(frame); errs[i] == nil {
					errs[i] = c.skip()
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	s = m.stop(0)
	for _, n := range counts {
		answers += n
	}
	return answers, s, errors.Join(errs...)
}

// thousandAsk returns by how much the broker's anonymous memory grew at most, in MB, and how long all took.
func thousandAsk(t *server) (grown, seconds float64, err error) {
	const conns = 1000
	list := make([]*rawConn, conns)
	for i := range list {
		if list[i], err = dial(t.addr); err != nil {
			return 0, 0, err
		}
		defer list[i].Close()
		if err := list[i].metadata(); err != nil { // so that the connection is set up
			return 0, 0, err
		}
	}
	before, _ := memoryOf(t.pid())
	peak := before
	stop := make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			now, _ := memoryOf(t.pid())
			peak = max(peak, now)
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	frame := allTopics()
	began := time.Now()
	for _, c := range list {
		if _, err = c.Write(frame); err != nil {
			break
		}
	}
	const unread = time.Second
	time.Sleep(unread)
	var readers sync.WaitGroup
	errs := make([]error, conns)
	for i, c := range list {
		readers.Go(func() { errs[i] = c.skip() })
	}
	readers.Wait()
	seconds = (time.Since(began) - unread).Seconds()
	close(stop)
	sampler.Wait()
	return float64(peak-before) / 1e6, seconds, errors.Join(append(errs, err)...)
}
