package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/log/vfs"
)

// MetaName is the file that says whose log directory it is.
const MetaName = "meta.properties"

const maxMetaBytes = 64 << 10

// Meta is the content of meta.properties. Version 0 is what brokers beside ZooKeeper write, version 1 what KRaft writes.
type Meta struct {
	Version     int
	ID          int32 // broker.id or node.id; -1 if there is none
	ClusterID   string
	DirectoryID string // version 1 only
}

// ReadMeta reads the file of dir; found is false if there is none.
func ReadMeta(fsys vfs.FS, dir string) (m Meta, found bool, err error) {
	raw, err := fsys.ReadFile(path.Join(dir, MetaName), maxMetaBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Meta{}, false, nil
	}
	if err != nil {
		return Meta{}, false, err
	}
	if m, err = ParseMeta(raw); err != nil {
		return Meta{}, false, fmt.Errorf("%s: %w", path.Join(dir, MetaName), err)
	}
	return m, true, nil
}

// WriteMeta replaces the file of dir durably.
func WriteMeta(fsys vfs.FS, dir string, m Meta, now time.Time) error {
	return Write(fsys, path.Join(dir, MetaName), m.Format(now))
}

// Format is the content of the file in version 0, with the two comment lines of a Java properties file.
func (m Meta) Format(now time.Time) []byte {
	return fmt.Appendf(nil, "#\n#%s\nbroker.id=%d\nversion=0\ncluster.id=%s\n",
		now.UTC().Format("Mon Jan 02 15:04:05 MST 2006"), m.ID, escapeProperty(m.ClusterID))
}

// ParseMeta reads the file of either version.
func ParseMeta(raw []byte) (Meta, error) {
	m := Meta{Version: -1, ID: -1}
	for key, value := range properties(string(raw)) {
		n, err := strconv.ParseInt(value, 10, 32)
		switch key {
		case "version":
			m.Version = int(n)
		case "broker.id", "node.id":
			m.ID = int32(n)
		case "cluster.id":
			m.ClusterID, err = value, nil
		case "directory.id":
			m.DirectoryID, err = value, nil
		default:
			err = nil
		}
		if err != nil {
			return Meta{}, fmt.Errorf("%s=%s is not a number", key, value)
		}
	}
	if m.Version != 0 && m.Version != 1 {
		return Meta{}, fmt.Errorf("version %d is neither 0 nor 1", m.Version)
	}
	return m, nil
}

// properties reads the format of java.util.Properties: comments, continued lines, the three separators, escapes.
func properties(text string) map[string]string {
	out := map[string]string{}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continues(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, value := splitProperty(line)
		out[unescapeProperty(key)] = unescapeProperty(value)
	}
	return out
}

// continues says whether a line ends with an odd number of backslashes.
func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

func splitProperty(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

func unescapeProperty(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if n, err := strconv.ParseUint(s[i+1:min(i+5, len(s))], 16, 16); err == nil && i+5 <= len(s) {
				b.WriteRune(rune(n))
				i += 4
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func escapeProperty(s string) string {
	escaped := propertyEscapes.Replace(s)
	if strings.HasPrefix(escaped, " ") { // which a reader would skip
		return `\` + escaped
	}
	return escaped
}

var propertyEscapes = strings.NewReplacer(`\`, `\\`, "=", `\=`, ":", `\:`, "#", `\#`, "!", `\!`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`)
