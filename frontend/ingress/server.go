package ingress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
)

// Server is the HTTP ingress.
type Server struct {
	cfg     Config // Immutable after New, as are log, routes, http, metrics.
	log     zerolog.Logger
	routes  []route
	http    *fasthttp.Server
	scrape  *fasthttp.Server // /metrics alone
	metrics *metrics
	stats   *statistics
	pools   pools

	draining atomic.Bool
	running  atomic.Int64 // inferences at present
	bodies   atomic.Int64 // bytes that bodies and decoded tensors hold
	slow     atomic.Int64 // bytes that are being read into slabs

	mu    sync.Mutex // Guards conns.
	conns map[*conn]struct{}
}

// New makes a server and registers its metrics. Serve starts it.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Logger, routes: table(), conns: map[*conn]struct{}{}}
	s.stats = newStatistics()
	if s.metrics, err = newMetrics(cfg.Metrics, s.routes); err != nil {
		return nil, fmt.Errorf("ingress: %w", err)
	}
	s.http = s.newHTTP(s.handle)
	s.scrape = s.newHTTP(s.handleScrape)
	return s, nil
}

func (s *Server) newHTTP(h fasthttp.RequestHandler) *fasthttp.Server {
	c := &s.cfg
	return &fasthttp.Server{
		Handler:            h,
		ErrorHandler:       s.unreadable,
		HeaderReceived:     s.headerReceived,
		Name:               "symphony",
		Logger:             (*httpLog)(s),
		Concurrency:        c.Connections + overflow + 1,
		ReadBufferSize:     c.HeaderMax,
		ReadTimeout:        c.HeaderTimeout,
		WriteTimeout:       c.WriteTimeout,
		IdleTimeout:        c.IdleTimeout,
		MaxRequestBodySize: int(c.BodyMax),
		StreamRequestBody:  true,
		CloseOnShutdown:    true,
		// Multipart bodies are bodies like others: no temporary files.
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
		// A third less for each idle connection. Pipelined replies go out one by one: a
		// finished inference does not wait for the next.
		ReduceMemoryUsage: true,
	}
}

// Serve takes connections from l until Drain or Close. It may be called for
// several listeners.
func (s *Server) Serve(l net.Listener) error {
	return s.http.Serve(&listener{Listener: l, s: s})
}

// ServeMetrics serves /metrics and nothing else, for a port of its own.
func (s *Server) ServeMetrics(l net.Listener) error {
	return s.scrape.Serve(&listener{Listener: l, s: s})
}

// Drain takes no new connections, reports not ready, answers the requests that
// are open, and closes the connections. When ctx ends first it closes those
// that are left, and says so.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	err := errors.Join(s.http.ShutdownWithContext(ctx), s.scrape.ShutdownWithContext(ctx))
	for err == nil && s.open() > 0 { // answered, but a refused body may still be coming
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(drainPause):
		}
	}
	s.metrics.unregister()
	if n := s.abort(); n > 0 {
		return fmt.Errorf("ingress: %d connections were still busy and have been cut: %w", n, err)
	}
	return err
}

// drainPause is how often Drain looks for connections.
const drainPause = 5 * time.Millisecond

func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// abort cuts the connections that are left.
func (s *Server) abort() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.abort()
	}
	return len(s.conns)
}

// Close ends at once.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// httpLog is fasthttp's logger: what it has to say is about single
// connections.
type httpLog Server

// Printf implements fasthttp.Logger.
func (l *httpLog) Printf(format string, args ...any) {
	l.log.Debug().Msgf("http: "+format, args...)
}
