package grpcin

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// health is gRPC's health service, for Kubernetes and load balancers. The service "" and the
// protocol's own are this server as a whole; any other name is a model's.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	s *Server
}

// serviceName is the protocol's.
const serviceName = "inference.GRPCInferenceService"

// watchPause is how often a watched service is looked at: nothing tells of all that decides it.
const watchPause = 250 * time.Millisecond

func (h *health) of(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	ready, err := h.s.cfg.Web.Ready(), error(nil)
	if service != "" && service != serviceName {
		ready, err = h.s.cfg.Web.ModelReady(service, "")
	}
	switch {
	case err != nil:
		return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case ready:
		return grpc_health_v1.HealthCheckResponse_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_NOT_SERVING
}

// Check implements grpc_health_v1.HealthServer.
func (h *health) Check(_ context.Context, q *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	is := h.of(q.GetService())
	if is == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "%q is neither %s nor a model", q.GetService(), serviceName)
	}
	return &grpc_health_v1.HealthCheckResponse{Status: is}, nil
}

// List implements grpc_health_v1.HealthServer: the server as a whole.
func (h *health) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	is := &grpc_health_v1.HealthCheckResponse{Status: h.of("")}
	return &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{"": is, serviceName: is}}, nil
}

// Watch implements grpc_health_v1.HealthServer.
func (h *health) Watch(q *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	look := time.NewTicker(watchPause)
	defer look.Stop()
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		if is := h.of(q.GetService()); is != last {
			last = is
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: is}); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-h.s.ending.Done():
			return status.Error(codes.Unavailable, "the server is shutting down")
		case <-look.C:
		}
	}
}
