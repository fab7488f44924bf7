package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// symphony is `symphony serve`, all parts in one process, as it comes.
type symphony struct {
	binary string // absolute
	built  string // its version
}

func (symphony) name() string { return "Symphony" }

func (s symphony) version() string { return s.built }

func (s symphony) install(context.Context) error {
	if _, err := os.Stat(s.binary); err != nil {
		return fmt.Errorf("%w: `make build` makes it", err)
	}
	return nil
}

func (symphony) stages(Case) []stage { return nil }

const serveYAML = `log: {level: warn}
scheduler: {listen: ["inproc:scheduler"]}
frontend: {scheduler: "inproc:scheduler", listen: "inproc:frontend", http: "127.0.0.1:%d"}
backend:
  name: here
  scheduler: inproc:scheduler
  repository: models
  pools: [{device_type: emulated, kind: emulated, devices: 1}]
`

const modelYAML = `platform: emulated
device_type: emulated
slo: %gms
max_batch: %d
profile: {alpha_ms: %g, beta_ms: %g}
inputs: [{name: input, type: FP32, shape: [8]}]
outputs: [{name: output, type: FP32, shape: [8]}]
`

func (s symphony) start(c Case, _ Setting, folder string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	for _, m := range c.Models {
		model := filepath.Join(folder, "models", m.Name)
		if err := os.MkdirAll(model, 0o755); err != nil {
			return nil, err
		}
		text := fmt.Sprintf(modelYAML, m.SLO, batchMax, m.Alpha, m.Beta)
		if err := os.WriteFile(filepath.Join(model, "config.yaml"), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(folder, "symphony.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, serveYAML, port), 0o644); err != nil {
		return nil, err
	}
	var environ []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SYMPHONY_") { // it is as it comes
			environ = append(environ, kv)
		}
	}
	proc, err := launch(folder, 5*time.Second, environ, s.binary, "serve", "-c", path)
	if err != nil {
		return nil, err
	}
	return &server{urlOf(port), proc}, nil
}
