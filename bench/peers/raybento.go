package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// rayServe is Ray Serve: one replica with all models, behind Ray's own proxy.
type rayServe struct{ venv }

func (rayServe) name() string { return "Ray Serve" }

func (r rayServe) version() string { return r.pinned("ray") }

// rayMemory is what Ray's eight processes need beside their shared memory.
const rayMemory = 4 << 30

func (r rayServe) install(ctx context.Context) error {
	if free := memoryFree(); free > 0 && free < rayMemory {
		return fmt.Errorf("not started: it needs %d MiB of memory, %d are free", rayMemory>>20, free>>20)
	}
	return r.venv.install(ctx)
}

// optimised is Ray's own set of switches for throughput.
const optimised = "throughput optimised"

func (rayServe) stages(c Case) []stage {
	return []stage{
		func(Setting) []Setting {
			return Setting{Longest: c.Longest[0]}.grid([]float64{0, 0.1, 0.2}, []float64{0, 1})
		},
		func(best Setting) []Setting { return best.modes(optimised) },
		func(best Setting) []Setting { return best.longest(c.Longest[1:3]) },
	}
}

func (r rayServe) start(c Case, s Setting, folder string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	path, err := writeSetup(c, s, port, folder)
	if err != nil {
		return nil, err
	}
	if err := unpack("ray/app.py", folder); err != nil {
		return nil, err
	}
	// The node's address becomes that of loopback by the switch of other systems'. What
	// listens on all interfaces all the same asks for a token of this run's own.
	environ := r.environ("PEERS_SETUP="+path, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0", "RAY_USAGE_STATS_ENABLED=0", "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN="+rand.Text()+rand.Text(), "RAY_SERVE_LOG_TO_STDERR=0",
		"RAY_worker_niceness=0") // by default Ray starts its own behind all others
	if s.Mode == optimised {
		// Not its direct ingress: that listens on all interfaces.
		environ = append(environ, "RAY_SERVE_THROUGHPUT_OPTIMIZED=1", "RAY_SERVE_ENABLE_DIRECT_INGRESS=0")
	}
	proc, err := launch(folder, 3*time.Second, environ, r.bin("python"), "app.py")
	if err != nil {
		return nil, err
	}
	return &server{urlOf(port), proc}, nil
}

// bentoML is BentoML: one service in one process, with its adaptive batching.
type bentoML struct{ venv }

func (bentoML) name() string { return "BentoML" }

func (b bentoML) version() string { return b.pinned("bentoml") }

// Its delay is not a setting: it learns how long to wait.
func (bentoML) stages(c Case) []stage {
	return []stage{
		func(Setting) []Setting {
			return Setting{Longest: c.Longest[0]}.grid([]float64{0}, []float64{0.4, 0.6, 0.8, 1, 2})
		},
		func(best Setting) []Setting { return best.longest(c.Longest) },
	}
}

func (b bentoML) start(c Case, s Setting, folder string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	path, err := writeSetup(c, s, port, folder)
	if err = errors.Join(err, unpack("bentoml/service.py", folder)); err != nil {
		return nil, err
	}
	environ := b.environ("PEERS_SETUP="+path, "BENTOML_DO_NOT_TRACK=True", "BENTOML_HOME="+folder)
	proc, err := launch(folder, 5*time.Second, environ, b.bin("bentoml"), "serve", "service:Peers", "--host", "127.0.0.1", "--port", strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	return &server{urlOf(port), proc}, nil
}

// emptyFolder makes a folder with a short path: sockets' names are bounded.
func emptyFolder() (string, error) { return os.MkdirTemp("", "peers-") }
