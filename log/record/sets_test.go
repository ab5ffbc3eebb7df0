package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// testTopics are the topics that the sets are produced to, with what sets them apart.
var testTopics = map[string]map[string]string{
	"create":     {},
	"down":       {},
	"downappend": {"message.timestamp.type": "LogAppendTime"},
	"after":      {"message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "100000000000"},
	"append":     {"message.timestamp.type": "LogAppendTime"},
	"compact":    {"cleanup.policy": "compact"},
	"small":      {"max.message.bytes": "300"},
	"plain":      {"compression.type": "uncompressed"},
	"gzip":       {"compression.type": "gzip"},
	"snappy":     {"compression.type": "snappy"},
	"lz4":        {"compression.type": "lz4"},
	"zstd":       {"compression.type": "zstd"},
	"gzappend":   {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
}

// testRules are the rules of such a topic.
func testRules(topic string, now int64) *Rules {
	r := &Rules{Now: now, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 1<<63 - 1, MaxBatchBytes: 1048588, AllowZstd: true, Client: true}
	c := testTopics[topic]
	switch topic {
	case "after":
		r.AfterMaxMs, r.BeforeMaxMs = 1000, 100000000000
	case "compact":
		r.RequireKeys = true
	case "small":
		r.MaxBatchBytes = 300
	}
	if c["message.timestamp.type"] != "" {
		r.TimestampType = LogAppendTime
	}
	if name := c["compression.type"]; name != "" {
		r.Compression, _ = ParseCompression(name, 0)
	}
	return r
}

// testSet is a set to produce.
type testSet struct {
	name    string
	topic   string
	version int16
	raw     []byte
}

const testTime = 1_700_000_000_000

func noProducer(c Codec) BatchOptions { return BatchOptions{Codec: c, LeaderEpoch: -1}.NoProducer() }

func mustBuild(o BatchOptions, recs ...Record) Batch {
	b, err := Build(o, recs)
	if err != nil {
		panic(err)
	}
	return b
}

// threeRecords are records with all that a record can have.
func threeRecords() []Record {
	return []Record{
		{Timestamp: testTime, Key: []byte("k0"), Value: []byte("the first value, the first value, the first value")},
		{Timestamp: testTime + 1000, Key: []byte("k1"), Headers: []Header{{"h", []byte("v")}, {"null", nil}, {"", []byte{}}}},
		{Timestamp: testTime - 7, Key: []byte{}, Value: []byte{}},
	}
}

func three(c Codec) Batch { return mustBuild(noProducer(c), threeRecords()...) }

// edit returns a copy of b that f has changed, with a right CRC.
func edit(b Batch, f func(b Batch)) Batch {
	b = append(Batch(nil), b...)
	f(b)
	b.updateCRC()
	return b
}

// withPayload returns a batch of count records whose payload, before compression with c, is p.
func withPayload(c Codec, count int, p []byte) Batch {
	b := three(c)[:HeaderSize:HeaderSize]
	z, err := Compress(b, c, 0, p)
	if err != nil {
		panic(err)
	}
	b = z
	b.setSize()
	binary.BigEndian.PutUint32(b[posCount:], uint32(count))
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(count-1))
	b.updateCRC()
	return b
}

// garbled returns a batch that says it is compressed with c and is not.
func garbled(c Codec, payload string) Batch {
	b := withPayload(None, 3, []byte(payload))
	return edit(b, func(b Batch) { b.setAttributes(int16(c)) })
}

// rawRecord is a record with its size; the fields of r, the deltas given.
func rawRecord(offsetDelta, timestampDelta int64, r Record) []byte {
	body := appendRecord(nil, offsetDelta, timestampDelta, &r)
	return append(appendVarint(nil, int64(len(body))), body...)
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// message is a message of magic 0 or 1.
func message(magic int8, offset int64, attributes byte, timestamp int64, key, value string) []byte {
	return appendLegacy(nil, magic, attributes, offset, timestamp, []byte(key), []byte(value))
}

// wrapper is a compressed set of inner messages.
func wrapper(magic int8, c Codec, offset, timestamp int64, attributes byte, inner ...[]byte) []byte {
	s := sink{max: maxEntryBytes}
	if err := compressTo(&s, c, 0, magic, join(inner...)); err != nil {
		panic(err)
	}
	return appendLegacy(nil, magic, attributes|byte(c), offset, timestamp, nil, s.buf)
}

// testSets are sets of every kind of right and wrong.
func testSets() (sets []testSet) {
	add := func(topic string, version int16, name string, raw []byte) {
		sets = append(sets, testSet{name, topic, version, raw})
	}
	currentSets(add)
	brokenRecordSets(add)
	legacySets(add)
	return sets
}

func currentSets(add func(topic string, version int16, name string, raw []byte)) {
	ok := three(None)
	for _, topic := range []string{"down", "downappend"} {
		for c := None; c < Zstd; c++ {
			add(topic, 9, fmt.Sprint(c), three(c))
		}
		add(topic, 9, "one", mustBuild(noProducer(None), Record{Key: []byte("tombstone"), Timestamp: testTime}))
	}
	for c := None; c <= Zstd; c++ {
		for _, topic := range []string{"create", "append", "plain", "gzip", "snappy", "lz4", "zstd", "gzappend"} {
			add(topic, 9, fmt.Sprintf("%v to %s", c, topic), three(c))
		}
		add("compact", 9, fmt.Sprintf("%v without key", c), mustBuild(noProducer(c), Record{Key: []byte("k")}, Record{Value: []byte("v")}, Record{Key: []byte("k")}, Record{}))
	}
	add("create", 9, "wrong crc", func() []byte { b := three(None); b[20]++; return b }())
	add("create", 3, "nothing", nil)
	add("create", 2, "nothing, old", nil)
	add("create", 9, "two batches", join(ok, ok))
	add("create", 2, "two batches, old", join(ok, ok))
	add("create", 2, "magic 2, old", ok)
	add("create", 9, "cut batch", ok[:len(ok)-1])
	add("create", 9, "batch and cut batch", join(ok, ok[:20]))
	add("create", 9, "base offset 5", edit(ok, func(b Batch) { b.SetBaseOffset(5) }))
	add("small", 9, "too large", mustBuild(noProducer(None), Record{Value: make([]byte, 500)}))
	add("small", 9, "just fits", mustBuild(noProducer(None), Record{Value: make([]byte, 300-61-11)}))
	add("small", 1, "too large after conversion", join(message(1, 0, 0, testTime, "k", string(make([]byte, 200))), message(1, 0, 0, testTime, "k", string(make([]byte, 200)))))
	add("create", 9, "count too small", edit(ok, func(b Batch) { b[posCount+3] = 2 }))
	add("create", 9, "count 0", edit(ok, func(b Batch) { b[posCount+3] = 0 }))
	add("create", 9, "count negative", edit(ok, func(b Batch) { b[posCount] = 0xff }))
	add("create", 9, "last offset delta -1", edit(ok, func(b Batch) { copy(b[posLastOffsetDelta:], "\xff\xff\xff\xff") }))
	add("create", 9, "control", edit(ok, func(b Batch) { b.setAttributes(attrControl) }))
	add("create", 9, "no sequence", edit(ok, func(b Batch) { copy(b[posProducerID:], "\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00") }))
	add("after", 9, "too new", mustBuild(noProducer(None), Record{Timestamp: testTime}, Record{Timestamp: 4e12}))
	add("after", 9, "too old", mustBuild(noProducer(Gzip), Record{Timestamp: 0}, Record{Timestamp: testTime}, Record{Timestamp: -1}))
	add("append", 9, "says append time", edit(ok, func(b Batch) { b.setAttributes(attrLogAppendTime) }))
	add("create", 9, "says append time", edit(ok, func(b Batch) { b.setAttributes(attrLogAppendTime) }))
	add("create", 9, "says append time, none", edit(ok, func(b Batch) { b.setAttributes(attrLogAppendTime); b.setMaxTimestamp(-1) }))
	add("create", 6, "zstd v6", three(Zstd))
	add("create", 7, "zstd v7", three(Zstd))
	add("create", 9, "codec 5", edit(ok, func(b Batch) { b.setAttributes(5) }))
	add("create", 9, "delete horizon", edit(ok, func(b Batch) { b.setAttributes(attrDeleteHorizon) }))
	add("create", 9, "unknown attributes", edit(ok, func(b Batch) { b.setAttributes(0x0180) }))
	add("append", 9, "unknown attributes", edit(ok, func(b Batch) { b.setAttributes(0x0180) }))
	add("create", 9, "max timestamp wrong", edit(ok, func(b Batch) { b.setMaxTimestamp(5) }))
	add("create", 9, "max timestamp wrong, gzip", edit(three(Gzip), func(b Batch) { b.setMaxTimestamp(5) }))
	add("create", 9, "no timestamps", mustBuild(noProducer(None), Record{Timestamp: -1}, Record{Timestamp: -1}))
	add("create", 9, "magic 3", edit(ok, func(b Batch) { b[posMagic] = 3 }))
	add("create", 9, "magic -1", edit(ok, func(b Batch) { b[posMagic] = 0xff }))
	add("create", 9, "size 13", edit(ok, func(b Batch) { b[posSize+3] = 13 }))
	add("create", 9, "size negative", edit(ok, func(b Batch) { b[posSize] = 0xff }))
}

func brokenRecordSets(add func(topic string, version int16, name string, raw []byte)) {
	one := rawRecord(0, 0, Record{Key: []byte("k"), Value: []byte("v")})
	for c := None; c <= Zstd; c++ {
		with := func(name string, count int, p []byte) {
			add("create", 9, fmt.Sprintf("%s, %v", name, c), withPayload(c, count, p))
		}
		with("more records than counted", 1, join(one, one))
		with("fewer records than counted", 2, one)
		with("record cut", 1, one[:len(one)-1])
		with("size of record too large", 1, join([]byte{one[0] + 2}, one[1:]))
		with("size of record too small", 1, join([]byte{one[0] - 2}, one[1:]))
		with("size of record 0", 1, []byte{0})
		with("size of record negative", 1, []byte{1})
		with("size of record huge", 1, join([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, one[1:]))
		with("headers negative", 1, join(one[:len(one)-1], []byte{1}))
		with("header key null", 1, join([]byte{one[0] + 2*2}, one[1:len(one)-1], []byte{2, 1, 1}))
		with("offsets 0, 0", 2, join(one, one))
		with("offsets 0, 5", 2, join(one, rawRecord(5, 0, Record{})))
		with("offsets 1, 0", 2, join(rawRecord(1, 3, Record{Value: []byte("b")}), rawRecord(0, 0, Record{Value: []byte("a")})))
		with("key size -5", 1, []byte{7 * 2, 0, 0, 0, 9, 2, 'v', 0})
		if c != None {
			add("create", 9, fmt.Sprintf("not %v", c), garbled(c, "this is not compressed at all, whatever the attributes say"))
			add("gzappend", 9, fmt.Sprintf("not %v, to gzip", c), garbled(c, "this is not compressed at all, whatever the attributes say"))
			cut := three(c)
			cut = cut[:len(cut)-6]
			add("create", 9, fmt.Sprintf("%v cut", c), edit(cut, func(b Batch) { b.setSize() }))
			tail := append(three(c), "garbage"...)
			add("create", 9, fmt.Sprintf("%v with tail", c), edit(tail, func(b Batch) { b.setSize() }))
		}
	}
}

func legacySets(add func(topic string, version int16, name string, raw []byte)) {
	for magic := int8(0); magic <= 1; magic++ {
		m := func(i int64) []byte {
			return message(magic, i, 0, testTime+i*1000, fmt.Sprint("k", i), fmt.Sprint("value ", i))
		}
		name := func(s string) string { return fmt.Sprintf("magic %d: %s", magic, s) }
		v := int16(magic) + 1
		for _, topic := range []string{"create", "append", "gzip", "zstd"} {
			add(topic, v, name("three to "+topic), join(m(0), m(1), m(2)))
			add(topic, v, name("gzip to "+topic), wrapper(magic, Gzip, 2, testTime+2000, 0, m(0), m(1), m(2)))
		}
		add("create", v, name("no key, null value"), appendLegacy(nil, magic, 0, 0, testTime, nil, nil))
		add("create", v, name("snappy"), wrapper(magic, Snappy, 2, testTime+2000, 0, m(0), m(1), m(2)))
		add("create", v, name("lz4"), wrapper(magic, LZ4, 2, testTime+2000, 0, m(0), m(1), m(2)))
		add("create", v, name("zstd"), wrapper(magic, Zstd, 2, testTime+2000, 0, m(0), m(1), m(2)))
		add("create", v, name("wrapper offset 0"), wrapper(magic, Gzip, 0, testTime, 0, m(0), m(1), m(2)))
		add("create", v, name("wrapper offset too small"), wrapper(magic, Gzip, 1, testTime, 0, m(0), m(1), m(2)))
		add("create", v, name("wrapper offset 100"), wrapper(magic, Gzip, 100, testTime, 0, m(0), m(1), m(2)))
		add("create", v, name("two wrappers"), join(wrapper(magic, Gzip, 0, testTime, 0, m(0)), wrapper(magic, Gzip, 1, testTime, 0, m(0))))
		add("create", v, name("message and wrapper"), join(m(0), wrapper(magic, Gzip, 1, testTime, 0, m(0))))
		add("create", v, name("nested"), wrapper(magic, Gzip, 0, testTime, 0, wrapper(magic, Gzip, 0, testTime, 0, m(0))))
		add("create", v, name("other magic inside"), wrapper(magic, Gzip, 0, testTime, 0, message(1-magic, 0, 0, testTime, "k", "v")))
		add("create", v, name("other magic beside"), join(m(0), message(1-magic, 0, 0, testTime, "k", "v")))
		add("create", v, name("wrong inner crc"), wrapper(magic, Gzip, 0, testTime, 0, func() []byte { b := m(0); b[posLegacyCRC]++; return b }()))
		add("create", v, name("wrong crc"), func() []byte { b := m(0); b[posLegacyCRC]++; return b }())
		add("create", v, name("null set"), appendLegacy(nil, magic, byte(Gzip), 0, testTime, nil, nil))
		add("create", v, name("empty set"), wrapper(magic, Gzip, 0, testTime, 0))
		add("create", v, name("cut set"), wrapper(magic, Gzip, 1, testTime, 0, m(0), m(1)[:20]))
		add("create", v, name("not gzip"), appendLegacy(nil, magic, byte(Gzip), 0, testTime, nil, []byte("nonsense")))
		add("create", v, name("codec 6"), appendLegacy(nil, magic, 6, 0, testTime, nil, []byte("nonsense")))
		add("create", v, name("cut message"), join(m(0), m(1)[:10]))
		add("create", v, name("key too long"), func() []byte {
			b := m(0)
			b[Entry(b).keyPosition()] = 0x7f
			binary.BigEndian.PutUint32(b[posLegacyCRC:], crc32.ChecksumIEEE(b[posMagic:]))
			return b
		}())
		add("compact", v, name("no key"), join(m(0), appendLegacy(nil, magic, 0, 1, testTime, nil, []byte("v"))))
		add("after", v, name("too new"), message(magic, 0, 0, 4e12, "k", "v"))
		add("append", v, name("says append time"), message(magic, 0, attrLogAppendTime, testTime, "k", "v"))
		add("create", v, name("wrapper says append time"), wrapper(magic, Gzip, 1, testTime+5, attrLogAppendTime, m(0), m(1)))
		add("create", 3, name("in produce v3"), m(0))
		add("create", 9, name("in produce v9"), wrapper(magic, Gzip, 0, testTime, 0, m(0)))
	}
}
