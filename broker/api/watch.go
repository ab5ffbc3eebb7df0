package api

import (
	"reflect"
	"time"

	"github.com/gregor-broker/gregor/wire/fetchenc"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// watch counts a request that is about to be served, and has its answer looked at where somebody wants to know.
func (c *Call) watch(s *Services) {
	if s.Meter == nil && s.LogRequests == 0 {
		return
	}
	c.watcher = s
	s.Meter.Arrived(c.request.Header.Key, c.Version)
}

// seen counts an answer that is about to leave, and its error codes, and writes a line where the request is one of those
// that are logged.
func (c *Call) seen(each func(func(code int16, n int64))) {
	s, key := c.watcher, c.request.Header.Key
	took := s.Clock.Now().Sub(c.request.Received)
	s.Meter.Answered(key, took)
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
		c.logRequest(took, first)
	}
}

func (c *Call) logRequest(took time.Duration, code int16) {
	h := c.request.Header
	fields := []zap.Field{
		zap.String("api", kmsg.Key(h.Key).Name()), zap.Int16("version", c.Version), zap.String("client_id", c.ClientID),
		zap.Stringer("conn", c.Remote()), zap.String("listener", c.Listener()), zap.Int32("correlation", h.CorrelationID),
		zap.Int("bytes", c.size), zap.Duration("dur", took),
	}
	if code != 0 {
		fields = append(fields, zap.Error(kerr.ErrorForCode(code)))
	}
	c.watcher.Logger.Info("request", fields...)
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
