// Package epoch is the leader epochs of a log: at which offset each began, and the file that keeps them (KIP-101).
package epoch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// FileName is the name of the file in a partition's directory.
const FileName = "leader-epoch-checkpoint"

// Entry says that the epoch began at Start.
type Entry struct {
	Epoch int32
	Start int64
}

// History is the epochs of a log, both fields strictly rising. Immutable: what changes it returns another one.
// Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.
type History []Entry

// Latest is the last epoch.
func (h History) Latest() (int32, bool) {
	if len(h) == 0 {
		return -1, false
	}
	return h[len(h)-1].Epoch, true
}

// Assign returns the history in which epoch begins at start, and whether it differs: epochs that are not older or begin
// no earlier are forgotten. It does not differ if epoch is the latest and began no later.
func (h History) Assign(epoch int32, start int64) (History, bool) {
	if epoch < 0 || start < 0 {
		return h, false
	}
	n := len(h)
	if n > 0 && h[n-1].Epoch == epoch && h[n-1].Start <= start {
		return h, false
	}
	for n > 0 && (h[n-1].Epoch >= epoch || h[n-1].Start >= start) {
		n--
	}
	return append(h[:n:n], Entry{epoch, start}), true
}

// EndOffset returns the largest epoch known that is at most epoch, and the offset at which the next one begins: end,
// the log end, for the latest. For an epoch older than all known it is that epoch and the first start; for a newer one,
// and without any, -1 and -1.
func (h History) EndOffset(epoch int32, end int64) (int32, int64) {
	latest, ok := h.Latest()
	switch {
	case !ok || epoch == -1 || epoch > latest:
		return -1, -1
	case epoch == latest:
		return epoch, end
	}
	i := 0
	for h[i].Epoch <= epoch {
		i++
	}
	if i == 0 {
		return epoch, h[0].Start
	}
	return h[i-1].Epoch, h[i].Start
}

// At returns the epoch of the record at offset.
func (h History) At(offset int64) (int32, bool) {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Start <= offset {
			return h[i].Epoch, true
		}
	}
	return -1, false
}

// TruncateEnd forgets the epochs that begin at or after end.
func (h History) TruncateEnd(end int64) (History, bool) {
	n := len(h)
	for n > 0 && h[n-1].Start >= end {
		n--
	}
	return h[:n:n], n < len(h)
}

// TruncateStart forgets what ended before start; the epoch of start begins there.
func (h History) TruncateStart(start int64) (History, bool) {
	i := 0
	for i < len(h) && h[i].Start <= start {
		i++
	}
	if i == 0 || i == 1 && h[0].Start == start {
		return h, false
	}
	out := append(History{{h[i-1].Epoch, start}}, h[i:]...)
	return out, true
}

// Format is the content of the file: version, count, and a line for each epoch.
func (h History) Format() []byte {
	b := make([]byte, 0, 8+24*len(h))
	b = append(b, "0\n"...)
	b = strconv.AppendInt(b, int64(len(h)), 10)
	b = append(b, '\n')
	for _, e := range h {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, e.Start, 10)
		b = append(b, '\n')
	}
	return b
}

// MaxFileBytes bounds the file that is read: a million epochs.
const MaxFileBytes = 32 << 20

// Parse reads what Format wrote. An empty file has no epochs.
func Parse(raw []byte) (History, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if lines[0] != "0" {
		return nil, fmt.Errorf("version %q of the leader epochs is not 0", lines[0])
	}
	if len(lines) < 2 || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, errors.New("the leader epochs are not as many as their file says")
	}
	h := make(History, 0, len(lines)-2)
	for _, line := range lines[2:] {
		left, right, ok := strings.Cut(line, " ")
		epoch, err1 := strconv.ParseUint(left, 10, 31)
		start, err2 := strconv.ParseUint(right, 10, 63)
		if !ok || err1 != nil || err2 != nil {
			return nil, fmt.Errorf("%q is not a leader epoch and its start", line)
		}
		e := Entry{int32(epoch), int64(start)}
		if n := len(h); n > 0 && (h[n-1].Epoch >= e.Epoch || h[n-1].Start >= e.Start) {
			return nil, fmt.Errorf("leader epoch %d at %d follows %d at %d", e.Epoch, e.Start, h[n-1].Epoch, h[n-1].Start)
		}
		h = append(h, e)
	}
	return h, nil
}
