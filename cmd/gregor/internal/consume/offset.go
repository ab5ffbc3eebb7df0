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
func parseOffset(text string, now time.Time) (kgo.Offset, error) {
	switch text {
	case "start", "beginning", "earliest":
		return kgo.NewOffset().AtStart(), nil
	case "end", "latest":
		return kgo.NewOffset().AtEnd(), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if strings.HasPrefix(text, "-") {
			return kgo.NewOffset().AtEnd().Relative(n), nil
		}
		return kgo.NewOffset().At(n), nil
	}
	ms, err := cli.ParseTime(text, now)
	if err != nil {
		return kgo.Offset{}, fmt.Errorf("want start, end, an offset, -N for the last N, or a time: %w", err)
	}
	return kgo.NewOffset().AfterMilli(ms), nil
}
