package bank

import (
	"strings"
	"testing"
)

// pair is a transfer of amount from a, which has version versionA and that balance, to b likewise.
func pair(name string, versionA, a, versionB, b, amount int) []Entry {
	return []Entry{
		{name, 2, "a", versionA + 1, -amount, a - amount},
		{name, 2, "b", versionB + 1, amount, b + amount},
	}
}

func open() []Entry {
	return []Entry{{"open", 2, "a", 1, 100, 100}, {"open", 2, "b", 1, 100, 100}}
}

func concat(parts ...[]Entry) (all []Entry) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// The ledger finds what it is there to find, and nothing in a history that is right.
func TestLedger(t *testing.T) {
	first, second := pair("1", 1, 100, 1, 100, 10), pair("2", 2, 90, 2, 110, 5)
	for name, c := range map[string]struct {
		entries            []Entry
		committed, aborted []string
		want               string // part of what is found; "" for nothing
	}{
		"right":            {entries: concat(open(), first, second), committed: []string{"1", "2"}, aborted: []string{"3"}},
		"not acknowledged": {entries: concat(open(), first, second), committed: []string{"1"}},
		"lost":             {entries: concat(open(), first), committed: []string{"1", "2"}, want: "2 was committed and is lost"},
		"lost in between":  {entries: concat(open(), second), want: "follows version 1"},
		"half":             {entries: concat(open(), first[:1]), want: "1 records of 2 are there"},
		"double":           {entries: concat(open(), first, first), want: "3 records of 2"},
		"double record":    {entries: concat(open(), first, first[:1]), want: "follows version 2"},
		"aborted":          {entries: concat(open(), first), aborted: []string{"1"}, want: "1 was aborted and is there"},
		"two histories":    {entries: concat(open(), first, pair("zombie", 1, 100, 1, 100, 7)), want: "follows version 2"},
		"money":            {entries: concat(open(), []Entry{{"4", 1, "a", 2, 10, 200}}), want: "follows version 1 with balance 100"},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger()
			for i, e := range c.entries {
				l.Note(0, int64(i), e.Value())
			}
			found := strings.Join(l.Check(c.committed, c.aborted), "\n")
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
			if c.want == "" && l.Total() != 200 {
				t.Errorf("the total is %d", l.Total())
			}
		})
	}
}

func TestLedgerOfAReader(t *testing.T) {
	l := NewLedger()
	l.Note(0, 5, open()[0].Value())
	l.Note(0, 5, open()[1].Value())
	l.Note(1, 0, []byte("nonsense"))
	if found := l.Violations(); len(found) != 2 || !strings.Contains(found[0], "came again") || !strings.Contains(found[1], "no entry") {
		t.Errorf("found %q", found)
	}
	if a := l.Account("a"); a != (Account{1, 100}) {
		t.Errorf("account a: %+v", a)
	}
}
