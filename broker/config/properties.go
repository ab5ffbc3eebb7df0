package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// property is one entry of a properties file.
type property struct {
	key, value string
	line       int // where it begins, from 1
}

// parseProperties reads the format of java.util.Properties: comments, continuation lines, escapes, and ":" or blanks
// in place of "=". Unlike Java it takes the file for UTF-8.
func parseProperties(text string) ([]property, error) {
	var entries []property
	lines := splitLines(text)
	for i := 0; i < len(lines); {
		begin := i
		logical := trimBlanks(lines[i])
		i++
		if logical == "" || logical[0] == '#' || logical[0] == '!' {
			continue
		}
		for continued(logical) {
			logical = logical[:len(logical)-1]
			if i == len(lines) {
				break
			}
			logical += trimBlanks(lines[i])
			i++
		}
		entry, err := parseEntry(logical)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", begin+1, err)
		}
		entry.line = begin + 1
		entries = append(entries, entry)
	}
	return entries, nil
}

// splitLines cuts at \n, \r and \r\n.
func splitLines(text string) []string {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
}

func trimBlanks(line string) string { return strings.TrimLeft(line, " \t\f") }

// continued says that the line ends in a backslash that is not itself escaped.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// parseEntry splits a logical line at the first separator that is not escaped.
func parseEntry(line string) (property, error) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	rest := trimBlanks(line[end:])
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = trimBlanks(rest[1:])
	}
	key, err := unescape(line[:end])
	if err != nil {
		return property{}, err
	}
	value, err := unescape(rest)
	return property{key: key, value: value}, err
}

var errEscape = errors.New(`\u needs four hexadecimal digits`)

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	var high rune // a first half of a surrogate pair that waits for its second
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 == len(s) {
			b.WriteByte(c)
			continue
		}
		i++
		if s[i] != 'u' {
			b.WriteByte(escaped(s[i]))
			continue
		}
		if i+5 > len(s) {
			return "", errEscape
		}
		n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
		if err != nil {
			return "", errEscape
		}
		i += 4
		high = writeUTF16(&b, high, rune(n))
	}
	return b.String(), nil
}

func escaped(c byte) byte {
	switch c {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 'f':
		return '\f'
	}
	return c
}

// writeUTF16 appends one code unit: a first half is kept back and returned, a second half completes it.
func writeUTF16(b *strings.Builder, high, unit rune) rune {
	if high != 0 {
		if r := utf16.DecodeRune(high, unit); r != utf8.RuneError {
			b.WriteRune(r)
			return 0
		}
	}
	if unit >= 0xd800 && unit < 0xdc00 {
		return unit
	}
	b.WriteRune(unit)
	return 0
}
