// Package dump shows what the files of a partition hold, in the words of Kafka's kafka-dump-log: batches and records,
// indexes checked against their log, aborted transactions, producer snapshots. It reads files as a stream, through package
// os since log/vfs opens for writing, too.
//
// After kafka.tools.DumpLogSegments.
package dump

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/log/segment"
)

// Options choose what is shown.
type Options struct {
	Deep               bool  // records, too
	PrintData          bool  // with keys and values; implies Deep
	SkipRecordMetadata bool  // of records show only keys and values
	IndexSanityOnly    bool  // of indexes, only whether a start would rebuild them
	VerifyIndexOnly    bool  // of indexes, only what is wrong
	MaxBytes           int64 // of a log file, 0 for all
	// Decode makes text of a record in place of its bytes, "" for nothing to show; for the internal topics.
	Decode func(key, value []byte) (k, v string)
	// Problems is where findings go, what kafka-dump-log writes to standard error; nil for the same writer.
	Problems io.Writer
}

// Run writes what the files at paths hold to w. Of a directory it takes all files that it knows, in the order of names.
// What is wrong with a file is a finding, not an error: an error is of reading or writing.
func Run(w io.Writer, paths []string, o Options) error {
	out := bufio.NewWriterSize(w, 64<<10)
	d := dumper{Options: o, out: out}
	d.Deep = d.Deep || d.PrintData
	files, err := expand(paths)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := d.file(f); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	if o.Problems == nil {
		d.report(out)
		return out.Flush()
	}
	if err := out.Flush(); err != nil {
		return err
	}
	problems := bufio.NewWriter(o.Problems)
	d.report(problems)
	return problems.Flush()
}

// known are the suffixes of files that can be shown.
var known = []string{segment.LogSuffix, segment.IndexSuffix, segment.TimeIndexSuffix, segment.SnapshotSuffix, segment.TxnIndexSuffix}

func expand(paths []string) (files []string, err error) {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, e := range entries {
			if slices.Contains(known, filepath.Ext(e.Name())) {
				files = append(files, filepath.Join(p, e.Name()))
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s holds no file of a partition; name a partition's folder, as in data/orders-0", p)
		}
	}
	return files, nil
}

// dumper shows files one after the other. Errors of out show when it is flushed.
type dumper struct {
	Options
	out      *bufio.Writer
	findings []finding
}

// finding is what is wrong with a file: a sentence and lines.
type finding struct {
	sentence string
	lines    []string
}

// found adds a line to the finding with the given sentence.
func (d *dumper) found(sentence, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for i := range d.findings {
		if d.findings[i].sentence == sentence {
			d.findings[i].lines = append(d.findings[i].lines, line)
			return
		}
	}
	d.findings = append(d.findings, finding{sentence, []string{line}})
}

func (d *dumper) report(w *bufio.Writer) {
	for _, f := range d.findings {
		fmt.Fprintln(w, f.sentence)
		for _, l := range f.lines {
			fmt.Fprintln(w, "  "+l)
		}
	}
}

func (d *dumper) file(path string) error {
	fmt.Fprintf(d.out, "Dumping %s\n", path)
	switch filepath.Ext(path) {
	case segment.LogSuffix:
		return d.log(path)
	case segment.IndexSuffix:
		return d.offsetIndex(path)
	case segment.TimeIndexSuffix:
		return d.timeIndex(path)
	case segment.SnapshotSuffix:
		return d.snapshot(path)
	case segment.TxnIndexSuffix:
		return d.txnIndex(path)
	}
	d.found("Ignoring unknown files", "%s", path)
	return nil
}

// baseOffset is the offset in a file's name.
func baseOffset(path string) (int64, error) {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	base, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the name does not begin with an offset")
	}
	return base, nil
}

// sibling is the file of the same segment with another suffix.
func sibling(path, suffix string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + suffix
}
