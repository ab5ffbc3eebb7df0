package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Valid restricts the values of a type. The zero value allows all.
type Valid struct {
	allowed string // in words, for our own messages; completes "allowed: "
	bounds  bool   // allowed completes the type's words ("an integer" + "of at least 1")
	check   func(name string, v parsed) *problem
}

func (v Valid) set() bool { return v.check != nil }

// anything allows every value of the type.
var anything = Valid{check: func(string, parsed) *problem { return nil }}

// problem is what is wrong with a value.
type problem struct {
	value string // the value that is wrong, which may be one item of a list
	kafka string // what Kafka says about it, after "Invalid value x for configuration y: "
	whole bool   // kafka is the whole message
}

// message is Kafka's message about a key's value.
func (p *problem) message(name string) string {
	if p.whole {
		return p.kafka
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", p.value, name, p.kafka)
}

func wrong(v parsed, format string, args ...any) *problem {
	return &problem{value: format1(v), kafka: fmt.Sprintf(format, args...)}
}

// format1 writes a value as Java prints it in a message: a list in brackets.
func format1(v parsed) string {
	if list, ok := v.([]string); ok {
		return "[" + strings.Join(list, ", ") + "]"
	}
	return format(v)
}

func number(v parsed) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v.(float64)
}

func atLeast(low float64) Valid {
	return Valid{"of at least " + plain(low), true, func(_ string, v parsed) *problem {
		if number(v) < low {
			return wrong(v, "Value must be at least %s", plain(low))
		}
		return nil
	}}
}

func between(low, high float64) Valid {
	return Valid{fmt.Sprintf("from %s to %s", plain(low), plain(high)), true, func(_ string, v parsed) *problem {
		switch n := number(v); {
		case n < low:
			return wrong(v, "Value must be at least %s", plain(low))
		case n > high:
			return wrong(v, "Value must be no more than %s", plain(high))
		}
		return nil
	}}
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// gzipLevel allows the levels of gzip and -1 for its own default.
var gzipLevel = Valid{"from 1 to 9, or -1", true, func(_ string, v parsed) *problem {
	if n := v.(int64); n != -1 && (n < 1 || n > 9) {
		return wrong(v, "Value must be between 1 and 9 or equal to -1")
	}
	return nil
}}

func minusOneOr(low int64) Valid {
	return Valid{fmt.Sprintf("of at least %d, or -1", low), true, func(_ string, v parsed) *problem {
		if n := v.(int64); n != -1 && n < low {
			return wrong(v, "Value can be -1 or must be at least %d", low)
		}
		return nil
	}}
}

func oneOf(values ...string) Valid {
	all := strings.Join(values, ", ")
	return Valid{"one of " + all, false, func(_ string, v parsed) *problem {
		if s, ok := v.(string); !ok || !slices.Contains(values, s) {
			return wrong(v, "String must be one of: %s", all)
		}
		return nil
	}}
}

// anyCase is oneOf whatever the case of the letters.
func anyCase(values ...string) Valid {
	all := strings.Join(values, ", ")
	return Valid{"one of " + all, false, func(_ string, v parsed) *problem {
		s, ok := v.(string)
		if !ok || !slices.ContainsFunc(values, func(one string) bool { return strings.EqualFold(one, s) }) {
			return wrong(v, "String must be one of (case insensitive): %s", all)
		}
		return nil
	}}
}

func listOf(values ...string) Valid {
	all := strings.Join(values, ", ")
	return Valid{"a comma-separated list of " + all, false, func(_ string, v parsed) *problem {
		for _, s := range v.([]string) {
			if !slices.Contains(values, s) {
				return wrong(s, "String must be one of: %s", all)
			}
		}
		return nil
	}}
}

// items allows lists without empty items.
var items = Valid{"a comma-separated list without empty items", false, checkItems}

func checkItems(name string, v parsed) *problem {
	if slices.Contains(v.([]string), "") {
		return &problem{kafka: fmt.Sprintf("Configuration '%s' values must not be empty.", name), whole: true}
	}
	return nil
}

// someItems allows lists of at least one item.
var someItems = Valid{"a comma-separated list of at least one item", false, func(name string, v parsed) *problem {
	if len(v.([]string)) == 0 {
		text := fmt.Sprintf("Configuration '%s' must not be empty. Valid values include: any non-empty value", name)
		return &problem{kafka: text, whole: true}
	}
	return checkItems(name, v)
}}

// nonEmpty allows strings that are not empty.
var nonEmpty = Valid{"a text that is not empty", false, func(_ string, v parsed) *problem {
	if v.(string) == "" {
		return wrong(v, "String must be non-empty")
	}
	return nil
}}

var throttledReplica = regexp.MustCompile(`^\d+:\d+$`)

// throttledReplicas allows "*", nothing, or pairs of partition and broker.
var throttledReplicas = Valid{"* or partition:broker, comma-separated", false, func(name string, v parsed) *problem {
	list := v.([]string)
	if len(list) == 1 && list[0] == "*" {
		return nil
	}
	for _, s := range list {
		if !throttledReplica.MatchString(s) {
			return wrong(v, "%s must be the literal '*' or a list of replicas in the following format: "+
				"[partitionId]:[brokerId],[partitionId]:[brokerId],...", name)
		}
	}
	return nil
}}

var versionForm = regexp.MustCompile(`^(0\.(8|9|10|11)(\.[0-9]+)?|[1-3]\.[0-9]|4\.0)(-IV[0-9])?(\.[0-9]+)?$`)

// kafkaVersion allows the version numbers that inter.broker.protocol.version took.
var kafkaVersion = Valid{"a version of Kafka from 0.8.0 to 4.0, such as 3.9", false, func(_ string, v parsed) *problem {
	if s := v.(string); !versionForm.MatchString(s) {
		return wrong(v, "Version %s is not a valid version", s)
	}
	return nil
}}

// autoOffsetReset allows where a share group may begin.
var autoOffsetReset = Valid{"latest, earliest or by_duration: and a duration as in ISO 8601", false, func(_ string, v parsed) *problem {
	s, _ := v.(string)
	if s != "latest" && s != "earliest" && !strings.HasPrefix(s, "by_duration:P") {
		return wrong(v, "Invalid value %s", s)
	}
	return nil
}}
