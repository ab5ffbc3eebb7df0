package broker

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/frame"
)

// TestAnyRequest sends requests of every API in every version, made of values that have a meaning and values that have
// none, half of them then mutilated. Each is answered with something that can be decoded, or its connection is closed;
// in the end the broker stops in good order. A failure names its seed.
func TestAnyRequest(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := start(t, t.TempDir())
			cl := client(t, b)
			createTopic(t, cl, "t", 2, nil)
			cl.Close()
			c := &chaos{t: t, b: b, r: rand.New(rand.NewPCG(seed, 7)), seed: seed}
			entries := api.NewTable(api.Embedded).Entries()
			for range 1500 {
				e := entries[c.r.IntN(len(entries))]
				v := e.Served(api.Embedded)
				c.exchange(e.Key, v.Min+int16(c.r.IntN(int(v.Max-v.Min)+1)))
			}
			c.close()
		})
	}
}

// TestAnyRequestToAMember does the same with a broker of a cluster on ZooKeeper, which also takes the orders of controllers.
func TestAnyRequestToAMember(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			cluster := newCluster(t)
			b := cluster.start(1, "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
				"transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=2", "controlled.shutdown.max.retries=1")
			cl := cluster.client()
			createTopic(t, cl, "t", 2, nil)
			cl.Close()
			c := &chaos{t: t, b: b, r: rand.New(rand.NewPCG(seed, 11)), seed: seed}
			entries := api.NewTable(api.ZooKeeper).Entries()
			for range 1500 {
				e := entries[c.r.IntN(len(entries))]
				v := e.Served(api.ZooKeeper)
				c.exchange(e.Key, v.Min+int16(c.r.IntN(int(v.Max-v.Min)+1)))
			}
			c.close()
		})
	}
}

// chaos is a client without sense.
type chaos struct {
	t    *testing.T
	b    *Broker
	r    *rand.Rand
	seed uint64
	conn net.Conn
}

func (c *chaos) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// sentinel follows every request: when it is answered, so was the request, or never will be.
var sentinel = []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 8, 0xff, 0xff}

func (c *chaos) exchange(key kmsg.Key, version int16) {
	if c.conn == nil {
		var err error
		if c.conn, err = c.b.Dial("PLAINTEXT"); err != nil {
			c.t.Fatal(err)
		}
	}
	request := key.Request()
	c.fill(reflect.ValueOf(request).Elem(), "")
	request.SetVersion(version)
	raw := kmsg.NewRequestFormatter(kmsg.FormatterClientID("chaos")).AppendRequest(nil, request, 7)
	if c.r.IntN(2) == 0 {
		raw = c.mutilate(raw)
	}
	c.conn.SetDeadline(clock.System.Now().Add(time.Hour)) // of the bubble's time: who waits longer was told to
	if _, err := c.conn.Write(append(raw, sentinel...)); err != nil {
		c.close()
		return
	}
	for {
		corr, body, err := c.read()
		switch {
		case err != nil:
			c.close()
			return
		case corr == 8:
			return
		case corr != 7:
			c.t.Fatalf("seed %d: %s v%d is answered with correlation id %d: %x", c.seed, key.Name(), version, corr, raw)
		}
		response := request.ResponseKind()
		response.SetVersion(version)
		if key != kmsg.ApiVersions && response.IsFlexible() {
			body = body[1:]
		}
		if err := response.ReadFrom(body); err != nil || !bytes.Equal(response.AppendTo(nil), body) {
			c.t.Fatalf("seed %d: %s v%d: the answer is broken, %v: %x to %x", c.seed, key.Name(), version, err, body, raw)
		}
	}
}

func (c *chaos) read() (corr int32, body []byte, err error) {
	var size [frame.LengthSize]byte
	if _, err = io.ReadFull(c.conn, size[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err = io.ReadFull(c.conn, b); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:], nil
}

// headerSize is that of the length and the header before the tags; what lies in it stays, so that the API does.
const headerSize = frame.LengthSize + 8 + 2 + len("chaos")

func (c *chaos) mutilate(raw []byte) []byte {
	n := min(headerSize, len(raw)) // ControlledShutdown v0 names no client
	head, b := raw[:n:n], bytes.Clone(raw[n:])
	for range 1 + c.r.IntN(3) {
		if len(b) == 0 {
			break
		}
		switch at := c.r.IntN(len(b)); c.r.IntN(5) {
		case 0:
			b = b[:at]
		case 1:
			b = append(b, make([]byte, c.r.IntN(40))...)
		case 2:
			b[at] ^= 1 << c.r.IntN(8)
		case 3:
			b = append(append(bytes.Clone(b[:at]), 0xff, 0xff, 0xff, 0xff, 0x0f), b[at:]...)
		case 4:
			if at+4 <= len(b) {
				lengths := []uint32{0, 1, 1_000_000, 1<<31 - 1, 1 << 31, 1<<32 - 1}
				binary.BigEndian.PutUint32(b[at:], lengths[c.r.IntN(len(lengths))])
			}
		}
	}
	raw = append(head, b...)
	binary.BigEndian.PutUint32(raw, uint32(len(raw)-frame.LengthSize))
	return raw
}

var (
	chaosWords = []string{"", "../u", "..", "__consumer_offsets", "t", "t", "u", "a.b", "a_b", "g", "1", ".", "a b", "\xff", "range", "consumer", "retention.ms", "compact"}
	chaosInts  = []int64{0, 0, 1, 1, 2, 3, 9, -1, -1, -2, 1000, 1<<31 - 1, -1 << 31, 1<<63 - 1, -1 << 63}
)

// fill sets a message's fields. Times are short, and topics have few partitions.
func (c *chaos) fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if c.r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			c.fill(v.Elem(), name)
		}
	case reflect.Struct:
		if d := v.Addr().MethodByName("Default"); d.IsValid() {
			d.Call(nil)
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Version" && c.r.IntN(8) > 0 {
				c.fill(v.Field(i), f.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), c.r.IntN(4), 4))
		for i := range v.Len() {
			if i > 0 && c.r.IntN(5) == 0 {
				v.Index(i).Set(v.Index(i - 1))
			} else {
				c.fill(v.Index(i), name)
			}
		}
	case reflect.String:
		v.SetString(chaosWords[c.r.IntN(len(chaosWords))])
		if c.r.IntN(50) == 0 {
			v.SetString(string(bytes.Repeat([]byte("x"), c.r.IntN(1<<15))))
		}
	case reflect.Bool:
		v.SetBool(c.r.IntN(2) == 0 && name != "IsKRaftController")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := chaosInts[c.r.IntN(len(chaosInts))]
		if bytes.HasSuffix([]byte(name), []byte("Millis")) || name == "NumPartitions" || name == "Count" {
			n = int64(c.r.IntN(20)) - 2
		}
		if name == "ControllerEpoch" {
			n = 5 // an order of a later one would be the last
		}
		if name == "BrokerEpoch" && c.r.IntN(4) > 0 {
			n = -1
		}
		v.SetInt(n)
	case reflect.Uint8:
		v.SetUint(uint64(c.r.IntN(256)))
	}
}
