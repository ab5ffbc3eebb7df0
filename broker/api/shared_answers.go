package api

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds of sharedAnswers.
const (
	sharedPartitions = 100      // partitions from which on an answer is kept
	sharedBytes      = 16 << 20 // of all that is kept, unless one alone has more
	sharedCount      = 64
	sharedRequest    = 4 << 10 // bytes of a request above which its answer is not kept
)

// sharedAnswers keeps large answers to Metadata, encoded, for as long as the image is the one that they were made from. All who ask the same,
// as a cluster's clients do after a change, get the same bytes: neither time nor memory grows with their number. Safe for concurrent
// use; the zero value is empty.
type sharedAnswers struct {
	mu      sync.Mutex
	image   *metadata.Image
	answers map[answerKey]*sharedAnswer
	bytes   int
}

// answerKey is all that an answer depends on besides the image.
type answerKey struct {
	version        int16
	listener, host string // host is our end of the connection, where a client is told that
	request        string // encoded
}

// sharedAnswer is a response, which never changes.
type sharedAnswer struct {
	version int16
	body    []byte // after the response header
	codes   []codeCount
}

// codeCount is how often an error code stands in an answer.
type codeCount struct {
	code int16
	n    int64
}

func (a *sharedAnswers) key(s *Services, c *Call, r *kmsg.MetadataRequest) answerKey {
	k := answerKey{version: r.Version, listener: c.Listener(), request: string(r.AppendTo(nil))}
	if own, ok := s.Listeners[k.listener]; ok && own.Host == "" {
		k.host = hostOf(c.Local())
	}
	return k
}

// find returns the answer that was kept, or nil.
func (a *sharedAnswers) find(s *Services, c *Call, image *metadata.Image, r *kmsg.MetadataRequest) *sharedAnswer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.image != image || len(a.answers) == 0 || c.size > sharedRequest {
		return nil
	}
	return a.answers[a.key(s, c, r)]
}

// keep encodes an answer for others who ask the same, or returns nil if it is not worth that.
func (a *sharedAnswers) keep(s *Services, c *Call, image *metadata.Image, r *kmsg.MetadataRequest, response *kmsg.MetadataResponse) *sharedAnswer {
	partitions := 0
	for i := range response.Topics {
		partitions += len(response.Topics[i].Partitions)
	}
	if partitions < sharedPartitions || c.size > sharedRequest || s.Intercept != nil {
		return nil
	}
	response.SetVersion(c.Version)
	answer := &sharedAnswer{version: c.Version, body: bytes.Clone(response.AppendTo(nil))}
	counts := map[int16]int64{}
	codes(response, func(code int16) { counts[code]++ })
	for code, n := range counts {
		answer.codes = append(answer.codes, codeCount{code, n})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.image != image {
		a.image, a.answers, a.bytes = image, map[answerKey]*sharedAnswer{}, 0
	}
	k := a.key(s, c, r)
	if before := a.answers[k]; before != nil {
		return before
	}
	for old, dropped := range a.answers {
		if a.bytes+len(answer.body) <= sharedBytes && len(a.answers) < sharedCount {
			break
		}
		a.bytes -= len(dropped.body)
		delete(a.answers, old)
	}
	a.answers[k] = answer
	a.bytes += len(answer.body)
	return answer
}

// replyShared answers with what others are answered with too. The time that the client is to wait is its own: it is the first field of the
// versions that have it.
func (c *Call) replyShared(a *sharedAnswer) {
	wait := c.throttled()
	if wait > 0 {
		c.request.Throttle(wait)
	}
	if c.watched != nil {
		c.seen(func(f func(int16, int64)) {
			for _, counted := range a.codes {
				f(counted.code, counted.n)
			}
		})
	}
	head := frame.AppendResponseHeader(c.request.Buffer(smallReply), c.request.Header.Key, a.version, c.request.Header.CorrelationID)
	body := a.body
	const throttleSince, throttleSize = 3, 4
	if a.version >= throttleSince {
		head = binary.BigEndian.AppendUint32(head, uint32(wait.Milliseconds()))
		body = body[throttleSize:]
	}
	c.request.Reply(payload.Part{Bytes: head}, payload.Part{Bytes: body})
}
