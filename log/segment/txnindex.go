package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
)

// AbortedTxn is an entry of a transaction index: an aborted transaction whose marker is in this segment.
type AbortedTxn struct {
	ProducerID   int64
	FirstOffset  int64
	LastOffset   int64 // of the marker
	StableOffset int64 // last stable offset after it
}

// abortedBytes is the size of an entry in the file: int16 version 0 and four int64.
// Source: org.apache.kafka.storage.internals.log.AbortedTxn.
const abortedBytes = 34

func (a AbortedTxn) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	for _, v := range [...]int64{a.ProducerID, a.FirstOffset, a.LastOffset, a.StableOffset} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// parseAborted reads a transaction index of the segment that begins at base.
func parseAborted(raw []byte, base int64) ([]AbortedTxn, error) {
	if len(raw)%abortedBytes != 0 {
		return nil, fmt.Errorf("%w: %d bytes are no multiple of %d", errBadIndex, len(raw), abortedBytes)
	}
	list := make([]AbortedTxn, 0, len(raw)/abortedBytes)
	for ; len(raw) > 0; raw = raw[abortedBytes:] {
		if v := binary.BigEndian.Uint16(raw); v != 0 {
			return nil, fmt.Errorf("%w: version %d of an aborted transaction", errBadIndex, v)
		}
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(raw[2+8*i:])) }
		a := AbortedTxn{at(0), at(1), at(2), at(3)}
		if a.LastOffset < base || a.FirstOffset > a.LastOffset || len(list) > 0 && list[len(list)-1].LastOffset >= a.LastOffset {
			return nil, fmt.Errorf("%w: aborted transaction %+v out of order", errBadIndex, a)
		}
		list = append(list, a)
	}
	return list, nil
}

// maxTxnIndexBytes bounds a transaction index that is read: two million aborted transactions.
const maxTxnIndexBytes = 64 << 20

// readAborted returns the entries of the file, none if it does not exist.
func (s *Segment) readAborted() ([]AbortedTxn, error) {
	raw, err := s.files.FS.ReadFile(s.path(TxnIndexSuffix), maxTxnIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseAborted(raw, s.base)
}

// CheckTxnIndex returns an error if the transaction index is damaged. It is the one index that the segment cannot
// rebuild alone.
func (s *Segment) CheckTxnIndex() error {
	_, err := s.readAborted()
	return err
}

// AddAborted adds to the transaction index. If the file cannot be written now, the entry stays in memory until Finish
// or Sync succeed. Only the writer calls it.
func (s *Segment) AddAborted(a AbortedTxn) error {
	x, err := s.indexes()
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.aborted); n > 0 && x.aborted[n-1].LastOffset >= a.LastOffset {
		return fmt.Errorf("aborted transaction %+v follows %+v", a, x.aborted[n-1])
	}
	x.aborted = append(x.aborted, a)
	_ = s.writeAborted(x) // tried again by Finish and Sync, which report it
	s.unsyncedTxn.Store(true)
	return nil
}

// writeAborted writes what the file lacks. The caller holds x.mu.
func (s *Segment) writeAborted(x *indexes) error {
	if x.abortedWritten >= len(x.aborted) {
		return nil
	}
	f, err := s.openTxnIndex()
	if err != nil {
		return err
	}
	defer f.Close()
	var buf []byte
	for _, a := range x.aborted[x.abortedWritten:] {
		buf = a.append(buf)
	}
	if _, err := f.WriteAt(buf, int64(x.abortedWritten*abortedBytes)); err != nil {
		return err
	}
	x.abortedWritten = len(x.aborted)
	return nil
}

// AnyAborted says whether the marker of an aborted transaction is in this segment.
func (s *Segment) AnyAborted() (bool, error) {
	x, err := s.indexes()
	if err != nil {
		return false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.aborted) > 0, nil
}

// Aborted appends to dst the aborted transactions that a reader of [from, to) must know. done says that later segments
// have none.
func (s *Segment) Aborted(dst []AbortedTxn, from, to int64) (list []AbortedTxn, done bool, err error) {
	x, err := s.indexes()
	if err != nil {
		return dst, false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.aborted {
		if a.LastOffset >= from && a.FirstOffset < to {
			dst = append(dst, a)
		}
		if a.StableOffset >= to {
			return dst, true, nil
		}
	}
	return dst, false, nil
}
