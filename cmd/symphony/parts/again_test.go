package parts

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A scheduler that is started again with another policy decides by that: a lone request waits
// for its frontrun where the deferral is spent, and leaves at once where none of it is.
//
// Another request would take a second more: a batch of one leaves between 2 s and 1 s before it
// would be late, so that a machine that pauses for a second changes nothing. At the frontrun
// less than half of the SLO is left.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "platform: emulated\ndevice_type: emulated\nslo: 4s\nmax_batch: 4\nprofile: {alpha_ms: 1000, beta_ms: 1}\ninputs: [{name: x, type: FP32, shape: [1]}]\noutputs: [{name: y, type: FP32, shape: [1]}]\n"
	if err := os.WriteFile(filepath.Join(dir, "m", "config.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Log.Level, cfg.RDMA.Mode, cfg.TCP.KernelRTT = "error", "never", "never"
	cfg.Backend.Name, cfg.Backend.Repository = "here", dir
	cfg.Backend.Pools = []config.Pool{{DeviceType: "emulated", Kind: "emulated", Devices: 1}}
	cfg.Scheduler.Listen, cfg.Frontend.Listen = []string{"tcp:127.0.0.1:0"}, "tcp:127.0.0.1:0"
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel() // it waits; New, which sets the process up, does not run beside another
	held := make(chan mono.Dur, 100)
	p.Watch = server.Watch{Dispatched: func(d *shard.Dispatch) { held <- mono.Now().Sub(d.Requests[0].Deadline) }}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	s, err := p.ServeLibrary(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Drain()
	for _, c := range []struct {
		name   string
		policy Policy
		early  bool
	}{{"deferred", Policy{}, false}, {"eager", Eager(), true}, {"deferred again", Policy{}, false}} {
		if err := p.Again(ctx, s, c.policy, "m"); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r, err := s.Client.Infer(ctx, frontend.Request{Model: "m", Inputs: []frontend.Tensor{{Name: "x", Type: catalog.FP32, Shape: []int64{1}, Data: make([]byte, 4)}}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r.Release()
		if left := -<-held; (left > 2500*mono.Millisecond) != c.early {
			t.Errorf("%s: the order left %v before the deadline of 4 s", c.name, left)
		}
	}
}
