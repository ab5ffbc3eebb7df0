// Package segment owns the files of one segment of a log: the record batches, the sparse offset and time indexes, the
// index of aborted transactions, their names, and their recovery.
//
// A segment is cheap while nobody uses it: no descriptor is open and no index is in memory. Descriptors are opened on
// demand within a budget (Files) and stay open for those who hold them. Of an index that is used, memory holds one key
// per 512 entries and, of a segment that grows, the last entries, which are written to the file by the block.
//
// Concurrency: one writer (the log's lock) appends, seals, truncates and renames. Any number of readers find and read
// at the same time, up to positions that the writer published before.
package segment
