// Package bank checks what readers saw of transfers between accounts. Every transfer is one transaction, and every record of
// it says which state of its account it follows, so that a lost, doubled, half or aborted transfer shows.
package bank

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Entry is one record: what a transfer does to one account.
type Entry struct {
	Transfer string
	Of       int // records of the transfer
	Account  string
	Version  int // 1 for the first entry of an account
	Delta    int
	Balance  int // after it
}

// Value returns the record's value.
func (e Entry) Value() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // numbers and strings can always be written
	}
	return b
}

// Account is the state that an account's entries led to.
type Account struct{ Version, Balance int }

// Ledger is one reader's view. Not safe for concurrent use.
type Ledger struct {
	accounts   map[string]Account
	transfers  map[string]*transfer
	next       map[int32]int64 // by partition: the smallest offset that may come
	violations []string
}

type transfer struct{ of, seen int }

// NewLedger returns a ledger of a reader that begins at the start.
func NewLedger() *Ledger {
	return &Ledger{accounts: map[string]Account{}, transfers: map[string]*transfer{}, next: map[int32]int64{}}
}

func (l *Ledger) violated(format string, args ...any) {
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

// Note takes a record that the reader was given.
func (l *Ledger) Note(partition int32, offset int64, value []byte) {
	var e Entry
	if err := json.Unmarshal(value, &e); err != nil {
		l.violated("offset %d of partition %d: %q is no entry", offset, partition, value)
		return
	}
	if offset < l.next[partition] {
		l.violated("partition %d: offset %d came again", partition, offset)
		return
	}
	l.next[partition] = offset + 1
	a := l.accounts[e.Account]
	if e.Version != a.Version+1 || e.Balance != a.Balance+e.Delta {
		l.violated("offset %d of partition %d: %+v follows version %d with balance %d", offset, partition, e, a.Version, a.Balance)
	}
	l.accounts[e.Account] = Account{e.Version, e.Balance}
	t := l.transfers[e.Transfer]
	if t == nil {
		t = &transfer{of: e.Of}
		l.transfers[e.Transfer] = t
	}
	if t.seen++; t.seen > t.of {
		l.violated("transfer %s: %d records of %d", e.Transfer, t.seen, t.of)
	}
}

// Account returns the state of an account.
func (l *Ledger) Account(name string) Account { return l.accounts[name] }

// Total is what the accounts hold together.
func (l *Ledger) Total() int {
	sum := 0
	for _, a := range l.accounts {
		sum += a.Balance
	}
	return sum
}

// Violations are what contradicted itself so far.
func (l *Ledger) Violations() []string { return slices.Clone(l.violations) }

// Check compares the ledger of a reader that has seen everything with what the writers know: of every transfer all records or
// none, all of those that were committed, none of those that were aborted.
func (l *Ledger) Check(committed, aborted []string) []string {
	found := l.Violations()
	for name, t := range l.transfers {
		if t.seen != t.of {
			found = append(found, fmt.Sprintf("transfer %s: %d records of %d are there", name, t.seen, t.of))
		}
	}
	for _, name := range committed {
		if l.transfers[name] == nil {
			found = append(found, "transfer "+name+" was committed and is lost")
		}
	}
	for _, name := range aborted {
		if l.transfers[name] != nil {
			found = append(found, "transfer "+name+" was aborted and is there")
		}
	}
	slices.Sort(found)
	return found
}
