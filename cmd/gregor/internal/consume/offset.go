package consume

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kgo"
)

// parseOffset reads where to begin: start, end, an offset, a number of records before the end (-N), or a point in time.
// exact is the offset if one is given, otherwise -1.
func parseOffset(text string, now time.Time) (begin kgo.Offset, exact int64, err error) {
	switch text {
	case "start", "beginning", "earliest":
		return kgo.NewOffset().AtStart(), -1, nil
	case "end", "latest":
		return kgo.NewOffset().AtEnd(), -1, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if strings.HasPrefix(text, "-") {
			return kgo.NewOffset().AtEnd().Relative(n), -1, nil
		}
		return kgo.NewOffset().At(n), n, nil
	}
	ms, err := cli.ParseTime(text, now)
	if err != nil {
		return kgo.Offset{}, -1, fmt.Errorf("want start, end, an offset, -N for the last N, or a time: %w", err)
	}
	return kgo.NewOffset().AfterMilli(ms), -1, nil
}
