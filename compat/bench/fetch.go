//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// What the fetch rows read: batches of the same size, so that the bare server finds any offset by arithmetic.
const (
	fetchTopic        = "fetch"
	fetchRecords      = 950 // of 1 KiB in a batch, about 1 MB
	fetchTopicBytes   = 1_000_000_000
	fetchRequestBytes = 8 << 20
)

func fetchBatch() []byte { return encodeBatch(randomBytes(1024), fetchRecords) }

// fillFetchTopic writes the topic, unless it is there.
func fillFetchTopic(b *bench, t *server) (ends map[int32]int64, err error) {
	if ends, err := endOffsets(t, fetchTopic); err == nil && ends[0] > 0 {
		return ends, nil
	}
	if err := createTopic(t, fetchTopic, 1); err != nil {
		return nil, err
	}
	batch := fetchBatch()
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	frame := encodeProduce(fetchTopic, 0, batch)
	for range int64(float64(fetchTopicBytes)*b.settings.scale) / int64(len(batch)) {
		if _, err := c.Write(frame); err != nil {
			return nil, err
		}
		body, err := c.answer()
		if err == nil {
			err = produceError(fetchTopic, body)
		}
		if err != nil {
			return nil, err
		}
	}
	return endOffsets(t, fetchTopic)
}

// fetcher reads everything with raw requests, one in flight for each reader.
type fetcher struct{ readers int }

func (f fetcher) measure(b *bench, t *server) (sample, error) {
	var end int64
	if t.name == bareName {
		end = int64(float64(fetchTopicBytes)*b.settings.scale) / int64(len(fetchBatch())) * fetchRecords
	} else {
		ends, err := fillFetchTopic(b, t)
		if err != nil {
			return nil, err
		}
		end = ends[0]
	}
	var bytes atomic.Int64
	errs := make(chan error, f.readers)
	var wg sync.WaitGroup
	m := startMeter(t)
	for range f.readers {
		c, err := dial(t.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		wg.Go(func() {
			for range 3 { // one pass is short
				n, err := c.fetchPartition(fetchTopic, 0, end, fetchRequestBytes, nil)
				bytes.Add(n)
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return m.stop(bytes.Load()), nil
	}
}

// consumeClient reads everything with a whole franz-go client.
func consumeClient(b *bench, t *server) (sample, error) {
	ends, err := fillFetchTopic(b, t)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(t.seeds()...), kgo.ConsumeTopics(fetchTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	bytes := int64(0)
	m := startMeter(t)
	for left := ends[0]; left > 0; {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			bytes += int64(len(r.Value))
			left--
		})
	}
	return m.stop(bytes), nil
}

// bareCommand is the hidden command of the bare server: bare ADDR FILE.
const bareCommand = "bare"

// writeBareFile writes the file that the bare server serves, the same batches as in the brokers' topic, and returns its
// arguments.
func writeBareFile(b *bench) ([]string, error) {
	path := filepath.Join(b.dir, "bare.log")
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	batch := fetchBatch()
	for i := range int64(float64(fetchTopicBytes)*b.settings.scale) / int64(len(batch)) {
		binary.BigEndian.PutUint64(batch, uint64(i*fetchRecords))
		if _, err := file.Write(batch); err != nil {
			return nil, err
		}
	}
	return []string{path, strconv.Itoa(len(batch))}, nil
}

// bareMain answers fetches of one partition from a file of equal batches, with sendfile and nothing else: what a broker
// cannot beat.
func bareMain(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: %s ADDR FILE BATCHBYTES", bareCommand)
	}
	size, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	file, err := os.Open(args[1])
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			// A reader that is done closes its end; that is no error to report.
			_ = serveBare(conn.(*net.TCPConn), file, info.Size(), size)
		}()
	}
}

func serveBare(conn *net.TCPConn, file *os.File, fileSize, batchSize int64) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var size [4]byte
	request := kmsg.NewPtrFetchRequest()
	for {
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return err
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return err
		}
		// Key, version, correlation id, client id, tags.
		request.Version = fetchVersion
		if err := request.ReadFrom(frame[8+2+int(binary.BigEndian.Uint16(frame[8:]))+1:]); err != nil {
			return err
		}
		p := request.Topics[0].Partitions[0]
		pos := p.FetchOffset / fetchRecords * batchSize
		n := min(int64(p.PartitionMaxBytes), fileSize-pos)
		if _, err := conn.Write(bareHeader(request, n)); err != nil {
			return err
		}
		if err := sendRange(raw, file, pos, n); err != nil {
			return err
		}
	}
}

// bareTags is how many empty lists of tags end a Fetch response.
const bareTags = 3

// bareHeader returns a response's bytes up to its n bytes of records.
func bareHeader(request *kmsg.FetchRequest, n int64) []byte {
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = []byte{}
	response := kmsg.NewPtrFetchResponse()
	response.Version = fetchVersion
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.Partitions = request.Topics[0].Topic, []kmsg.FetchResponseTopicPartition{p}
	response.Topics = []kmsg.FetchResponseTopic{topic}
	body := response.AppendTo(nil)
	// The body ends with the empty records' length and the tags of partition, topic and response, which follow the records.
	body = binary.AppendUvarint(body[:len(body)-1-bareTags], uint64(n)+1)
	header := binary.BigEndian.AppendUint32(nil, uint32(5+len(body)+bareTags)+uint32(n))
	header = append(header, 0, 0, 0, 0, 0) // correlation id, tags
	return append(header, body...)
}

// sendRange sends a file's range, in quanta of 1 MiB as the broker does, and a response's end.
func sendRange(conn interface {
	Write(func(fd uintptr) bool) error
}, file *os.File, pos, n int64) error {
	var failed error
	end := pos + n
	for pos < end && failed == nil {
		err := conn.Write(func(fd uintptr) bool {
			sent, err := unix.Sendfile(int(fd), int(file.Fd()), &pos, int(min(end-pos, 1<<20)))
			if err == unix.EAGAIN {
				return false
			}
			if err == nil && sent == 0 {
				err = io.ErrUnexpectedEOF
			}
			failed = err
			return true
		})
		if err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	return conn.Write(func(fd uintptr) bool {
		_, failed = unix.Write(int(fd), make([]byte, bareTags))
		return failed != unix.EAGAIN
	})
}
