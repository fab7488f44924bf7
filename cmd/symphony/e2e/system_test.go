package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/frontend"
)

// write puts a configuration into a file of the test's own.
func write(t *testing.T, text string, args ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "symphony.yaml")
	if err := os.WriteFile(path, []byte(fmt.Sprintf(text, args...)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve is the configuration of one process with an emulated pool; %s are the
// scheduler's TCP address, the ingress's address, and the pool's YAML.
const serveYAML = `
scheduler: {listen: ["inproc:scheduler", "tcp:%s"]}
frontend: {scheduler: "inproc:scheduler", listen: "inproc:frontend", http: "%s"}
backend:
  name: here
  scheduler: inproc:scheduler
  repository: %q
  pools: [%s]
control: {http: "127.0.0.1:0"}
`

// served is one `symphony serve` process.
type served struct {
	*process
	scheduler, http string
}

// serveEmulated starts a process with one emulated pool over a repository of
// the models.
func serveEmulated(t *testing.T, devices int, models ...emulated) served {
	t.Helper()
	return serveEmulatedWith(t, nil, devices, models...)
}

// serveEmulatedWith is serveEmulated with further flags.
func serveEmulatedWith(t *testing.T, flags []string, devices int, models ...emulated) served {
	t.Helper()
	s := served{scheduler: hostPort(freePort(t)), http: hostPort(freePort(t))}
	pool := fmt.Sprintf("{device_type: emulated, kind: emulated, devices: %d}", devices)
	s.process = start(t, "serve", append([]string{"serve", "-c", write(t, serveYAML, s.scheduler, s.http, emulatedRepository(t, models...), pool)}, flags...)...)
	waitReady(t, s.http, models[0].name)
	return s
}

// deferral is the flag of a scheduler that spends no GPU on latency: batches wait as long as they
// can, on as few GPUs as carry them.
func deferral() []string { return []string{"--set", "scheduler.headroom=0"} }

// emulated is a model of an emulated repository.
type emulated struct {
	name        string
	alpha, beta float64 // ms
	slo         string
}

// emulatedRepository writes a model repository of emulated models.
func emulatedRepository(t *testing.T, models ...emulated) string {
	t.Helper()
	return repositoryOf(t, 64, models...)
}

// repositoryOf is emulatedRepository with another max_batch.
func repositoryOf(t *testing.T, maxBatch int, models ...emulated) string {
	t.Helper()
	dir := t.TempDir()
	for _, m := range models {
		text := fmt.Sprintf("platform: emulated\ndevice_type: emulated\nslo: %s\nmax_batch: %d\nprofile: {alpha_ms: %g, beta_ms: %g}\n"+
			"inputs: [{name: input, type: FP32, shape: [8]}]\noutputs: [{name: output, type: FP32, shape: [8]}]\n", m.slo, maxBatch, m.alpha, m.beta)
		if err := os.MkdirAll(filepath.Join(dir, m.name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, m.name, "config.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// bench runs `symphony bench load` and returns its report.
func bench(t *testing.T, args ...string) report.Report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	out, err := run(t, append([]string{"bench", "load", "--quiet", "--json", path}, args...)...)
	text, errRead := os.ReadFile(path)
	if errRead != nil {
		t.Fatalf("bench load: %v\n%s", err, out)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	t.Logf("bench load %s\n%s", strings.Join(args, " "), tail(out, 6))
	return r
}

// onceEach fails the test unless every request got exactly one answer.
func onceEach(t *testing.T, r report.Report) {
	t.Helper()
	if r.Sent == 0 || r.Lost != 0 || r.Duplicates != 0 {
		t.Errorf("of %d requests %d got no answer and %d a second one", r.Sent, r.Lost, r.Duplicates)
	}
}

// cluster is a scheduler, backends and this test's own client, all over TCP.
type cluster struct {
	t         *testing.T
	scheduler *process
	address   string
	metrics   string
	repo      string
	flags     []string // of the scheduler
	client    *frontend.Client
}

func newCluster(t *testing.T, models ...emulated) *cluster {
	t.Helper()
	return newClusterWith(t, nil, models...)
}

// newClusterWith is newCluster with further flags of the scheduler.
func newClusterWith(t *testing.T, flags []string, models ...emulated) *cluster {
	t.Helper()
	c := &cluster{flags: flags, t: t, address: hostPort(freePort(t)), metrics: hostPort(freePort(t)), repo: emulatedRepository(t, models...)}
	c.startScheduler()
	return c
}

func (c *cluster) startScheduler() {
	c.scheduler = start(c.t, "scheduler", append([]string{"scheduler", "--listen", "tcp:" + c.address, "--metrics", c.metrics}, c.flags...)...)
}

// backend starts a backend with emulated devices; it returns its metrics
// address, too.
func (c *cluster) backend(name string, devices int) (*process, string) {
	c.t.Helper()
	metrics := hostPort(freePort(c.t))
	path := write(c.t, "backend:\n  pools: [{device_type: emulated, kind: emulated, devices: %d}]\n", devices)
	return start(c.t, name, "backend", "-c", path, "--scheduler", "tcp:"+c.address, "--repository", c.repo, "--name", name, "--metrics", metrics), metrics
}

// dial makes the test's own client and waits for the models.
func (c *cluster) dial(models ...string) {
	c.t.Helper()
	c.dialWith(frontend.Options{ArenaBytes: 16 << 20}, models...)
}

// dialWith is dial with options; who is filled in, and where, unless they say.
func (c *cluster) dialWith(o frontend.Options, models ...string) {
	c.t.Helper()
	o.Name = c.t.Name()
	if o.Schedulers == nil {
		o.Scheduler = "tcp:" + c.address
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var err error
	if c.client, err = frontend.Dial(ctx, o); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { c.client.Close() })
	if err := c.client.WaitReady(ctx, models...); err != nil {
		c.t.Fatal(err)
	}
}

// waitGPUs waits until the catalogue shows n GPUs for the model.
func (c *cluster) waitGPUs(model string, n int, span time.Duration) {
	c.t.Helper()
	eventually(c.t, span, fmt.Sprintf("%d GPUs", n), func() error {
		e, err := c.client.Model(model, "")
		if err == nil && e.GPUs != n {
			err = fmt.Errorf("there are %d", e.GPUs)
		}
		return err
	})
}
