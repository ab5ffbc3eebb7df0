// Package history records what the clients of a cluster were told while it was being broken, and judges it: whether what was
// acknowledged is there, once and in order, and whether anybody saw what is no longer so.
//
// Records carry who sent them and its how-manieth of that partition they are, so that the log that is read in the end can be held
// against every answer. The checker knows nothing of brokers; a history can be read from its file and judged again.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Kind says what an event is about.
type Kind string

// The events of a history.
const (
	// Sent is the end of a produce with acks=all: acknowledged at Offset, or with Err.
	Sent Kind = "sent"
	// Read is a record that a reader was given.
	Read Kind = "read"
	// Latest is an end offset that a reader was told.
	Latest Kind = "latest"
	// Commit is the end of a commit of Offset by a group's only committer, which commits rising offsets.
	Commit Kind = "commit"
	// Committed is the committed offset that a reader of the group was told; -1 for none.
	Committed Kind = "committed"
	// Final is a record of the log as it is when all is over, Finish the end of a partition's log then.
	Final  Kind = "final"
	Finish Kind = "finish"
	// FinalCommitted is a group's committed offset when all is over.
	FinalCommitted Kind = "final-committed"
	// Broken is a time in which a broker that does not know that it was deposed may answer with what it knew: paused, or cut off.
	Broken Kind = "broken"
)

// ID names a record: its sender and how many the sender sent to that partition before.
type ID struct {
	Sender int   `json:"s"`
	Seq    int64 `json:"n"`
}

// Event is one line of a history. Begin and End, since the history's start, bracket the operation.
type Event struct {
	Kind       Kind          `json:"k"`
	Client     string        `json:"c,omitempty"` // the reader or the group
	Partition  int32         `json:"p"`
	Offset     int64         `json:"o"`
	ID         ID            `json:"id,omitzero"`
	Idempotent bool          `json:"i,omitempty"` // of Sent: the sender is idempotent
	Err        string        `json:"e,omitempty"`
	Begin      time.Duration `json:"b"`
	End        time.Duration `json:"t"`
}

// Value returns a record's value, filled up to at least size bytes.
func (id ID) Value(size int) []byte {
	text := fmt.Sprintf("%d/%d/", id.Sender, id.Seq)
	if len(text) < size {
		text += strings.Repeat("x", size-len(text))
	}
	return []byte(text)
}

// ParseValue returns the id in a record's value.
func ParseValue(value []byte) (ID, error) {
	var id ID
	if _, err := fmt.Sscanf(string(value), "%d/%d/", &id.Sender, &id.Seq); err != nil {
		return ID{}, fmt.Errorf("the value %.60q names no record: %w", value, err)
	}
	return id, nil
}

// Recorder collects events. Safe for concurrent use.
type Recorder struct {
	start time.Time
	mu    struct {
		sync.Mutex
		events []Event
	}
}

// NewRecorder starts a history.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// Now returns the time since the history's start.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// Add records an event that ends now.
func (r *Recorder) Add(e Event) {
	e.End = r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.events = append(r.mu.events, e)
}

// Events returns the events so far, in the order in which they ended.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.mu.events...)
}

// Write writes events, one JSON object a line.
func Write(w io.Writer, events []Event) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	for _, e := range events {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// ReadAll reads what Write wrote.
func ReadAll(r io.Reader) ([]Event, error) {
	var events []Event
	decoder := json.NewDecoder(bufio.NewReader(r))
	for {
		var e Event
		if err := decoder.Decode(&e); err == io.EOF {
			return events, nil
		} else if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}
