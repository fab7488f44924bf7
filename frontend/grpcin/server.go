package grpcin

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Server is the gRPC ingress.
type Server struct {
	inference.UnimplementedGRPCInferenceServiceServer

	cfg     Config // Immutable after New, as are log, grpc, metrics.
	log     zerolog.Logger
	grpc    *grpc.Server
	metrics *metrics

	requests sync.Pool    // of *request
	open     atomic.Int64 // connections
	held     atomic.Int64 // bytes of messages that are coming
	unsent   atomic.Int64 // bytes of streams' replies that wait for their clients

	ending context.Context // ended when a drain begins
	end    context.CancelFunc
}

// New makes a server and registers its metrics. Serve starts it.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Logger}
	s.ending, s.end = context.WithCancel(context.Background())
	if s.metrics, err = newMetrics(s, cfg.Metrics); err != nil {
		return nil, fmt.Errorf("grpcin: %w", err)
	}
	s.grpc = grpc.NewServer(grpc.ForceServerCodecV2(newCodec()), grpc.Creds(door{insecure.NewCredentials()}), grpc.InTapHandle(s.tap),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
		grpc.MaxRecvMsgSize(cfg.MessageMax), grpc.MaxHeaderListSize(uint32(cfg.HeaderMax)), grpc.MaxConcurrentStreams(uint32(cfg.Calls)),
		grpc.ConnectionTimeout(cfg.GreetTime), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: cfg.IdleTime, Time: cfg.PingTime, Timeout: cfg.GreetTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: cfg.PingTime / 6, PermitWithoutStream: true}))
	s.grpc.RegisterService(service(), s)
	grpc_health_v1.RegisterHealthServer(s.grpc, &health{s: s})
	reflection.Register(s.grpc)
	return s, nil
}

// service is the made description, with handlers of our own for inferences.
func service() *grpc.ServiceDesc {
	d := inference.GRPCInferenceService_ServiceDesc
	d.Methods = slices.Clone(d.Methods)
	d.Streams = slices.Clone(d.Streams)
	for i := range d.Streams { // there is one
		d.Streams[i].Handler = modelStreamInfer
	}
	for i := range d.Methods {
		if d.Methods[i].MethodName == methodInfer {
			d.Methods[i].Handler = modelInfer
		}
	}
	return &d
}

// Serve takes connections from l until Drain or Close. It may be called for several listeners.
func (s *Server) Serve(l net.Listener) error { return s.grpc.Serve(&listener{l, s}) }

// Drain takes no new connections and tells the clients of the others to go; what they ask meanwhile is
// refused by what both protocols share. It waits for the calls that run, as long as ctx does, and cuts
// the rest.
func (s *Server) Drain(ctx context.Context) error {
	s.end()
	defer s.metrics.unregister()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	busy := s.open.Load()
	s.grpc.Stop()
	<-done
	if busy == 0 {
		return nil
	}
	return fmt.Errorf("grpcin: %d connections were still busy and have been cut: %w", busy, ctx.Err())
}

// Close ends at once.
func (s *Server) Close() error {
	s.end()
	s.grpc.Stop()
	s.metrics.unregister()
	return nil
}

// unary is around each call but inferences.
func (s *Server) unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	arrivalOf(ctx).came(sizeOf(q))
	began := mono.Now()
	defer func() {
		if p := recover(); p != nil {
			err = s.failed(p, info.FullMethod)
		}
		method, ended := methodOf(info.FullMethod), mono.Now()
		s.tellCall(ctx, q, method, err, began, ended)
		s.metrics.observe(method, err, ended.Sub(began), &tracing.Context{})
	}()
	return handler(ctx, q)
}

// stream is around each stream.
func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	if a := arrivalOf(stream.Context()); a != nil && a.conn != nil {
		if info.IsClientStream {
			a.conn.stream(1) // before what it has sent may be taken for nobody's
			defer a.conn.stream(-1)
			a.none() // its messages are counted, each
		}
		defer a.none()
		stream = counted{stream, a}
	}
	began := mono.Now()
	defer func() {
		if p := recover(); p != nil {
			err = s.failed(p, info.FullMethod)
		}
		method, ended := methodOf(info.FullMethod), mono.Now()
		switch {
		case method != methodStream:
			s.metrics.observe(method, err, ended.Sub(began), &tracing.Context{})
		case err != nil && status.Code(err) != codes.Canceled: // its inferences are told of and count, each; this is what ended it
			s.tellCall(stream.Context(), nil, method, err, began, ended)
		}
	}()
	return handler(srv, stream)
}

// failed is the answer where a handler panicked.
func (s *Server) failed(p any, method string) error {
	s.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Str("method", method).Msg("grpc: a handler failed")
	return s.status("", "", fmt.Errorf("internal error: %v", p))
}
