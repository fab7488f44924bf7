package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

// What is served: a binary and a JSON model alike, on emulated GPUs that are never the
// bottleneck. Batches are deferred until 32 are together or the SLO nears. (They are two
// so that the echo can tell them by their paths.)
const (
	httpModel = `platform: emulated
slo: 200ms
max_batch: 32
device_type: emulated
profile: {alpha_ms: 0.02, beta_ms: 1}
inputs: [{name: x, type: FP32, shape: [%d]}]
outputs: [{name: y, type: FP32, shape: [10]}]
`
	httpConfig = `log: {level: error}
scheduler: {listen: ["inproc:scheduler"]}
frontend: {name: bench-http, scheduler: "inproc:scheduler", listen: "inproc:frontend", http: "127.0.0.1:0"}
rdma: {mode: never}
backend:
  name: bench-http
  scheduler: inproc:scheduler
  repository: %s
  pools: [{device_type: emulated, kind: emulated, devices: 8}]
`
)

// serveEmulated is `symphony serve` with models of its own, which lie in a temporary
// folder while it starts.
func (c httpCmd) serveEmulated(ctx context.Context) (s *parts.System, err error) {
	dir, err := os.MkdirTemp("", "symphony-bench-http-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	models := filepath.Join(dir, "models")
	for _, name := range []string{"binary", "json"} {
		if err := os.MkdirAll(filepath.Join(models, name), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(models, name, "config.yaml"), fmt.Appendf(nil, httpModel, c.Floats), 0o644); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(dir, "symphony.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, httpConfig, models), 0o644); err != nil {
		return nil, err
	}
	cfg, err := config.Load(file, nil, nil)
	if err != nil {
		return nil, err
	}
	p, err := parts.New(cfg)
	if err != nil {
		return nil, err
	}
	if s, err = p.Serve(ctx); err != nil {
		return nil, err
	}
	if err := s.Client.WaitReady(ctx, "binary", "json"); err != nil {
		return nil, errors.Join(err, s.Drain())
	}
	return s, nil
}
