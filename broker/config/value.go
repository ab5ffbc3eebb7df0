package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// typeWords completes "allowed: " for a type without restriction, and is how Kafka names it in messages.
var typeWords = map[Type]struct{ allowed, kafka string }{
	Bool: {"true or false", "BOOLEAN"}, String: {"a text", "STRING"}, Int: {"an integer", "INT"},
	Short: {"an integer below 32768", "SHORT"}, Long: {"an integer", "LONG"}, Double: {"a number", "DOUBLE"},
	List: {"a comma-separated list", "LIST"}, Class: {"a class name", "CLASS"}, Password: {"a text", "PASSWORD"},
}

// parse reads a value as Kafka's ConfigDef does.
func (k *Key) parse(mode Version, written string) (parsed, *problem) {
	t := k.typeIn(mode)
	v, ok := parseAs(t, written, mode == Kafka44)
	if !ok {
		text := "Not a number of type " + typeWords[t].kafka
		if t == Bool {
			text = "Expected value to be either true or false"
		}
		return nil, &problem{value: written, kafka: text}
	}
	if valid := k.validIn(mode); valid.set() {
		if p := valid.check(k.Name, v); p != nil {
			return nil, p
		}
	}
	return v, nil
}

// parseAs reads a value of a type; unique drops repeated items of lists, as Kafka does since 4.1.
func parseAs(t Type, written string, unique bool) (parsed, bool) {
	trimmed := strings.TrimSpace(written)
	switch t {
	case Bool:
		return parseBool(trimmed)
	case Short:
		return parseInt(trimmed, 16)
	case Int:
		return parseInt(trimmed, 32)
	case Long:
		return parseInt(trimmed, 64)
	case Double:
		return parseDouble(trimmed)
	case List:
		return splitList(trimmed, unique), true
	case Class, Password:
		return trimmed, true
	}
	return written, true
}

func parseBool(s string) (parsed, bool) {
	switch {
	case strings.EqualFold(s, "true"):
		return true, true
	case strings.EqualFold(s, "false"):
		return false, true
	}
	return nil, false
}

func parseInt(s string, bits int) (parsed, bool) {
	n, err := strconv.ParseInt(s, 10, bits)
	return n, err == nil
}

// parseDouble reads what Java's Double.parseDouble does, but for hexadecimal numbers, infinities and "not a number".
func parseDouble(s string) (parsed, bool) {
	s = strings.TrimRight(s, "dDfF")
	if strings.ContainsAny(s, "xXnN_") {
		return nil, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func splitList(trimmed string, unique bool) []string {
	if trimmed == "" {
		return []string{}
	}
	list := strings.Split(trimmed, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	if !unique {
		return list
	}
	kept := list[:0]
	for _, item := range list {
		if !slices.Contains(kept, item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// format writes a parsed value as Kafka describes it; "" for none.
func format(v parsed) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatDouble(v)
	case string:
		return v
	case []string:
		return strings.Join(v, ",")
	}
	return ""
}

// formatDouble writes a number as Java's Double.toString: plain from 0.001 up to 10,000,000, otherwise with an exponent,
// and with at least one digit after the point.
func formatDouble(f float64) string {
	abs := math.Abs(f)
	if abs == 0 || abs >= 1e-3 && abs < 1e7 {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

// allowed says in words what values a key may have.
func (k *Key) allowed(mode Version) string {
	words := typeWords[k.typeIn(mode)].allowed
	switch valid := k.validIn(mode); {
	case valid.allowed == "":
		return words
	case valid.bounds:
		return words + " " + valid.allowed
	default:
		return valid.allowed
	}
}
