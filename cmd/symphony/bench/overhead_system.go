package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/transport/mono"
)

// wholeSystem is a system in one process, wired as serve does it, with emulated
// GPUs and models that do next to nothing: what is left is our own time.
type wholeSystem struct {
	Links    string // "tcp" or "inproc"
	Models   int
	GPUs     int
	MaxBatch int
	Floats   int // of an input and of an output
	Alpha    float64
	Beta     float64 // ms
	SLO      mono.Dur
}

func (w wholeSystem) names() []string {
	var names []string
	for i := range w.Models {
		names = append(names, fmt.Sprintf("m%d", i))
	}
	return names
}

// config writes the models into dir and makes the configuration.
func (w wholeSystem) config(dir string) (config.Config, error) {
	for _, name := range w.names() {
		text := fmt.Sprintf("platform: emulated\ndevice_type: emulated\nslo: %dus\nmax_batch: %d\nprofile: {alpha_ms: %g, beta_ms: %g}\n"+
			"inputs: [{name: input, type: FP32, shape: [%d]}]\noutputs: [{name: output, type: FP32, shape: [%d]}]\n",
			w.SLO/mono.Microsecond, w.MaxBatch, w.Alpha, w.Beta, w.Floats, w.Floats)
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return config.Config{}, err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "config.yaml"), []byte(text), 0o644); err != nil {
			return config.Config{}, err
		}
	}
	cfg := quietSystem(w.Links)
	cfg.Backend.Repository = dir
	cfg.Backend.Pools = []config.Pool{{DeviceType: "emulated", Kind: "emulated", Devices: w.GPUs}}
	return cfg, nil
}

// quietSystem is the configuration of a system in one process that logs errors only, without a pool.
func quietSystem(links string) config.Config {
	cfg := config.Default()
	cfg.Log.Level, cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Backend.Name = "error", "never", "never", "here"
	cfg.Scheduler.Listen, cfg.Frontend.Listen = []string{"tcp:127.0.0.1:0"}, "tcp:127.0.0.1:0"
	if links == "inproc" {
		cfg.Scheduler.Listen, cfg.Frontend.Listen = []string{"inproc:scheduler"}, "inproc:frontend"
	}
	return cfg
}

// start serves until end is called; every model has its GPUs then.
func (w wholeSystem) start(ctx context.Context, dir string, watch server.Watch) (s *parts.System, end func() error, err error) {
	cfg, err := w.config(dir)
	if err != nil {
		return nil, nil, err
	}
	p, err := parts.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	p.Watch = watch
	if s, err = p.ServeLibrary(ctx); err != nil {
		return nil, nil, err
	}
	if err = s.Client.WaitReady(ctx, w.names()...); err != nil {
		return nil, nil, errors.Join(err, s.Drain())
	}
	return s, s.Drain, nil
}
