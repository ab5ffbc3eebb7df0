package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxShown is how many violations of one rule are told one by one.
const maxShown = 5

// Summary says how much a history holds, so that a campaign in which nothing happened does not pass for a good one.
type Summary struct {
	Acknowledged, Failed, Reads, Commits, Finals int
}

// Check returns what the history violates, in words; nil if nothing. The rules, each over all partitions:
//
//   - acknowledged: a record acknowledged at an offset is the record of the final log there.
//   - once: a record is in the log at most once, if its sender is idempotent.
//   - order: a sender's records stand in the log in the order in which they were sent; of one that is not idempotent this holds for
//     the first copy of each.
//   - known: the log holds only records that were sent.
//   - whole: the log has no gap.
//   - seen: a record that a reader was given is the record of the final log there, and a reader is given the records one after the other.
//   - latest: no end offset was told that lies behind the log's end.
//   - commits: a committed offset that a reader is told is not below one that was acknowledged, or told, before it asked; and was
//     committed by somebody. While a broker was broken, it may be old.
//   - last commit: in the end, the committed offset is at least the last acknowledged one.
func Check(events []Event) (Summary, []string) {
	c := checker{logs: map[int32]*finalLog{}, sent: map[int32]map[ID]bool{}, shown: map[string]int{}}
	c.collect(events)
	c.checkLogs()
	c.checkSent(events)
	c.checkReads(events)
	c.checkCommits(events)
	return c.summary, c.violations
}

// finalLog is a partition as it was read in the end.
type finalLog struct {
	records  map[int64]ID
	end      int64
	finished bool
}

type checker struct {
	logs       map[int32]*finalLog
	sent       map[int32]map[ID]bool // every record that was sent → its sender is idempotent
	broken     []Event
	summary    Summary
	violations []string
	shown      map[string]int
}

// violated notes a violation of a rule.
func (c *checker) violated(rule, format string, args ...any) {
	c.shown[rule]++
	switch n := c.shown[rule]; {
	case n <= maxShown:
		c.violations = append(c.violations, rule+": "+fmt.Sprintf(format, args...))
	case n == maxShown+1:
		c.violations = append(c.violations, rule+": and more of that")
	}
}

func (c *checker) log(partition int32) *finalLog {
	l := c.logs[partition]
	if l == nil {
		l = &finalLog{records: map[int64]ID{}}
		c.logs[partition] = l
	}
	return l
}

// collect gathers what the rules look up.
func (c *checker) collect(events []Event) {
	for _, e := range events {
		switch e.Kind {
		case Sent:
			if c.sent[e.Partition] == nil {
				c.sent[e.Partition] = map[ID]bool{}
			}
			if _, twice := c.sent[e.Partition][e.ID]; twice {
				c.violated("history", "partition %d: %v was sent twice by the campaign itself", e.Partition, e.ID)
			}
			c.sent[e.Partition][e.ID] = e.Idempotent
		case Final:
			l := c.log(e.Partition)
			if other, ok := l.records[e.Offset]; ok {
				c.violated("history", "partition %d: the log was read twice at offset %d: %v and %v", e.Partition, e.Offset, other, e.ID)
			}
			l.records[e.Offset] = e.ID
			c.summary.Finals++
		case Finish:
			l := c.log(e.Partition)
			l.end, l.finished = e.Offset, true
		case Broken:
			c.broken = append(c.broken, e)
		}
	}
}

// checkLogs: whole, known, once, order.
func (c *checker) checkLogs() {
	for partition, l := range c.logs {
		if !l.finished {
			c.violated("history", "partition %d: the end of the log was not read", partition)
		}
		first := map[ID]int64{}
		last := map[int]int64{} // the largest Seq so far, by sender
		for offset := range l.end {
			id, ok := l.records[offset]
			if !ok {
				c.violated("whole", "partition %d: nothing at offset %d of %d", partition, offset, l.end)
				continue
			}
			idempotent, known := c.sent[partition][id]
			if !known {
				c.violated("known", "partition %d: offset %d holds %v, which nobody sent there", partition, offset, id)
			}
			if before, ok := first[id]; ok {
				if idempotent {
					c.violated("once", "partition %d: %v is at offset %d and at %d", partition, id, before, offset)
				}
				continue
			}
			first[id] = offset
			if before, ok := last[id.Sender]; ok && id.Seq < before {
				c.violated("order", "partition %d: %v comes at offset %d, after number %d of the same sender", partition, id, offset, before)
			}
			last[id.Sender] = max(last[id.Sender], id.Seq)
		}
		for offset := range l.records {
			if offset >= l.end {
				c.violated("history", "partition %d: a record at offset %d behind the end %d", partition, offset, l.end)
			}
		}
	}
}

// checkSent: acknowledged.
func (c *checker) checkSent(events []Event) {
	for _, e := range events {
		switch {
		case e.Kind != Sent:
		case e.Err != "":
			c.summary.Failed++
		default:
			c.summary.Acknowledged++
			if got, ok := c.log(e.Partition).records[e.Offset]; !ok {
				c.violated("acknowledged", "partition %d: %v was acknowledged at offset %d (at %v), the log ends at %d", e.Partition, e.ID,
					e.Offset, e.End, c.log(e.Partition).end)
			} else if got != e.ID {
				c.violated("acknowledged", "partition %d: %v was acknowledged at offset %d (at %v), where there is %v", e.Partition, e.ID,
					e.Offset, e.End, got)
			}
		}
	}
}

// checkReads: seen, latest.
func (c *checker) checkReads(events []Event) {
	type reader struct {
		client    string
		partition int32
	}
	next := map[reader]int64{}
	for _, e := range events {
		switch e.Kind {
		case Read:
			c.summary.Reads++
			if got, ok := c.log(e.Partition).records[e.Offset]; !ok || got != e.ID {
				c.violated("seen", "partition %d: %s was given %v at offset %d (at %v), where there is %v (%v)", e.Partition, e.Client, e.ID,
					e.Offset, e.End, got, ok)
			}
			r := reader{e.Client, e.Partition}
			if want, ok := next[r]; ok && e.Offset != want {
				c.violated("seen", "partition %d: %s was given offset %d (at %v) and not %d", e.Partition, e.Client, e.Offset, e.End, want)
			}
			next[r] = e.Offset + 1
		case Latest:
			if e.Offset > c.log(e.Partition).end {
				c.violated("latest", "partition %d: %s was told that the log ends at %d (at %v), it ends at %d", e.Partition, e.Client,
					e.Offset, e.End, c.log(e.Partition).end)
			}
		}
	}
}

// cursor is the committed offset of a group in a partition, as answers before it allow it to be.
type cursor struct {
	answers []answer                // in order of their end, with rising offsets
	invoked map[int64]time.Duration // every commit, also failed ones → when the first of that offset began
	last    int64                   // the largest acknowledged commit
}

type answer struct {
	end    time.Duration
	offset int64
}

// add notes that from then on nobody may be told less.
func (c *cursor) add(end time.Duration, offset int64) {
	if n := len(c.answers); n == 0 || offset > c.answers[n-1].offset {
		c.answers = append(c.answers, answer{end, offset})
	}
}

// floor is the least that may be told to who asked at that time.
func (c *cursor) floor(asked time.Duration) int64 {
	n, _ := slices.BinarySearchFunc(c.answers, asked, func(a answer, asked time.Duration) int { return cmp.Compare(a.end, asked) })
	if n == 0 {
		return -1
	}
	return c.answers[n-1].offset
}

// known reports whether somebody tried to commit the offset before the time.
func (c *cursor) known(offset int64, end time.Duration) bool {
	began, ok := c.invoked[offset]
	return offset == -1 || ok && began <= end
}

// checkCommits: commits, last commit.
func (c *checker) checkCommits(events []Event) {
	type place struct {
		group     string
		partition int32
	}
	cursors := map[place]*cursor{}
	at := func(e Event) *cursor {
		p := place{e.Client, e.Partition}
		if cursors[p] == nil {
			cursors[p] = &cursor{invoked: map[int64]time.Duration{}, last: -1}
		}
		return cursors[p]
	}
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int { return cmp.Compare(a.End, b.End) })
	for _, e := range sorted { // all, since a commit that ends later may be seen before
		if e.Kind != Commit {
			continue
		}
		if began, ok := at(e).invoked[e.Offset]; !ok || e.Begin < began {
			at(e).invoked[e.Offset] = e.Begin
		}
	}
	final := map[place]bool{}
	for _, e := range sorted {
		if e.Kind != Commit && e.Kind != Committed && e.Kind != FinalCommitted {
			continue
		}
		cur := at(e)
		switch e.Kind {
		case Commit:
			if e.Err != "" {
				continue
			}
			c.summary.Commits++
			if e.Offset < cur.last {
				c.violated("history", "group %s, partition %d: the campaign itself commits %d after %d", e.Client, e.Partition, e.Offset, cur.last)
			}
			cur.last = max(cur.last, e.Offset)
			cur.add(e.End, e.Offset)
		case Committed:
			if floor := cur.floor(e.Begin); e.Offset < floor && !c.excused(e) {
				c.violated("commits", "group %s, partition %d: %d was told as committed (asked at %v, answered at %v), %d was before", e.Client,
					e.Partition, e.Offset, e.Begin, e.End, floor)
			} else if e.Offset >= floor {
				cur.add(e.End, e.Offset)
			}
			if !cur.known(e.Offset, e.End) {
				c.violated("commits", "group %s, partition %d: %d was told as committed, which nobody committed", e.Client, e.Partition, e.Offset)
			}
		case FinalCommitted:
			final[place{e.Client, e.Partition}] = true
			if e.Offset < cur.floor(e.Begin) || !cur.known(e.Offset, e.End) {
				c.violated("last commit", "group %s, partition %d: %d is committed in the end, %d was before", e.Client, e.Partition, e.Offset,
					cur.floor(e.Begin))
			}
		}
	}
	for p, cur := range cursors {
		if cur.last >= 0 && !final[p] {
			c.violated("history", "group %s, partition %d: the committed offset was not read in the end", p.group, p.partition)
		}
	}
}

// excused reports whether the answer came while a broker was broken.
func (c *checker) excused(e Event) bool {
	return slices.ContainsFunc(c.broken, func(b Event) bool { return e.Begin <= b.End && e.End >= b.Begin })
}
