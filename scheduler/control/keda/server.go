package keda

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/keda/externalscaler"
)

// Source has the advice: the controller.
type Source interface {
	Advice(ctx context.Context) (api.Advice, error)
}

// Server serves it. Make it with New, and end it with Close.
type Server struct {
	externalscaler.UnimplementedExternalScalerServer
	source  Source
	look    time.Duration
	streams chan struct{} // has a token for each stream
	ending  chan struct{}
	conns   conns
	grpc    *grpc.Server
}

const (
	// lookEvery is how often a stream looks whether something has changed: as often as the advice is made.
	lookEvery = time.Second
	// streamsMax bounds the streams.
	streamsMax = 256
	// callsMax bounds what one connection may ask at a time, messageMax the bytes of a request.
	callsMax   = 64
	messageMax = 64 << 10
	// idleMax ends connections that nothing is asked by.
	idleMax = 15 * time.Minute
	// closeMax is how long calls may take to end.
	closeMax = 2 * time.Second
)

// New makes one that serves nobody yet.
func New(source Source) *Server {
	s := &Server{source: source, look: lookEvery, streams: make(chan struct{}, streamsMax), ending: make(chan struct{}), conns: conns{all: map[string]net.Conn{}}}
	s.grpc = grpc.NewServer(grpc.MaxConcurrentStreams(callsMax), grpc.MaxRecvMsgSize(messageMax), grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleMax, Time: time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	externalscaler.RegisterExternalScalerServer(s.grpc, s)
	return s
}

// Serve answers on a listener until Close. It is called once.
func (s *Server) Serve(ln net.Listener) error {
	s.conns.Listener = ln
	return s.grpc.Serve(&s.conns)
}

// Close ends streams at once, other calls when they are answered, or soon.
func (s *Server) Close() {
	close(s.ending)
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeMax):
		s.grpc.Stop()
		<-done
	}
}

// prefix begins the names of metrics.
const prefix = "symphony-replicas-"

func metricName(g *api.ScaleGroup) string { return prefix + g.DeviceType }

// group is what a trigger is about.
func (s *Server) group(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*api.ScaleGroup, error) {
	a, err := s.source.Advice(ctx)
	if err != nil {
		s.conns.end(ctx)
		return nil, unavailable(err)
	}
	if a.Scaler == "none" {
		return nil, status.Error(codes.FailedPrecondition, "the controller only advises: set control.autoscale.scaler to kubernetes, so that it drains what is to go and counts what was ordered")
	}
	deviceType, scheduler := ref.GetScalerMetadata()["deviceType"], ref.GetScalerMetadata()["scheduler"]
	var found *api.ScaleGroup
	var types []string
	for i := range a.Groups {
		g := &a.Groups[i]
		types = append(types, strings.TrimSpace(g.DeviceType+" "+g.Scheduler))
		if deviceType != "" && g.DeviceType != deviceType || scheduler != "" && g.Scheduler != scheduler {
			continue
		}
		if found != nil {
			return nil, status.Errorf(codes.InvalidArgument, "the trigger's metadata fit several groups: say deviceType, and scheduler where there are several; there are %s", strings.Join(types, ", "))
		}
		found = g
	}
	switch {
	case len(a.Groups) == 0:
		return nil, status.Error(codes.Unavailable, "the controller knows of no GPU yet")
	case found == nil:
		return nil, status.Errorf(codes.NotFound, "no GPU of device type %q at scheduler %q was seen yet; there are %s", deviceType, scheduler, strings.Join(types, ", "))
	}
	return found, nil
}

// sized is a group whose size may be taken at its word, as an HPA does. That of a controller which began a
// moment ago leaves out what is on its way, and would end it.
func (s *Server) sized(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*api.ScaleGroup, error) {
	g, err := s.group(ctx, ref)
	if err == nil && !g.Settled {
		return nil, status.Errorf(codes.Unavailable, "the controller began less than its lead time ago, and does not know yet what of device type %q is on its way: the replicas stay as they are", g.DeviceType)
	}
	return g, err
}

// unavailable: KEDA asks again.
func unavailable(err error) error {
	var e *api.Error
	if errors.As(err, &e) {
		return status.Error(codes.Unavailable, e.Msg)
	}
	return status.Error(codes.Unavailable, err.Error())
}

// IsActive implements externalscaler.ExternalScalerServer.
func (s *Server) IsActive(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	g, err := s.sized(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: g.Size > 0}, nil
}

// StreamIsActive implements externalscaler.ExternalScalerServer: it tells at once, and when it, or the
// size, has changed, so that KEDA asks for the metric without waiting for its polling interval.
func (s *Server) StreamIsActive(ref *externalscaler.ScaledObjectRef, to grpc.ServerStreamingServer[externalscaler.IsActiveResponse]) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return status.Errorf(codes.ResourceExhausted, "%d streams are open already", streamsMax)
	}
	tick := time.NewTicker(s.look)
	defer tick.Stop()
	size := -1
	for {
		g, err := s.sized(to.Context(), ref)
		switch {
		case err != nil:
			return err // KEDA opens it again
		case g.Size != size:
			if size = g.Size; to.Send(&externalscaler.IsActiveResponse{Result: size > 0}) != nil {
				return nil // it is gone
			}
		}
		select {
		case <-tick.C:
		case <-to.Context().Done():
			return nil
		case <-s.ending:
			return status.Error(codes.Unavailable, "the controller is shutting down")
		}
	}
}

// GetMetricSpec implements externalscaler.ExternalScalerServer.
func (s *Server) GetMetricSpec(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	g, err := s.group(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{MetricName: metricName(g), TargetSize: 1, TargetSizeFloat: 1}}}, nil
}

// GetMetrics implements externalscaler.ExternalScalerServer.
func (s *Server) GetMetrics(ctx context.Context, r *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	g, err := s.sized(ctx, r.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	// KEDA puts "s0-" in front where it asks HPA's names.
	if name := r.GetMetricName(); name != "" && !strings.HasSuffix(name, metricName(g)) {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("no metric %q: that of the trigger is %s", name, metricName(g)))
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{{MetricName: r.GetMetricName(), MetricValue: int64(g.Size), MetricValueFloat: float64(g.Size)}}}, nil
}
