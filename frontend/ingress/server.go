package ingress

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend/regions"
)

// Server is the HTTP ingress.
type Server struct {
	cfg       Config // Immutable after New, as are log, routes, http, watching, admin, metrics.
	log       zerolog.Logger
	routes    []route
	http      *fasthttp.Server
	watching  *fasthttp.Server
	admin     *fasthttp.Server
	metrics   *metrics
	stats     *statistics
	described []byte           // the OpenAPI document
	regions   *regions.Regions // nil: there is no shared memory
	pools     pools

	ending   context.Context // ended when a drain begins
	end      context.CancelFunc
	draining atomic.Bool
	givenUp  atomic.Bool  // the drain's time is over
	running  atomic.Int64 // inferences at present
	bodies   atomic.Int64 // bytes that bodies and decoded tensors hold
	looking  atomic.Bool  // there is a lookout (gone.go)
	slow     atomic.Int64 // bytes that are being read into slabs
	outputs  atomic.Int64 // bytes of large outputs, see Hold
	loads    atomic.Int64 // calls that wait for a model
	items    atomic.Int64 // of client-side batches that are asked for, of both protocols

	mu    sync.Mutex // Guards conns and at.
	conns map[*conn]struct{}
	at    [doors]int // how many of them
}

// New makes a server and registers its metrics. Serve starts it.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Logger, routes: table(), conns: map[*conn]struct{}{}}
	s.ending, s.end = context.WithCancel(context.Background())
	s.stats = newStatistics(cfg.Client)
	if cfg.SharedMemory {
		s.regions = regions.New()
	}
	if s.metrics, err = newMetrics(cfg.Metrics, s.routes); err != nil {
		return nil, fmt.Errorf("ingress: %w", err)
	}
	if s.described, err = s.openapiOf(); err != nil {
		s.metrics.unregister()
		return nil, fmt.Errorf("ingress: %w", err)
	}
	s.http, s.watching, s.admin = s.newHTTP(mainDoor), s.newHTTP(watchDoor), s.newHTTP(adminDoor)
	return s, nil
}

func (s *Server) newHTTP(d door) *fasthttp.Server {
	c := &s.cfg
	return &fasthttp.Server{
		Handler:            s.handleAt(d),
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

// httpLog is fasthttp's logger: what it has to say is about single
// connections.
type httpLog Server

// Printf implements fasthttp.Logger.
func (l *httpLog) Printf(format string, args ...any) {
	l.log.Debug().Msgf("http: "+format, args...)
}
