package consume

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kgo"
)

// formatHelp is what --format understands.
const formatHelp = `  %v value          %k key              %h headers, "a=1,b=2"
  %t topic          %p partition        %o offset
  %T timestamp in ms                    %D timestamp as date and time
  %V length of the value, %K of the key; -1 for null
  %e leader epoch   %% a percent sign   \n \t \r \0 \\ \xHH as usual
A null key or value is written as "null".`

// format is a parsed --format: pieces that each append something of a record.
type format []func(out []byte, r *kgo.Record) []byte

func parseFormat(text string) (format, error) {
	text, err := cli.Unescape(text)
	if err != nil {
		return nil, err
	}
	var f format
	for text != "" {
		literal, rest, found := strings.Cut(text, "%")
		if literal != "" {
			f = append(f, func(out []byte, _ *kgo.Record) []byte { return append(out, literal...) })
		}
		if !found {
			break
		}
		if rest == "" {
			return nil, fmt.Errorf("the format ends in a lone %%")
		}
		piece, ok := directives[rest[0]]
		if !ok {
			return nil, fmt.Errorf("the format has no directive %%%c", rest[0])
		}
		f = append(f, piece)
		text = rest[1:]
	}
	return f, nil
}

var directives = map[byte]func(out []byte, r *kgo.Record) []byte{
	'v': func(out []byte, r *kgo.Record) []byte { return appendBytes(out, r.Value) },
	'k': func(out []byte, r *kgo.Record) []byte { return appendBytes(out, r.Key) },
	't': func(out []byte, r *kgo.Record) []byte { return append(out, r.Topic...) },
	'p': func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, int64(r.Partition), 10) },
	'o': func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, r.Offset, 10) },
	'e': func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, int64(r.LeaderEpoch), 10) },
	'T': func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, r.Timestamp.UnixMilli(), 10) },
	'D': func(out []byte, r *kgo.Record) []byte { return r.Timestamp.AppendFormat(out, time.RFC3339Nano) },
	'V': func(out []byte, r *kgo.Record) []byte { return appendLen(out, r.Value) },
	'K': func(out []byte, r *kgo.Record) []byte { return appendLen(out, r.Key) },
	'h': appendHeaders,
	'%': func(out []byte, _ *kgo.Record) []byte { return append(out, '%') },
}

func appendBytes(out, b []byte) []byte {
	if b == nil {
		return append(out, "null"...)
	}
	return append(out, b...)
}

func appendLen(out, b []byte) []byte {
	if b == nil {
		return append(out, "-1"...)
	}
	return strconv.AppendInt(out, int64(len(b)), 10)
}

func appendHeaders(out []byte, r *kgo.Record) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, h.Key...)
		out = append(out, '=')
		out = appendBytes(out, h.Value)
	}
	return out
}

func (f format) append(out []byte, r *kgo.Record) []byte {
	for _, piece := range f {
		out = piece(out, r)
	}
	return out
}
