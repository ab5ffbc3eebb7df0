package producer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sort"
)

// Layout of a snapshot: int16 version 1, uint32 CRC-32C of everything after it, int32 count, then the producers: int64
// id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta of the last batch, int64 timestamp, int32
// coordinator epoch, int64 first offset of the open transaction. Source:
// org.apache.kafka.storage.internals.log.ProducerStateManager.
const (
	snapshotVersion = 1
	snapshotHeader  = 10
	snapshotEntry   = 46
	crcEnd          = 6
)

// MaxSnapshotBytes bounds a snapshot that is read: some two million producers.
const MaxSnapshotBytes = 100 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errSnapshot is the cause of errors about snapshots that cannot be used.
var errSnapshot = errors.New("the producer snapshot is damaged")

// Snapshot is the content of a snapshot file, the producers in the order of their ids.
func (s *State) Snapshot() []byte {
	b := make([]byte, snapshotHeader, snapshotHeader+snapshotEntry*len(s.producers))
	binary.BigEndian.PutUint16(b, snapshotVersion)
	binary.BigEndian.PutUint32(b[crcEnd:], uint32(len(s.producers)))
	for _, id := range slices.Sorted(maps.Keys(s.producers)) {
		b = s.producers[id].append(b, id)
	}
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[crcEnd:], castagnoli))
	return b
}

func (e *entry) append(b []byte, id int64) []byte {
	last, _ := e.last()
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint16(b, uint16(e.epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(last.lastSeq))
	b = binary.BigEndian.AppendUint64(b, uint64(last.lastOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(last.delta))
	b = binary.BigEndian.AppendUint64(b, uint64(e.stamp))
	b = binary.BigEndian.AppendUint32(b, uint32(e.coordinatorEpoch))
	return binary.BigEndian.AppendUint64(b, uint64(e.txnFirst))
}

// Load replaces the state by a snapshot, without the producers that have expired at wall time nowMs. After an error the
// state is empty.
func (s *State) Load(raw []byte, nowMs, maxAgeMs int64) error {
	*s = State{}
	if len(raw) < snapshotHeader {
		return fmt.Errorf("%w: %d bytes", errSnapshot, len(raw))
	}
	if v := binary.BigEndian.Uint16(raw); v != snapshotVersion {
		return fmt.Errorf("%w: version %d", errSnapshot, v)
	}
	if crc32.Checksum(raw[crcEnd:], castagnoli) != binary.BigEndian.Uint32(raw[2:]) {
		return fmt.Errorf("%w: wrong checksum", errSnapshot)
	}
	count := int64(binary.BigEndian.Uint32(raw[crcEnd:]))
	rest := raw[snapshotHeader:]
	if int64(len(rest)) != count*snapshotEntry {
		return fmt.Errorf("%w: %d bytes for %d producers", errSnapshot, len(rest), count)
	}
	if count == 0 {
		return nil
	}
	s.producers = make(map[int64]*entry, count)
	for ; len(rest) > 0; rest = rest[snapshotEntry:] {
		id, e := parseEntry(rest)
		if e.expired(nowMs, maxAgeMs) {
			continue
		}
		s.producers[id] = e
		if e.txnFirst >= 0 {
			s.open = append(s.open, span{producerID: id, first: e.txnFirst})
		}
	}
	sort.Slice(s.open, func(i, j int) bool { return s.open[i].first < s.open[j].first })
	return nil
}

func parseEntry(b []byte) (int64, *entry) {
	e := newEntry()
	e.epoch = int16(binary.BigEndian.Uint16(b[8:]))
	last := batch{
		lastSeq:    int32(binary.BigEndian.Uint32(b[10:])),
		lastOffset: int64(binary.BigEndian.Uint64(b[14:])),
		delta:      int32(binary.BigEndian.Uint32(b[22:])),
		stamp:      int64(binary.BigEndian.Uint64(b[26:])),
	}
	if last.lastOffset >= 0 {
		e.add(last)
	}
	e.stamp = last.stamp
	e.coordinatorEpoch = int32(binary.BigEndian.Uint32(b[34:]))
	e.txnFirst = max(int64(binary.BigEndian.Uint64(b[38:])), -1)
	return int64(binary.BigEndian.Uint64(b)), e
}
