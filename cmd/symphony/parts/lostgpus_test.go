package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// watcher is telemetry whose verdicts the test gives.
type watcher struct {
	mu   sync.Mutex
	tell map[string]func(health.Verdict)
}

func (w *watcher) Watch(uuid string, f func(health.Verdict)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell[uuid] = f
	return true
}

func (w *watcher) Close() error { return nil }

func (w *watcher) judge(uuid string, v health.Verdict) {
	w.mu.Lock()
	f := w.tell[uuid]
	w.mu.Unlock()
	f(v)
}

// echoOn is a system with a model "echo" on GPUs in software.
func echoOn(t *testing.T, d *fakecuda.Driver, w *watcher) *System {
	t.Helper()
	models := t.TempDir()
	for file, text := range map[string]string{"1/model.onnx": "not read", "config.yaml": "platform: onnxruntime\ndevice_type: cuda\nslo: 5s\nmax_batch: 8\n" +
		"inputs: [{name: x, type: UINT8, shape: [4]}]\noutputs: [{name: y, type: UINT8, shape: [4]}]\n"} {
		path := filepath.Join(models, "echo", file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := config.Default()
	cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Log.Level = "never", "never", "error"
	cfg.Scheduler.Listen, cfg.Frontend.Listen, cfg.Frontend.Arena = []string{"inproc:lost"}, "inproc:lost-frontend", 16<<20
	cfg.Backend.Repository, cfg.Backend.Pools = models, []config.Pool{{Kind: "cuda"}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel() // the test waits; New, which sets the process up, does not run beside another
	echo := fakecuda.Kernel{Time: func(int) mono.Dur { return mono.Millisecond }, Run: func(_ int, in, out [][]byte) error {
		copy(out[0], in[0])
		return nil
	}}
	p.GPUs = &backend.GPUs{Driver: d, Watch: func([]string) backend.Watcher { return w },
		Runtime: func() (cuda.Runtime, string, error) {
			return fakecuda.NewRuntime(fakecuda.Kernels{"echo": echo}), "fake", nil
		}}
	s, err := p.ServeLibrary(t.Context())
	if err == nil {
		err = s.Client.WaitReady(t.Context(), "echo")
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Under load GPUs are lost, vanish, hang, or are judged by telemetry: each leaves service,
// its requests run elsewhere, none is lost, and it returns when it can be used again.
func TestGPUsLeaveServiceAndReturn(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 2)})
	w := &watcher{tell: map[string]func(health.Verdict){}}
	s := echoOn(t, d, w)
	infos, err := d.Devices()
	if err != nil {
		t.Fatal(err)
	}
	load := begin(t, s.Client)
	gpus := func(n int) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
			e, err := s.Client.Model("echo", "")
			if err == nil && e.GPUs == n {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d GPUs, want %d: %v", e.GPUs, n, err)
			}
		}
	}
	gpus(2)
	hot := health.Verdict{State: health.Out, Cause: "it is hot"}
	bad := health.Verdict{State: health.Out, Cause: "its memory failed", Remedy: health.NewContext}
	for name, c := range map[string]struct{ fail, mend func(*fakecuda.GPU, string) }{
		"lost":     {func(g *fakecuda.GPU, _ string) { g.Lose() }, nil},
		"sticky":   {func(g *fakecuda.GPU, _ string) { g.FailKernel() }, nil},
		"vanished": {func(g *fakecuda.GPU, _ string) { g.Vanish() }, func(g *fakecuda.GPU, _ string) { g.Return() }},
		"hangs":    {func(g *fakecuda.GPU, _ string) { g.Hang() }, func(g *fakecuda.GPU, _ string) { g.Release() }},
		"hot":      {func(_ *fakecuda.GPU, id string) { w.judge(id, hot) }, func(_ *fakecuda.GPU, id string) { w.judge(id, health.Verdict{}) }},
		"memory":   {func(_ *fakecuda.GPU, id string) { w.judge(id, bad) }, func(_ *fakecuda.GPU, id string) { w.judge(id, health.Verdict{}) }},
	} {
		c.fail(d.GPU(0), infos[0].UUID)
		gpus(1)
		t.Log(name)
		load.more(50)
		if c.mend != nil {
			c.mend(d.GPU(0), infos[0].UUID)
		}
		gpus(2)
		load.more(50)
	}
	if failed := load.end(); failed > 0 {
		t.Errorf("%d of %d requests failed", failed, load.answered.Load())
	}
	if err := s.Drain(); err != nil {
		t.Error(err)
	}
	if open := d.Counts(); open != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", open)
	}
	for _, err := range d.Misused() {
		t.Error(err)
	}
}

// traffic asks on and on.
type traffic struct {
	t        *testing.T
	stop     chan struct{}
	done     sync.WaitGroup
	answered atomic.Int64
	failed   atomic.Int64
}

func begin(t *testing.T, client *frontend.Client) *traffic {
	l := &traffic{t: t, stop: make(chan struct{})}
	for range 8 {
		l.done.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if err := echoed(client, i); err != nil {
					l.failed.Add(1)
					t.Log(err)
				}
				l.answered.Add(1)
			}
		})
	}
	return l
}

func echoed(client *frontend.Client, i int) error {
	item := []byte{byte(i), byte(i >> 8), 7, byte(3 * i)}
	r, err := client.Infer(context.Background(), frontend.Request{Model: "echo", Inputs: []frontend.Tensor{{Name: "x", Type: catalog.Uint8, Shape: []int64{4}, Data: item}}})
	if err != nil {
		return err
	}
	defer r.Release()
	if !bytes.Equal(r.Outputs[0].Data, item) {
		return fmt.Errorf("request %d: %v", i, r.Outputs[0].Data)
	}
	return nil
}

// more waits for so many answers.
func (l *traffic) more(n int64) {
	l.t.Helper()
	until := l.answered.Load() + n
	for end := time.Now().Add(30 * time.Second); l.answered.Load() < until; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatal("no answers come")
		}
	}
}

// end stops, and counts what failed.
func (l *traffic) end() int64 {
	close(l.stop)
	l.done.Wait()
	return l.failed.Load()
}
