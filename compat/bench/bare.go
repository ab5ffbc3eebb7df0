//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

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

// bareMain answers fetches of one partition from a file of equal batches, with sendfile and nothing else, and writes what
// is produced into a file for each connection, without a look at it: what a broker cannot beat.
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
			_ = (&bareConn{TCPConn: conn.(*net.TCPConn), file: file, fileSize: info.Size(), batchSize: size}).serve()
		}()
	}
}

// bareConn is a connection to the bare server.
type bareConn struct {
	*net.TCPConn
	file                *os.File
	fileSize, batchSize int64

	produced *os.File // nil before the first Produce
	end      int64    // of it
}

func (c *bareConn) serve() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	defer c.drop()
	var size [4]byte
	var frame []byte
	for {
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		if cap(frame) < n {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(c, frame); err != nil {
			return err
		}
		if kmsg.Key(binary.BigEndian.Uint16(frame)) == kmsg.Produce {
			err = c.produce(frame)
		} else {
			err = c.fetch(raw, frame)
		}
		if err != nil {
			return err
		}
	}
}

// produce writes a frame to the page cache, whole, and says that it is stored.
func (c *bareConn) produce(frame []byte) (err error) {
	if c.produced == nil {
		if c.produced, err = os.CreateTemp(filepath.Dir(c.file.Name()), "produced-"); err != nil {
			return err
		}
	}
	if _, err := c.produced.WriteAt(frame, c.end); err != nil {
		return err
	}
	c.end += int64(len(frame))
	_, err = c.Write(bareAcked)
	return err
}

func (c *bareConn) drop() {
	if c.produced != nil {
		_ = c.produced.Close()
		_ = os.Remove(c.produced.Name())
	}
}

// bareAcked is the answer to every Produce.
var bareAcked = func() []byte {
	response := kmsg.NewPtrProduceResponse()
	response.Version = produceVersion
	response.Topics = []kmsg.ProduceResponseTopic{{Topic: benchTopic, Partitions: make([]kmsg.ProduceResponseTopicPartition, 1)}}
	body := response.AppendTo(make([]byte, 5)) // correlation id, tags
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}()

func (c *bareConn) fetch(raw interface {
	Write(func(fd uintptr) bool) error
}, frame []byte) error {
	request := kmsg.NewPtrFetchRequest()
	request.Version = fetchVersion
	// Key, version, correlation id, client id, tags.
	if err := request.ReadFrom(frame[8+2+int(binary.BigEndian.Uint16(frame[8:]))+1:]); err != nil {
		return err
	}
	p := request.Topics[0].Partitions[0]
	pos := p.FetchOffset / fetchRecords * c.batchSize
	n := min(int64(p.PartitionMaxBytes), c.fileSize-pos)
	if _, err := c.Write(bareHeader(request, n)); err != nil {
		return err
	}
	return sendRange(raw, c.file, pos, n)
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
