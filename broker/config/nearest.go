package config

import (
	"fmt"
	"strings"
)

// suggestion is the known key that a written one was probably meant to be.
type suggestion struct {
	key      *Key
	distance int // edits between the two
	length   int // of what was written
}

// close says that the two are so near that one is a slip for the other.
func (s suggestion) close() bool { return s.key != nil && s.distance <= 2 }

// plausible says that it is worth to be named.
func (s suggestion) plausible() bool { return s.key != nil && s.distance <= max(2, s.length/3) }

// nearest returns the broker key with the fewest edits from name.
func nearest(name string) suggestion {
	best := suggestion{length: len(name), distance: len(name) + 1}
	if len(name) > 200 {
		return best
	}
	for i := range brokerTable.keys {
		k := &brokerTable.keys[i]
		if k.Internal {
			continue
		}
		if d := edits(name, k.Name); d < best.distance {
			best.key, best.distance = k, d
		}
	}
	return best
}

// edits counts the insertions, deletions, replacements and swaps of neighbours that make b of a.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// UnknownKey says of a key that a broker's configuration does not have that it has no effect, and what it was probably meant to be.
func UnknownKey(name, origin string) (text string, unknown bool) {
	if keyOf(name) != nil {
		return "", false
	}
	return unknownKey(name, origin).Text, true
}

// unknownKey says that name, written at origin, is no key, and what it was probably meant to be.
func unknownKey(name, origin string) Notice {
	text := fmt.Sprintf("%s (%s) is no known key and has no effect", name, origin)
	if k := topicTable.byName[name]; k != nil {
		if len(k.Synonyms) > 0 {
			text += "; it is a topic's key, its default for all topics is " + k.Synonyms[0]
		} else {
			text += "; it is a topic's key"
		}
	} else if s := nearest(strings.ToLower(name)); s.plausible() {
		text += "; did you mean " + s.key.Name + "?"
	}
	return Notice{Key: name, Text: text, Warn: true}
}
