package parts

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A process that ends answers what its scheduler had deferred for half a minute, and does
// not wait that long.
func TestDrainAnswersWhatIsDeferred(t *testing.T) {
	cfg := config.Default()
	cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Log.Level = "never", "never", "error"
	cfg.Scheduler.Listen, cfg.Frontend.Listen, cfg.Frontend.Arena = []string{"inproc:s"}, "inproc:f", 16<<20
	cfg.Scheduler.Headroom, cfg.Drain = "0", 25*mono.Second // the whole deferral
	cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv",
		Models: []string{"ResNet50"}, SLO: 30 * mono.Second}}}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.ServeLibrary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Client.WaitReady(t.Context(), "ResNet50"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	s.Client.InferAsync(t.Context(), frontend.Request{Model: "ResNet50", Inputs: []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{8}, Data: make([]byte, 32)}}},
		func(r *frontend.Response, err error) {
			if err == nil {
				r.Release()
			}
			answer <- err
		})
	time.Sleep(100 * time.Millisecond)
	if len(answer) > 0 {
		t.Fatalf("the request was not deferred: %v", <-answer)
	}
	begin := time.Now()
	if err := s.Drain(); err != nil {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	if err := <-answer; err != nil {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}
