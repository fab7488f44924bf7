package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// triton is NVIDIA's server out of the package nvidia-pytriton, with its Python
// backend. The package's own launcher is not used.
type triton struct{ venv }

func (triton) name() string { return "Triton" }

func (t triton) version() string { return "2.51 of nvidia-pytriton " + t.pinned("nvidia-pytriton") }

func (t triton) install(ctx context.Context) error {
	if err := t.venv.install(ctx); err != nil {
		return err
	}
	_, _, err := t.stub()
	return err
}

// Ways in which several models share the device.
const (
	byLock     = ""                  // a batch holds a lock on a file
	byLimiter  = "limiter"           // Triton's rate limiter lets one batch go at a time
	byPriority = "limiter, priority" // and the shortest SLO first
)

func (triton) stages(c Case) []stage {
	out := []stage{
		func(Setting) []Setting {
			return Setting{Longest: c.Longest[0]}.grid([]float64{0, 0.1, 0.2, 0.3}, []float64{0.3, 0.4, 0.5, 0.6})
		},
		func(best Setting) []Setting { return best.longest(c.Longest) },
	}
	if len(c.Models) > 1 {
		out = append(out, func(best Setting) []Setting { return best.modes(byLimiter, byPriority) })
	}
	return out
}

// stub is the server's folder and the program that runs models in Python.
func (t triton) stub() (server, stub string, err error) {
	packages, err := t.packages()
	if err != nil {
		return "", "", err
	}
	server = filepath.Join(packages, "pytriton", "tritonserver")
	minor := strings.TrimPrefix(filepath.Base(filepath.Dir(packages)), "python")
	stub = filepath.Join(server, "python_backend_stubs", minor, "triton_python_backend_stub")
	if _, err := os.Stat(stub); err != nil {
		return "", "", fmt.Errorf("the package has no backend for Python %s; give --python another", minor)
	}
	return server, stub, nil
}

func (t triton) start(c Case, s Setting, folder string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	home, stub, err := t.stub()
	if err != nil {
		return nil, err
	}
	backends := filepath.Join(folder, "backends")
	if err := os.CopyFS(filepath.Join(backends, "python"), os.DirFS(filepath.Join(home, "backends", "python"))); err != nil {
		return nil, err
	}
	if err := os.Symlink(stub, filepath.Join(backends, "python", "triton_python_backend_stub")); err != nil {
		return nil, err
	}
	for _, m := range c.Models {
		version := filepath.Join(folder, "models", m.Name, "1")
		if err := os.MkdirAll(version, 0o755); err != nil {
			return nil, err
		}
		if err := unpack("triton/model.py", version); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(folder, "models", m.Name, "config.pbtxt"), []byte(tritonConfig(c, m, s, filepath.Join(folder, "lock"))), 0o644); err != nil {
			return nil, err
		}
	}
	args := []string{"--model-repository=" + filepath.Join(folder, "models"), "--backend-directory=" + backends, "--http-address=127.0.0.1",
		"--http-port=" + strconv.Itoa(port), "--allow-grpc=false", "--allow-metrics=false", "--exit-timeout-secs=5", "--log-info=false",
		"--backend-config=python,shm-region-prefix-name=" + filepath.Base(folder), "--backend-config=python,shm-default-byte-size=4194304"}
	if s.Mode != byLock {
		args = append(args, "--rate-limit=execution_count")
	}
	packages := filepath.Dir(filepath.Dir(home))
	libs := strings.Join([]string{filepath.Join(home, "external_libs"), filepath.Join(packages, "nvidia_pytriton.libs"), filepath.Join(packages, "nvidia", "cuda_runtime", "lib"), os.Getenv("LD_LIBRARY_PATH")}, ":")
	proc, err := launch(folder, 8*time.Second, t.environ("LD_LIBRARY_PATH="+libs), filepath.Join(home, "bin", "tritonserver"), args...)
	if err != nil {
		return nil, err
	}
	proc.left = "/dev/shm/" + filepath.Base(folder) + "*"
	return &server{urlOf(port), proc}, nil
}

// tritonConfig is a model's configuration. The timeout is the model's own with REJECT:
// without that Triton ignores what a request asks for.
func tritonConfig(c Case, m Model, s Setting, lock string) string {
	group := "count: 1, kind: KIND_CPU"
	if s.Mode != byLock {
		lock = "none"
		priority := 1
		if s.Mode == byPriority {
			for _, other := range c.Models {
				if other.SLO < m.SLO {
					priority++
				}
			}
		}
		group += fmt.Sprintf(`, rate_limiter {resources [{name: "device", global: true, count: 1}], priority: %d}`, priority)
	}
	if len(c.Models) == 1 {
		lock = "none" // its one instance is the device
	}
	policy := ""
	if s.Timeout > 0 {
		policy = fmt.Sprintf(" default_queue_policy {timeout_action: REJECT, default_timeout_microseconds: %.0f}", s.Timeout*m.SLO*1000)
	}
	return fmt.Sprintf(`backend: "python"
max_batch_size: %d
input [{name: "input", data_type: TYPE_FP32, dims: [8]}]
output [{name: "output", data_type: TYPE_FP32, dims: [8]}]
instance_group [{%s}]
dynamic_batching {max_queue_delay_microseconds: %.0f%s}
parameters [
  {key: "alpha_ms", value: {string_value: "%g"}},
  {key: "beta_ms", value: {string_value: "%g"}},
  {key: "slo_ms", value: {string_value: "%g"}},
  {key: "lock", value: {string_value: "%s"}}
]
`, m.Largest(s.Longest), group, s.Delay*m.SLO*1000, policy, m.Alpha, m.Beta, m.SLO, lock)
}
