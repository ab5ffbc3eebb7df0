package segment

import (
	"strconv"
	"strings"
)

// Suffixes of a segment's files, and those that follow them while a file waits to be removed or to take its place.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
	TxnIndexSuffix  = ".txnindex"
	SnapshotSuffix  = ".snapshot"

	DeletedSuffix = ".deleted"
	CleanedSuffix = ".cleaned"
	SwapSuffix    = ".swap"
)

const nameDigits = 20

// Name returns the name of a file: the offset with 20 digits, and the suffix.
func Name(offset int64, suffix string) string {
	b := make([]byte, nameDigits, nameDigits+len(suffix))
	for i := nameDigits - 1; i >= 0; i-- {
		b[i] = byte('0' + offset%10)
		offset /= 10
	}
	return string(append(b, suffix...))
}

// ParseName splits what Name made: the offset and everything from the first dot on.
func ParseName(name string) (offset int64, suffix string, ok bool) {
	dot := strings.IndexByte(name, '.')
	if dot != nameDigits {
		return 0, "", false
	}
	n, err := strconv.ParseUint(name[:dot], 10, 63)
	if err != nil {
		return 0, "", false
	}
	return int64(n), name[dot:], true
}
