//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions that name topics and that both brokers serve.
const (
	metadataVersion = 9
	produceVersion  = 9
	fetchVersion    = 12
)

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))

// rawConn is a connection on which requests are written, and answers read, as they are: the client must not be what is
// measured.
type rawConn struct {
	net.Conn
	in  *bufio.Reader
	buf []byte

	isolation int8 // of fetches
}

func dial(addr string) (*rawConn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &rawConn{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// answer reads one response and returns its body, valid until the next call. The versions used here all have a flexible
// response header: correlation id and an empty list of tags.
func (c *rawConn) answer() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n < 5 || n > 1<<30 {
		return nil, fmt.Errorf("a response of %d bytes", n)
	}
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	_, err := io.ReadFull(c.in, c.buf)
	return c.buf[5:], err
}

// call sends a request and reads the answer into response, which refers to c's buffer.
func (c *rawConn) call(request kmsg.Request, response kmsg.Response) error {
	if _, err := c.Write(formatter.AppendRequest(nil, request, 0)); err != nil {
		return err
	}
	body, err := c.answer()
	if err != nil {
		return err
	}
	response.SetVersion(request.GetVersion())
	return response.(kmsg.UnsafeReadFrom).UnsafeReadFrom(body)
}

// metadata asks for the brokers only.
func (c *rawConn) metadata() error {
	_, err := c.brokers()
	return err
}

// brokers is metadata with its answer.
func (c *rawConn) brokers() (*kmsg.MetadataResponse, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Version, request.Topics = metadataVersion, []kmsg.MetadataRequestTopic{}
	response := kmsg.NewPtrMetadataResponse()
	if err := c.call(request, response); err != nil {
		return nil, err
	}
	if len(response.Brokers) == 0 {
		return nil, fmt.Errorf("no broker in the metadata")
	}
	return response, nil
}

// leadersOf returns the address of each partition's leader, as soon as all brokers know them: a controller tells one after the other.
func leadersOf(t *server, topic string) (leaders map[int32]string, err error) {
	for _, addr := range t.seeds() {
		err = until(time.Minute, func() error {
			leaders, err = knownLeaders(addr, topic)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("leaders of %s: %w", topic, err)
		}
	}
	return leaders, nil
}

// knownLeaders are what one broker knows.
func knownLeaders(addr, topic string) (map[int32]string, error) {
	state, err := stateOf(addr, topic)
	if err != nil {
		return nil, err
	}
	leaders := map[int32]string{}
	for _, p := range state.Topics[0].Partitions {
		for _, b := range state.Brokers {
			if b.NodeID == p.Leader {
				leaders[p.Partition] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
			}
		}
	}
	if len(leaders) != len(state.Topics[0].Partitions) {
		return nil, fmt.Errorf("of the %d partitions of %s %d have a leader", len(state.Topics[0].Partitions), topic, len(leaders))
	}
	return leaders, nil
}

// stateOf asks one broker for what it knows of a topic and the cluster.
func stateOf(addr, topic string) (*kmsg.MetadataResponse, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Version = metadataVersion
	request.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	response := kmsg.NewPtrMetadataResponse()
	if err := c.call(request, response); err != nil {
		return nil, err
	}
	return response, kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

// randomBytes returns n bytes that do not compress, the same ones each time.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// encodeBatch returns an uncompressed batch of count records with the same value.
func encodeBatch(value []byte, count int) []byte {
	pairs := make([][2][]byte, count)
	for i := range pairs {
		pairs[i][1] = value
	}
	return encodePairs(pairs)
}

// encodePairs returns an uncompressed batch of records with these keys and values.
func encodePairs(pairs [][2][]byte) []byte {
	now := time.Now().UnixMilli()
	var records []byte
	for i, pair := range pairs {
		record := kmsg.Record{OffsetDelta: int32(i), Key: pair[0], Value: pair[1]}
		// The length of a record does not count itself: encode once to learn it. A length of 0 takes one byte.
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		records = record.AppendTo(records)
	}
	batch := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, LastOffsetDelta: int32(len(pairs) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(pairs)), Records: records,
	}
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// encodeProduce returns a framed request, acks=all, of one batch to one partition.
func encodeProduce(topic string, partition int32, batch []byte) []byte {
	return formatter.AppendRequest(nil, produceRequest(topic, partition, batch), 0)
}

func produceRequest(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = produceVersion, -1, 30_000
	request.Topics = []kmsg.ProduceRequestTopic{{
		Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}},
	}}
	return request
}

// produceError returns the error of an answer to encodeProduce.
func produceError(topic string, body []byte) error {
	// Array length, topic, array length, partition, error code.
	at := 1 + 1 + len(topic) + 1 + 4
	if len(body) < at+2 {
		return fmt.Errorf("a produce response of %d bytes", len(body))
	}
	return kerr.ErrorForCode(int16(binary.BigEndian.Uint16(body[at:])))
}

// fetchPartition reads a partition up to end and hands every whole batch to each (nil = none). It returns how many bytes
// of batches there were.
func (c *rawConn) fetchPartition(topic string, partition int32, end int64, maxBytes int32, each func([]byte) error) (int64, error) {
	bytes := int64(0)
	for offset := int64(0); offset < end; {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, maxBytes
		request := kmsg.NewPtrFetchRequest()
		request.Version, request.MaxWaitMillis, request.MinBytes, request.MaxBytes = fetchVersion, 500, 1, maxBytes
		request.SessionEpoch, request.IsolationLevel = -1, c.isolation
		request.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		var response kmsg.FetchResponse
		if err := c.call(request, &response); err != nil {
			return bytes, err
		}
		got := response.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return bytes, err
		}
		// A batch begins with its first offset and its length; the delta of its last offset is at 23. The last batch may
		// be cut off.
		before := offset
		for b := got.RecordBatches; len(b) >= 61; {
			size := 12 + int(binary.BigEndian.Uint32(b[8:]))
			if size > len(b) {
				break
			}
			if each != nil {
				if err := each(b[:size]); err != nil {
					return bytes, err
				}
			}
			offset = int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[23:])) + 1
			bytes += int64(size)
			b = b[size:]
		}
		if offset == before {
			return bytes, fmt.Errorf("no progress at offset %d of partition %d", offset, partition)
		}
	}
	return bytes, nil
}
