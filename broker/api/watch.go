package api

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/wire/fetchenc"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// watched is a request whose answer is looked at. Touched by its handler; served by whoever replies too.
type watched struct {
	by      *Services // whose meter or log it is
	kinds   [2]int16  // what it is counted as: its API and, of a Fetch, who fetches
	started time.Time
	served  atomic.Int64 // time of the first stage, once it is over

	answered time.Duration // since started, when it is
}

// watch counts a request that is about to be served, and has its answer looked at where somebody wants to know.
func (c *Call) watch(s *Services, r kmsg.Request) {
	if s.Meter == nil && s.LogRequests == 0 {
		return
	}
	c.watched = &watched{by: s, kinds: kinds(r), started: s.Clock.Now()}
	for _, kind := range c.watched.counted() {
		s.Meter.Arrived(kind, c.Version)
	}
}

// kinds returns what a request is counted as, twice the same where that is its API alone (RequestChannel.Request.updateRequestMetrics).
func kinds(r kmsg.Request) [2]int16 {
	f, ok := r.(*kmsg.FetchRequest)
	switch {
	case !ok:
		return [2]int16{r.Key(), r.Key()}
	case replicaOf(f) >= 0:
		return [2]int16{r.Key(), meter.FetchFollower}
	}
	return [2]int16{r.Key(), meter.FetchConsumer}
}

func (w *watched) counted() []int16 {
	if w.kinds[0] == w.kinds[1] {
		return w.kinds[:1]
	}
	return w.kinds[:]
}

// left ends the first stage.
func (c *Call) left() {
	if w := c.watched; w != nil {
		w.served.Store(int64(w.by.Clock.Now().Sub(w.started)))
	}
}

// took returns how long the parts of a request took that is answered now.
func (c *Call) took() (took [meter.Bytes + 1]time.Duration) {
	w, now := c.watched, c.watched.by.Clock.Now()
	took[meter.Total] = now.Sub(c.request.Received)
	took[meter.Queue] = w.started.Sub(c.request.Received)
	took[meter.Local] = now.Sub(w.started)
	if served := time.Duration(w.served.Load()); served > 0 { // else it answers within its first stage
		took[meter.Local], took[meter.Remote] = served, max(0, took[meter.Local]-served)
	}
	took[meter.Throttle], took[meter.Bytes] = c.usage.told, time.Duration(c.size)*time.Microsecond
	return took
}

// seen counts an answer that is about to leave, and its error codes, and writes a line where the request is one of those
// that are logged.
func (c *Call) seen(each func(func(code int16, n int64))) {
	s, key := c.watched.by, c.request.Header.Key
	took := c.took()
	for _, kind := range c.watched.counted() {
		s.Meter.Answered(kind, &took)
	}
	if s.Meter != nil {
		c.watched.answered = took[meter.Local] + took[meter.Remote]
		c.request.TellSent(c.watched)
	}
	log := s.LogRequests > 0 && s.requests.Add(1)%s.LogRequests == 0
	if s.Meter == nil && !log {
		return
	}
	first, failed := int16(0), false
	each(func(code int16, n int64) {
		if code != 0 && !failed {
			first, failed = code, true
		}
		s.Meter.Code(key, code, n)
	})
	if log {
		c.logRequest(took[meter.Total], first)
	}
}

// Sent counts how long it took until the answer was out. It implements session.Sent.
func (w *watched) Sent() {
	took := max(0, w.by.Clock.Now().Sub(w.started)-w.answered)
	for _, kind := range w.counted() {
		w.by.Meter.Sent(kind, took)
	}
}

func (c *Call) logRequest(took time.Duration, code int16) {
	h := c.request.Header
	fields := []zap.Field{
		zap.String("api", Name(h.Key)), zap.Int16("version", c.Version), zap.String("client_id", c.ClientID),
		zap.Stringer("conn", c.Remote()), zap.String("listener", c.Listener()), zap.Int32("correlation", h.CorrelationID),
		zap.Int("bytes", c.size), zap.Duration("dur", took),
	}
	if code != 0 {
		fields = append(fields, zap.Error(kerr.ErrorForCode(code)))
	}
	c.watched.by.Logger.Info("request", fields...)
}

// each hands every code of a response on, one at a time.
func each(of func(func(int16))) func(func(int16, int64)) {
	return func(f func(int16, int64)) { of(func(code int16) { f(code, 1) }) }
}

// codes calls f with every error code of a response. After AbstractResponse.errorCounts of Apache Kafka.
func codes(r kmsg.Response, f func(int16)) {
	if p, ok := r.(*kmsg.ProduceResponse); ok {
		for i := range p.Topics {
			for j := range p.Topics[i].Partitions {
				f(p.Topics[i].Partitions[j].ErrorCode)
			}
		}
		return
	}
	codesIn(reflect.ValueOf(r).Elem(), f)
}

func codesIn(v reflect.Value, f func(int16)) {
	t := v.Type()
	for i := range t.NumField() {
		switch field := v.Field(i); {
		case t.Field(i).Name == "ErrorCode" && field.Kind() == reflect.Int16:
			f(int16(field.Int()))
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			for j := range field.Len() {
				codesIn(field.Index(j), f)
			}
		}
	}
}

func fetchCodes(r *fetchenc.Response, f func(int16)) {
	f(r.ErrorCode)
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			f(r.Topics[i].Partitions[j].ErrorCode)
		}
	}
}
