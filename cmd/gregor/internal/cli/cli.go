// Package cli holds what the commands share: the connection to a broker, completion from it, tables, and errors in
// words.
package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrReported ends a command whose failure has been told already.
var ErrReported = errors.New("failed")

// ExitCode is what a command that ended with err exits with: 2 for a wrong command line, 1 for everything else.
func ExitCode(err error) int {
	if errors.As(err, &usageError{}) {
		return 2
	}
	return 1
}

// ownWords are for errors of which the protocol's words say too little to a person.
var ownWords = map[*kerr.Error]string{
	kerr.UnknownTopicOrPartition: "There is no such topic or partition.",
	kerr.GroupIDNotFound:         "There is no such group: no consumer has joined under this name or committed, or it was deleted.",
}

// Explain says what a broker answered: the error's name, and the broker's own words or else ours or those of the protocol. Of a
// request that went to several brokers it says each error once.
func Explain(err error, message string) error {
	if err == nil {
		return nil
	}
	if shards, ok := err.(*kadm.ShardErrors); ok {
		return explainShards(shards)
	}
	var kafka *kerr.Error
	if !errors.As(err, &kafka) {
		return err
	}
	if message == "" || message == kafka.Description {
		message = kafka.Description
		if ours := ownWords[kafka]; ours != "" {
			message = ours
		}
	}
	return fmt.Errorf("%s: %s", kafka.Message, message)
}

func explainShards(shards *kadm.ShardErrors) error {
	var texts []string
	for _, s := range shards.Errs {
		text := Explain(s.Err, "").Error()
		if s.Broker.NodeID >= 0 {
			text = fmt.Sprintf("broker %d: %s", s.Broker.NodeID, text)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return errors.New(strings.Join(texts, "; "))
}

// Table writes rows in columns. The first row is the header. No line ends in spaces.
func Table(w io.Writer, rows [][]string) error {
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// Failures collects what went wrong with single items of a command that works on several.
type Failures struct{ count, total int }

// Report prints the outcome of one item: ok to out, an error to errOut.
func (f *Failures) Report(out, errOut io.Writer, item, ok string, err error) {
	if !f.Check(errOut, item, err) {
		fmt.Fprintf(out, "%s: %s\n", item, ok)
	}
}

// Check prints the error of one item, if there is one, and says so.
func (f *Failures) Check(errOut io.Writer, item string, err error) (failed bool) {
	f.total++
	if err == nil {
		return false
	}
	f.count++
	fmt.Fprintf(errOut, "%s: %v\n", item, err)
	return true
}

// Err is nil if nothing went wrong.
func (f *Failures) Err() error {
	switch {
	case f.count == 0:
		return nil
	case f.total == 1:
		return ErrReported
	}
	return fmt.Errorf("%d of %d failed", f.count, f.total)
}

// Count writes a number of things: "1 record", "2 records".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// IsTerminal says whether f is a terminal, so that a person may be looking.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
