package dump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
)

const (
	offsetEntryBytes   = 8
	timeEntryBytes     = 12
	txnEntryBytes      = 34
	snapshotEntryBytes = 46
)

// offsetEntry is an entry of an offset index.
type offsetEntry struct {
	offset int64
	pos    int64
}

// readOffsetIndex reads an index up to the zeros that a crash leaves behind its end.
func readOffsetIndex(path string, base int64) (list []offsetEntry, rest int, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	for ; len(raw) >= offsetEntryBytes; raw = raw[offsetEntryBytes:] {
		e := offsetEntry{base + int64(binary.BigEndian.Uint32(raw)), int64(binary.BigEndian.Uint32(raw[4:]))}
		if e.offset == base && len(list) > 0 {
			return list, len(raw) % offsetEntryBytes, nil
		}
		list = append(list, e)
	}
	return list, len(raw), nil
}

func (d *dumper) offsetIndex(path string) error {
	base, err := baseOffset(path)
	if err != nil {
		return err
	}
	list, rest, err := readOffsetIndex(path, base)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintf(d.out, "%s is empty.\n", path)
		return nil
	}
	if d.IndexSanityOnly {
		d.sanity(path, rest == 0 && list[len(list)-1].offset >= base)
		return nil
	}
	log, err := openEntries(sibling(path, segment.LogSuffix), 0)
	if err != nil {
		return err
	}
	defer log.close()
	for _, e := range list {
		log.pos = e.pos
		batch, err := log.next()
		if err != nil {
			d.found("Mismatches in :"+path, "Index offset: %d, no batch at position %d: %v", e.offset, e.pos, err)
		} else if batch.LastOffset() != e.offset {
			d.found("Mismatches in :"+path, "Index offset: %d, log offset: %d", e.offset, batch.LastOffset())
		}
		if !d.VerifyIndexOnly {
			fmt.Fprintf(d.out, "offset: %d position: %d\n", e.offset, e.pos)
		}
	}
	return nil
}

func (d *dumper) sanity(path string, ok bool) {
	if ok {
		fmt.Fprintf(d.out, "%s passed sanity check.\n", path)
	} else {
		d.found("Failed sanity checks", "%s", path)
	}
}

// timeEntry is an entry of a time index.
type timeEntry struct {
	timestamp int64
	offset    int64
}

func (d *dumper) timeIndex(path string) error {
	base, err := baseOffset(path)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list []timeEntry
	for rest := raw; len(rest) >= timeEntryBytes; rest = rest[timeEntryBytes:] {
		e := timeEntry{int64(binary.BigEndian.Uint64(rest)), base + int64(binary.BigEndian.Uint32(rest[8:]))}
		if e.offset == base && len(list) > 0 {
			break
		}
		list = append(list, e)
	}
	if d.IndexSanityOnly {
		d.sanity(path, len(raw)%timeEntryBytes == 0)
		return nil
	}
	if len(list) == 0 {
		return nil
	}
	return d.checkTimes(path, base, list)
}

// checkTimes shows a time index and compares it with the log.
func (d *dumper) checkTimes(path string, base int64, list []timeEntry) error {
	offsets, _, err := readOffsetIndex(sibling(path, segment.IndexSuffix), base)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, err := openEntries(sibling(path, segment.LogSuffix), 0)
	if err != nil {
		return err
	}
	defer log.close()
	previous := record.NoTimestamp
	for _, e := range list {
		log.pos = 0
		for _, o := range offsets {
			if o.offset <= e.offset {
				log.pos = o.pos
			}
		}
		batch, err := find(log, e.offset)
		if err != nil {
			return err
		}
		d.checkTime(path, e, batch, previous)
		if !d.VerifyIndexOnly {
			fmt.Fprintf(d.out, "timestamp: %d offset: %d\n", e.timestamp, e.offset)
		}
		previous = e.timestamp
	}
	return nil
}

// find returns the first batch from log's position on that ends at or behind offset, nil if there is none.
func find(log *entries, offset int64) (record.Entry, error) {
	for {
		e, err := log.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrTruncated):
			return nil, nil
		case err != nil:
			return nil, err
		case e.LastOffset() >= offset:
			return e, nil
		}
	}
}

func (d *dumper) checkTime(path string, e timeEntry, batch record.Entry, previous int64) {
	const notFound = "The following indexed offsets are not found in the log."
	if batch == nil {
		d.found(notFound, "Indexed offset: %d, found log offset: -1", e.offset)
		return
	}
	if batch.LastOffset() != e.offset {
		d.found(notFound, "Indexed offset: %d, found log offset: %d", e.offset, batch.LastOffset())
		return
	}
	greatest := record.NoTimestamp
	for r, err := range batch.Records(record.Limits{}) {
		if err != nil {
			d.found("Records that cannot be read for "+path, "offset %d: %v", e.offset, err)
			return
		}
		greatest = max(greatest, r.Timestamp)
	}
	if greatest != e.timestamp {
		d.found("Found timestamp mismatch in :"+path, "Index timestamp: %d, log timestamp: %d", e.timestamp, greatest)
	}
	if previous >= e.timestamp {
		d.found("Found out of order timestamp in :"+path, "Index timestamp: %d, Previously indexed timestamp: %d", e.timestamp, previous)
	}
}

func (d *dumper) txnIndex(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for ; len(raw) >= txnEntryBytes; raw = raw[txnEntryBytes:] {
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(raw[2+8*i:])) }
		fmt.Fprintf(d.out, "version: %d producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
			int16(binary.BigEndian.Uint16(raw)), at(0), at(1), at(2), at(3))
	}
	if len(raw) > 0 {
		d.found("Trailing bytes", "%s has %d bytes after its last entry", path, len(raw))
	}
	return nil
}

// snapshot shows a producer snapshot: int16 version, uint32 CRC-32C of what follows, int32 count, entries.
func (d *dumper) snapshot(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const header = 10
	if len(raw) < header {
		d.found("Corrupt snapshots", "%s has %d bytes", path, len(raw))
		return nil
	}
	version, crc, count := binary.BigEndian.Uint16(raw), binary.BigEndian.Uint32(raw[2:]), binary.BigEndian.Uint32(raw[6:])
	body := raw[header:]
	switch sum := crc32.Checksum(raw[6:], crc32.MakeTable(crc32.Castagnoli)); {
	case version != 1:
		d.found("Corrupt snapshots", "%s has version %d", path, version)
		return nil
	case sum != crc:
		d.found("Corrupt snapshots", "%s: stored crc %d, computed crc %d", path, crc, sum)
		return nil
	case uint64(count)*snapshotEntryBytes != uint64(len(body)):
		d.found("Corrupt snapshots", "%s says that it has %d producers in %d bytes", path, count, len(body))
		return nil
	}
	for ; len(body) > 0; body = body[snapshotEntryBytes:] {
		d.producer(body)
	}
	return nil
}

// producer shows an entry of a snapshot.
func (d *dumper) producer(b []byte) {
	u32 := func(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	id, epoch, lastSequence := u64(0), int16(binary.BigEndian.Uint16(b[8:])), u32(10)
	lastOffset, delta, timestamp, coordinatorEpoch, txnFirst := u64(14), u32(22), u64(26), u32(34), u64(38)
	fmt.Fprintf(d.out, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d ",
		id, epoch, coordinatorEpoch, optional(txnFirst), timestamp)
	if lastOffset >= 0 {
		first := int32((int64(lastSequence) - int64(delta)) & math.MaxInt32) // sequences wrap
		fmt.Fprintf(d.out, "firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
			first, lastSequence, lastOffset, delta, timestamp)
	}
	fmt.Fprintln(d.out)
}

// optional is an offset as Java prints an OptionalLong, of which -1 is empty.
func optional(offset int64) string {
	if offset < 0 {
		return "OptionalLong.empty"
	}
	return fmt.Sprintf("OptionalLong[%d]", offset)
}
