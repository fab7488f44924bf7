package parts

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
)

// overGRPC is a system whose only device takes seconds for a batch of up to 64, with gRPC.
func overGRPC(t *testing.T, dispatched *atomic.Int64) (*Process, *System) {
	t.Helper()
	csv := filepath.Join(t.TempDir(), "slow.csv")
	if err := os.WriteFile(csv, []byte("model,alpha_ms,beta_ms,slo_ms\nslow,0.01,5000,3000000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Log.Level = "never", "never", "error"
	cfg.Scheduler.Listen, cfg.Frontend.Listen, cfg.Frontend.Arena = []string{"inproc:s"}, "inproc:f", 256<<20
	cfg.Frontend.HTTP, cfg.Frontend.GRPC, cfg.Drain = "127.0.0.1:0", "127.0.0.1:0", 25*mono.Second
	cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: csv}}}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Watch = server.Watch{Dispatched: func(d *shard.Dispatch) { dispatched.Add(int64(len(d.Requests))) }}
	s, err := p.ServeLibrary(t.Context())
	if err == nil {
		s.Web, err = p.Ingress(s.Client)
	}
	if err == nil {
		err = s.Client.WaitReady(t.Context(), "slow")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Drain(); err != nil {
			t.Error(err)
		}
	})
	return p, s
}

// value is a metric's, of all its labels that match.
func (p *Process) value(t *testing.T, name, label, is string) (sum float64) {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			match := label == ""
			for _, l := range m.GetLabel() {
				match = match || l.GetName() == label && l.GetValue() == is
			}
			if f.GetName() == name && match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func reached(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 3 minutes", what)
		}
	}
}

// grpcClients are n, each with a connection of its own.
func grpcClients(t *testing.T, address string, n int) []inference.GRPCInferenceServiceClient {
	t.Helper()
	clients := make([]inference.GRPCInferenceServiceClient, n)
	for i := range clients {
		c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients[i] = inference.NewGRPCInferenceServiceClient(c)
	}
	return clients
}

// waitingRequests is how many wait at a time.
func waitingRequests() int {
	if raceEnabled {
		return 4_000
	}
	return 10_000
}

// Of 10,000 requests that wait (fewer under the race detector), a tenth is cancelled over gRPC: none of them runs, their slabs are free,
// and the counters add up.
func TestCancelledOverGRPC(t *testing.T) {
	const conns = 4
	requests := waitingRequests()
	cancelled := requests / 10
	var dispatched atomic.Int64
	p, s := overGRPC(t, &dispatched)
	clients := grpcClients(t, s.Web.GRPC, conns)
	q := &inference.ModelInferRequest{ModelName: "slow", RawInputContents: [][]byte{make([]byte, 32)},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "FP32", Shape: []int64{1, 8}}}}
	rest, endRest := context.WithCancel(context.Background())
	some, endSome := context.WithCancel(context.Background())
	defer endRest()
	defer endSome()
	var calls sync.WaitGroup
	var codesSeen [17]atomic.Int64
	waiting := func() int { return int(p.value(t, "symphony_queue_requests", "", "")) }
	came := func() int { return waiting() + int(codesSeen[codes.OK].Load()) } // a batch may be through meanwhile
	send := func(n int, ctx func(i int) context.Context) {
		for i := range n {
			calls.Go(func() {
				_, err := clients[i%conns].ModelInfer(ctx(i), q)
				codesSeen[status.Code(err)].Add(1)
			})
		}
	}
	send(requests/2, func(int) context.Context { return rest })
	reached(t, "half of them wait", func() bool { return came() == requests/2 })
	send(requests/2, func(i int) context.Context {
		if i%5 == 0 {
			return some
		}
		return rest
	})
	reached(t, "all wait", func() bool { return came() == requests })
	// What waits runs by deadline, and the first half's came before: as long as that is not through,
	// none of them has begun.
	endSome()
	drops := func() float64 { return p.value(t, "symphony_drops_total", "reason", "cancelled") }
	reached(t, "they have left", func() bool { return int(drops()) == cancelled && int(codesSeen[codes.Canceled].Load()) == cancelled })
	if n := dispatched.Load(); n > int64(requests/2-64) {
		t.Fatalf("%d requests were dispatched meanwhile: the test shows nothing", n)
	}
	if got := waiting(); got > requests-cancelled {
		t.Errorf("%d requests wait or run, want at most %d", got, requests-cancelled)
	}
	if slabs := int(p.value(t, "symphony_arena_slabs", "", "")); slabs > requests-cancelled {
		t.Errorf("%d slabs are held, want at most %d", slabs, requests-cancelled)
	}
	endRest()
	calls.Wait()
	reached(t, "nothing waits", func() bool { return int64(drops())+dispatched.Load() == int64(requests) })
	ok, gone := codesSeen[codes.OK].Load(), codesSeen[codes.Canceled].Load()
	if ok+gone != int64(requests) {
		t.Errorf("%d were answered and %d cancelled, want %d in all", ok, gone, requests)
	}
	if n := p.value(t, "symphony_requests_total", "outcome", "cancelled"); int64(n) != gone {
		t.Errorf("the frontend counted %v cancelled, the clients %d", n, gone)
	}
	if slabs := p.value(t, "symphony_arena_slabs", "", ""); slabs != 0 {
		t.Errorf("%v slabs are held", slabs)
	}
}

// gRPC is served where it is wanted: at its address, beside HTTP's customary port, or nowhere; an address
// that somebody has is an error that names the key.
func TestWhereGRPCIs(t *testing.T) {
	for _, c := range []struct {
		http, grpc, want string
		asked            bool
	}{
		{"127.0.0.1:8000", "auto", "127.0.0.1:8001", false},
		{"0.0.0.0:8000", "auto", "0.0.0.0:8001", false},
		{"127.0.0.1:9000", "auto", "", false},
		{"127.0.0.1:0", "auto", "", false},
		{"127.0.0.1:8000", "", "", true},
		{"127.0.0.1:8000", "127.0.0.1:7", "127.0.0.1:7", true},
	} {
		f := config.Frontend{HTTP: c.http, GRPC: c.grpc}
		if got, asked := f.GRPCAddress(); got != c.want || asked != c.asked {
			t.Errorf("%+v: %q %v", c, got, asked)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := config.Default()
	cfg.Log.Level, cfg.RDMA.Mode, cfg.TCP.KernelRTT = "error", "never", "never"
	cfg.Frontend.HTTP, cfg.Frontend.GRPC, cfg.Frontend.Listen = "127.0.0.1:0", taken.Addr().String(), "inproc:f"
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := p.Ingress(client); err == nil || !strings.Contains(err.Error(), "frontend.grpc") || !strings.Contains(err.Error(), "--grpc") {
		t.Errorf("%v", err)
	}
}
