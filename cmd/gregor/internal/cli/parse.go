package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// KeyValues reads "key=value" arguments, in order.
func KeyValues(flag string, list []string) ([][2]string, error) {
	var pairs [][2]string
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, Usagef("--%s %s: want key=value", flag, text)
		}
		pairs = append(pairs, [2]string{key, value})
	}
	return pairs, nil
}

// Unescape reads the escapes \n, \t, \r, \0, \\ and \xHH of a separator or format.
func Unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", fmt.Errorf(`%q ends in a lone \`, s)
		}
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '0':
			b.WriteByte(0)
		case '\\':
			b.WriteByte('\\')
		case 'x':
			if i+2 >= len(s) {
				return "", fmt.Errorf(`%q: \x needs two hexadecimal digits`, s)
			}
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", fmt.Errorf(`%q: \x needs two hexadecimal digits`, s)
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			return "", fmt.Errorf(`%q: no such escape \%c`, s, s[i])
		}
	}
	return b.String(), nil
}

// timeForms are how a point in time may be written, besides a duration before now.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// ParseTime reads a point in time as milliseconds: RFC 3339, a date with or without time (local), "@" and milliseconds
// since 1970, or a duration before now such as "-2h".
func ParseTime(s string, now time.Time) (int64, error) {
	if ms, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q: want milliseconds since 1970 after @", s)
		}
		return n, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d < 0 {
		return now.Add(d).UnixMilli(), nil
	}
	for _, form := range timeForms {
		if t, err := time.ParseInLocation(form, s, time.Local); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("%q is no time (2026-01-31T15:04:05, @milliseconds, or -2h for two hours ago)", s)
}

// ParsePartitions reads "0,3-5".
func ParsePartitions(s string) ([]int32, error) {
	var all []int32
	for item := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(item, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.ParseInt(low, 10, 32)
		to, err2 := strconv.ParseInt(high, 10, 32)
		if err1 != nil || err2 != nil || from < 0 || to < from || to-from > 1_000_000 {
			return nil, fmt.Errorf("%q is no list of partitions (0,3-5)", s)
		}
		for p := from; p <= to; p++ {
			all = append(all, int32(p))
		}
	}
	return all, nil
}

// Selection is topics with partitions of each (none: all of them). An empty one is everything.
type Selection map[string][]int32

// ParseSelection reads TOPIC or TOPIC:0,3-5, several of them.
func ParseSelection(list []string) (Selection, error) {
	chosen := Selection{}
	for _, text := range list {
		topic, partitions, some := strings.Cut(text, ":")
		if topic == "" {
			return nil, fmt.Errorf("%q names no topic", text)
		}
		if _, twice := chosen[topic]; twice {
			return nil, fmt.Errorf("%s is named twice", topic)
		}
		chosen[topic] = nil
		if some {
			numbers, err := ParsePartitions(partitions)
			if err != nil {
				return nil, err
			}
			chosen[topic] = numbers
		}
	}
	return chosen, nil
}

// HasPartitions refuses partitions that a topic does not have.
func HasPartitions(t kadm.TopicDetail, partitions ...int32) error {
	for _, p := range partitions {
		if _, ok := t.Partitions[p]; !ok {
			return fmt.Errorf("topic %s has no partition %d; it has %s, from 0 on", t.Topic, p, Count(len(t.Partitions), "partition"))
		}
	}
	return nil
}

// Has says whether a partition is selected.
func (s Selection) Has(topic string, partition int32) bool {
	partitions, ok := s[topic]
	return len(s) == 0 || ok && (len(partitions) == 0 || slices.Contains(partitions, partition))
}
