// Package observe shows a broker to people and machines over HTTP: /metrics for Prometheus, under the names that the JMX
// exporter's own example configuration for Kafka gives to Kafka's metrics, /healthz and /readyz. It reads what others count
// and know when it is asked, and costs nothing before.
package observe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gregor-broker/gregor/broker/api"
)

// Options is what a Server shows. Ready says whether the broker serves, nil or why not; the others are asked only while it does.
type Options struct {
	Services func() *api.Services
	Ready    func() error
	Network  func() Network
	Cleaner  func() *Cleaning // nil: nothing is cleaned
}

// Network is how busy the network layer is.
type Network struct {
	QueuedRequests            int
	HandlersIdle              float64 // part of their time, since somebody first looked
	MemoryUsed, MemoryAllowed int64   // bytes of requests in work

	Asked            time.Duration   // since somebody first looked
	ProcessorsRested []time.Duration // of it each had nothing to do
}

// Server answers over HTTP. Its methods are for one goroutine.
type Server struct {
	listener net.Listener
	http     *http.Server
	serving  sync.WaitGroup
}

// readLimit is how long a request may take to arrive; nobody can hold a connection for nothing.
const readLimit = 10 * time.Second

// Listen binds address (host:port) and answers from now on: "not ready" until the broker is.
func Listen(address string, o Options) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, http: &http.Server{Handler: handler(o), ReadHeaderTimeout: readLimit, ReadTimeout: readLimit, MaxHeaderBytes: 16 << 10}}
	s.serving.Go(func() { _ = s.http.Serve(l) })
	return s, nil
}

// Addr is where the server is reached.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server, with the requests that it is answering when ctx is done, and waits for its end.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.serving.Wait()
	return err
}

func handler(o Options) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{Options: o}, pushed{o})
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("alive\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("gregor\n/metrics  for Prometheus\n/healthz  200 while the process lives\n/readyz   200 while the broker serves\n"))
	})
	return mux
}

// pushed shows what clients push (KIP-714), once the broker serves: before, there is nobody to ask.
type pushed struct{ Options }

// Describe implements prometheus.Collector: which metrics there are, clients decide.
func (pushed) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p pushed) Collect(out chan<- prometheus.Metric) {
	if t := p.Services().Telemetry; t != nil {
		t.Collect(out)
	}
}
