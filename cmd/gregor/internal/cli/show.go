package cli

import (
	"fmt"
	"strconv"
	"strings"
)

const barWidth = 30

// Bar draws how much of something is done, from 0 to 1.
func Bar(part float64) string {
	part = min(max(part, 0), 1)
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), part*100)
}

// Size writes a number of bytes in decimal units.
func Size(n int64) string {
	for _, u := range []struct {
		unit string
		size float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if float64(n) >= u.size {
			return fmt.Sprintf("%.2f %s", float64(n)/u.size, u.unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// IDs writes broker ids: "1,2,3".
func IDs(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}
