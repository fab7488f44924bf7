package keda

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/keda/externalscaler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is an advice that the test changes.
type source struct {
	mu     sync.Mutex
	advice api.Advice
	err    error
}

func (s *source) Advice(context.Context) (api.Advice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.advice, s.err
}

func (s *source) set(scaler string, err error, groups ...api.ScaleGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advice, s.err = api.Advice{Scaler: scaler, Groups: groups}, err
}

// start serves on a port of its own, and dials it as KEDA does.
func start(t *testing.T) (*source, *Server, externalscaler.ExternalScalerClient) {
	src := &source{}
	s := New(src)
	s.look = time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-s.ending:
		default:
			s.Close()
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return src, s, externalscaler.NewExternalScalerClient(conn)
}

func ref(pairs ...string) *externalscaler.ScaledObjectRef {
	r := &externalscaler.ScaledObjectRef{Name: "gpu", Namespace: "default", ScalerMetadata: map[string]string{"scalerAddress": "x"}}
	for i := 0; i < len(pairs); i += 2 {
		r.ScalerMetadata[pairs[i]] = pairs[i+1]
	}
	return r
}

// limit is for calls that do not end.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// KEDA's calls in their order: HPA divides the metric by its target, and has the advice's size.
func TestPull(t *testing.T) {
	src, _, c := start(t)
	src.set("kubernetes", nil, api.ScaleGroup{Settled: true, DeviceType: "a100", Size: 7}, api.ScaleGroup{Settled: true, DeviceType: "t4", Size: 2})
	ctx, of := limit(t), ref("deviceType", "a100")
	if r, err := c.IsActive(ctx, of); err != nil || !r.Result {
		t.Errorf("%v, %v", r, err)
	}
	spec, err := c.GetMetricSpec(ctx, of)
	if err != nil || len(spec.MetricSpecs) != 1 || spec.MetricSpecs[0].MetricName != "symphony-replicas-a100" || spec.MetricSpecs[0].TargetSize != 1 || spec.MetricSpecs[0].TargetSizeFloat != 1 {
		t.Fatalf("%v, %v", spec, err)
	}
	for _, name := range []string{"symphony-replicas-a100", "s0-symphony-replicas-a100"} {
		m, err := c.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: of, MetricName: name})
		if err != nil || len(m.MetricValues) != 1 || m.MetricValues[0].MetricName != name || m.MetricValues[0].MetricValue != 7 || m.MetricValues[0].MetricValueFloat != 7 {
			t.Errorf("%v, %v", m, err)
		}
	}
	_, err = c.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: of, MetricName: "cpu"})
	is(t, err, codes.InvalidArgument, "no metric")
}

func is(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("%v; want %v, %q", err, code, text)
	}
}

// What cannot be answered says why, and which group is meant must be plain.
func TestWhatCannotBeAnswered(t *testing.T) {
	src, _, c := start(t)
	ctx := limit(t)
	src.set("kubernetes", nil)
	_, err := c.IsActive(ctx, ref())
	is(t, err, codes.Unavailable, "no GPU yet")
	src.set("kubernetes", api.Conflict("controller b leads (http://b), and this one does not: ask that one"))
	_, err = c.GetMetricSpec(ctx, ref())
	is(t, err, codes.Unavailable, "controller b leads")
	src.set("none", nil, api.ScaleGroup{Settled: true, DeviceType: "a100", Size: 1})
	_, err = c.IsActive(ctx, ref())
	is(t, err, codes.FailedPrecondition, "control.autoscale.scaler")
	src.set("kubernetes", nil, api.ScaleGroup{Settled: true, DeviceType: "a100", Scheduler: "tcp:a:1", Size: 1}, api.ScaleGroup{Settled: true, DeviceType: "a100", Scheduler: "tcp:b:1", Size: 0})
	_, err = c.IsActive(ctx, ref("deviceType", "a100"))
	is(t, err, codes.InvalidArgument, "several")
	_, err = c.IsActive(ctx, ref("deviceType", "t4"))
	is(t, err, codes.NotFound, "a100 tcp:b:1")
	if r, err := c.IsActive(ctx, ref("scheduler", "tcp:b:1")); err != nil || r.Result {
		t.Errorf("%v, %v", r, err)
	}
	_, err = c.IsActive(ctx, nil)
	is(t, err, codes.InvalidArgument, "several")
}

// A controller that has just begun knows only what has joined: by that size an HPA would end the rest.
func TestASizeThatLeavesOutWhatLoads(t *testing.T) {
	src, _, c := start(t)
	ctx := limit(t)
	group := api.ScaleGroup{DeviceType: "a100", Size: 4}
	src.set("kubernetes", nil, group)
	ask := func() (int64, error) {
		m, err := c.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: ref()})
		if err != nil {
			return 0, err
		}
		return m.MetricValues[0].MetricValue, nil
	}
	_, err := ask()
	is(t, err, codes.Unavailable, "on its way")
	_, err = c.IsActive(ctx, ref())
	is(t, err, codes.Unavailable, "on its way")
	if _, err := c.GetMetricSpec(ctx, ref()); err != nil { // has no size
		t.Error(err)
	}
	group.Settled = true
	src.set("kubernetes", nil, group)
	if n, err := ask(); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A stream tells at once, and again when the size changes; it ends with the server, which waits for
// nobody.
func TestPush(t *testing.T) {
	src, s, c := start(t)
	src.set("kubernetes", nil, api.ScaleGroup{Settled: true, DeviceType: "a100", Size: 1})
	stream, err := c.StreamIsActive(limit(t), ref())
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 0, 3} {
		src.set("kubernetes", nil, api.ScaleGroup{Settled: true, DeviceType: "a100", Size: size})
		for want := size > 0; ; {
			r, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if r.Result == want {
				break
			}
		}
	}
	s.Close()
	_, err = stream.Recv()
	is(t, err, codes.Unavailable, "")
}

// Behind one address there are one that leads and one that does not, as behind a Service: a call comes to
// the leader in the end, and stays there, although connections are kept.
func TestTheLeaderIsFound(t *testing.T) {
	spare, leader := &source{}, &source{}
	spare.set("kubernetes", api.Conflict("controller b leads"))
	leader.set("kubernetes", nil, api.ScaleGroup{Settled: true, DeviceType: "a100", Size: 7})
	var addresses []string
	for _, src := range []*source{spare, leader} {
		s := New(src)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ln) }()
		t.Cleanup(func() { s.Close(); <-ended })
		addresses = append(addresses, ln.Addr().String())
	}
	var dials atomic.Int32
	conn, err := grpc.NewClient("passthrough:service", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addresses[(dials.Add(1)-1)%2])
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, ctx := externalscaler.NewExternalScalerClient(conn), limit(t)
	_, err = c.IsActive(ctx, ref())
	is(t, err, codes.Unavailable, "controller b leads")
	for err != nil {
		if ctx.Err() != nil {
			t.Fatal("the leader was not found")
		}
		time.Sleep(10 * time.Millisecond)
		_, err = c.IsActive(ctx, ref())
	}
	found := dials.Load()
	for range 20 {
		if _, err := c.IsActive(ctx, ref()); err != nil {
			t.Error(err)
		}
	}
	if found != dials.Load() {
		t.Error("the leader's connection was not kept")
	}
}
