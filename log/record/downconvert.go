package record

// Downconvert appends entries to dst as magic 0 or 1, for Fetch v0-v3. Control batches and headers are dropped. Records
// of uncompressed batches before fetchOffset are dropped too, since some old clients take the first message for the
// one they asked for. A truncated last entry ends the conversion.
func Downconvert(dst, entries []byte, magic int8, fetchOffset int64, lim Limits) ([]byte, error) {
	panic("not yet")
}
