package parts

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/mono"
)

// echo answers with as many bytes as an inference here has.
type echo struct {
	inference.UnimplementedGRPCInferenceServiceServer
}

func (echo) ModelInfer(_ context.Context, q *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	return &inference.ModelInferResponse{ModelName: q.ModelName, ModelVersion: "1", Outputs: []*inference.ModelInferResponse_InferOutputTensor{{Name: "output", Datatype: "FP32", Shape: []int64{1, 8}}}, RawOutputContents: q.RawInputContents}, nil
}

// closedLoop has 64 callers over one connection.
func closedLoop(b *testing.B, address string) {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	client := inference.NewGRPCInferenceServiceClient(c)
	q := &inference.ModelInferRequest{ModelName: "m", RawInputContents: [][]byte{make([]byte, 32)},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "FP32", Shape: []int64{1, 8}}}}
	b.SetParallelism(64)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.ModelInfer(context.Background(), q); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// What an inference over gRPC costs beside grpc-go itself: a bare service that was made of the same
// .proto, with the same bytes. Client and server share the machine in both.
func BenchmarkGRPC(b *testing.B) {
	b.Run("echo", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := grpc.NewServer()
		inference.RegisterGRPCInferenceServiceServer(s, echo{})
		go s.Serve(l)
		defer s.Stop()
		closedLoop(b, l.Addr().String())
	})
	b.Run("infer", func(b *testing.B) {
		csv := filepath.Join(b.TempDir(), "fast.csv")
		if err := os.WriteFile(csv, []byte("model,alpha_ms,beta_ms,slo_ms\nm,0.001,0.2,1000\n"), 0o644); err != nil {
			b.Fatal(err)
		}
		cfg := config.Default()
		cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Log.Level = "never", "never", "error"
		cfg.Scheduler.Listen, cfg.Frontend.Listen = []string{"inproc:s"}, "inproc:f"
		cfg.Frontend.HTTP, cfg.Frontend.GRPC, cfg.Drain = "127.0.0.1:0", "127.0.0.1:0", 5*mono.Second
		cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 4, Zoo: []config.Zoo{{CSV: csv}}}}
		p, err := New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		s, err := p.ServeLibrary(b.Context())
		if err == nil {
			s.Web, err = p.Ingress(s.Client)
		}
		if err == nil {
			err = s.Client.WaitReady(b.Context(), "m")
		}
		if err != nil {
			b.Fatal(err)
		}
		defer s.Drain()
		closedLoop(b, s.Web.GRPC)
	})
}
