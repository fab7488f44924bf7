package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/client"
)

// planned is a cluster whose models the control plane orders: scheduler, controller, a
// frontend with HTTP, and backends with emulated devices, each a process.
type planned struct {
	*cluster
	flags      []string // of the controller: where its state is
	address    string   // of the control plane's API
	controller *process
	control    *client.Client
	http       string // of the frontend
	frontend   *process
	backends   []*process
	folder     string // with a cache of each backend, and the models' files
	devices    int    // of each backend
	memory     string // of its pool, if not plannedMemory
	models     []emulated
	moves      int // of epochs: see move
}

// plannedPool is large enough for all models that these tests have.
const plannedPool = "backend:\n  cache: %q\n  pools: [{device_type: emulated, kind: emulated, devices: %d, " + plannedMemory + "}]\n"

const plannedMemory = "memory: 16GiB"

// startPlanned starts one with models that are served; flags say where the controller's
// state is.
func startPlanned(t *testing.T, flags []string, backends, devices int, models ...emulated) *planned {
	t.Helper()
	p := newPlanned(t, flags, devices, models...)
	p.startController()
	for i := range backends {
		p.backends = append(p.backends, nil)
		p.startBackend(i)
	}
	p.startFrontend()
	p.addAll(models)
	p.dial(names(models)...)
	waitReady(t, p.http, models[0].name)
	return p
}

func newPlanned(t *testing.T, flags []string, devices int, models ...emulated) *planned {
	t.Helper()
	p := &planned{cluster: newCluster(t), flags: flags, address: hostPort(freePort(t)), http: hostPort(freePort(t)),
		folder: t.TempDir(), devices: devices, models: models}
	var err error
	if p.control, err = client.New(client.Options{URL: "http://" + p.address, Transport: &http.Transport{DisableKeepAlives: true}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.control.Close)
	return p
}

func (p *planned) startController() {
	p.t.Helper()
	p.controller = start(p.t, "controller", append([]string{"controller", "--scheduler", "tcp:" + p.cluster.address, "--http", p.address, "--name", "controller"}, p.flags...)...)
}

// startBackend starts the i-th one, with the cache that it had before.
func (p *planned) startBackend(i int) {
	p.t.Helper()
	name := fmt.Sprint("b", i)
	path := write(p.t, strings.ReplaceAll(plannedPool, plannedMemory, cmp.Or(p.memory, plannedMemory)), filepath.Join(p.folder, "cache-"+name), p.devices)
	p.backends[i] = start(p.t, name, "backend", "-c", path, "--scheduler", "tcp:"+p.cluster.address, "--name", name)
}

func (p *planned) startFrontend() {
	p.t.Helper()
	p.frontend = start(p.t, "frontend", "frontend", "--scheduler", "tcp:"+p.cluster.address, "--http", p.http)
}

func names(models []emulated) (out []string) {
	for _, m := range models {
		out = append(out, m.name)
	}
	return out
}

// many are n models that are alike.
func many(n int, slo string) (out []emulated) {
	for i := range n {
		out = append(out, emulated{fmt.Sprintf("m%02d", i), 0.5, 5, slo})
	}
	return out
}

// source writes a version's folder, as `symphony model add` takes it.
func (p *planned) source(m emulated, version int) string {
	p.t.Helper()
	dir := filepath.Join(p.folder, "models", m.name, fmt.Sprint(version))
	text := fmt.Sprintf("platform: emulated\ndevice_type: emulated\nslo: %s\nmax_batch: 64\nload: 50ms\nmemory: {static: 100MiB, dynamic: 20MiB}\nprofile: {alpha_ms: %g, beta_ms: %g}\n"+
		"inputs: [{name: input, type: FP32, shape: [8]}]\noutputs: [{name: output, type: FP32, shape: [8]}]\n", m.slo, m.alpha, m.beta)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return "file://" + dir
}

// addAll adds version 1 of the models by a file, and waits until they are served.
func (p *planned) addAll(models []emulated) {
	p.t.Helper()
	text := "name,version,source\n"
	for _, m := range models {
		text += m.name + ",1," + p.source(m, 1) + "\n"
	}
	path := filepath.Join(p.folder, "models.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	p.ordered("model", "add", "--from", path, "--wait", "--timeout", "90s", "--patience", "30s")
}

// order runs a command that speaks to the control plane.
func (p *planned) order(args ...string) (string, error) {
	p.t.Helper()
	return run(p.t, append(args, "--control", "http://"+p.address)...)
}

// ordered is order that must not fail.
func (p *planned) ordered(args ...string) string {
	p.t.Helper()
	out, err := p.order(args...)
	if err != nil {
		p.t.Fatalf("symphony %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// apply orders a plan.
func (p *planned) apply(spec api.PlanSpec, flags ...string) string {
	p.t.Helper()
	return p.ordered(append([]string{"plan", "apply", "--json", "--file", p.planFile(spec)}, flags...)...)
}

func (p *planned) planFile(spec api.PlanSpec) string {
	p.t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		p.t.Fatal(err)
	}
	path := filepath.Join(p.folder, "plan.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// call is the context of one call.
func (p *planned) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.t.Context(), 10*time.Second)
}

// plan is the plan as the control plane tells it.
func (p *planned) plan() (api.Plan, error) {
	ctx, cancel := p.call()
	defer cancel()
	return p.control.Plan(ctx)
}

// settled says what lacks until a plan with these sub-clusters is in force, and GPUs are
// seated as it says.
func (p *planned) settled(spec api.PlanSpec) error {
	now, err := p.plan()
	if err != nil {
		return err
	}
	if now.State != api.PlanInForce || len(now.SubClusters) != len(spec.SubClusters) {
		return fmt.Errorf("plan %d: %s (%d of %d steps), %d sub-clusters, want %d; %s", now.Epoch, now.State, now.StepsDone, now.Steps, len(now.SubClusters), len(spec.SubClusters), now.Reason)
	}
	for _, want := range spec.SubClusters {
		i := slices.IndexFunc(now.SubClusters, func(s api.SubCluster) bool { return s.Name == want.Name })
		if i < 0 {
			return fmt.Errorf("plan %d has no sub-cluster %s", now.Epoch, want.Name)
		}
		s := now.SubClusters[i]
		if s.GPUs != want.GPUs || s.Seated != want.GPUs || !slices.Equal(s.Models, slices.Sorted(slices.Values(want.Models))) {
			return fmt.Errorf("plan %d: sub-cluster %s has %d GPUs of %d in service, want %d, and models %v, want %v", now.Epoch, s.Name, s.Seated, s.GPUs, want.GPUs, s.Models, want.Models)
		}
	}
	return nil
}

// halves is a plan of two sub-clusters over the models, of which the first n are "east".
func halves(models []emulated, east, gpusEast, gpusWest int) api.PlanSpec {
	spec := api.PlanSpec{SubClusters: []api.PlanPart{{Name: "east", DeviceType: "emulated", GPUs: gpusEast}, {Name: "west", DeviceType: "emulated", GPUs: gpusWest}}}
	for i, m := range models {
		s := &spec.SubClusters[0]
		if i >= east {
			s = &spec.SubClusters[1]
		}
		s.Models = append(s.Models, m.name+"/1")
	}
	return spec
}

// dialAgain is dial where the client is there already.
func (p *planned) waitServed(models ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	if err := p.client.WaitReady(ctx, models...); err != nil {
		p.t.Fatal(err)
	}
}

// share is what of the requests meant to leave in [from, to) is bad.
func (f *traffic) share(from, to time.Time) (bad float64, all int, reasons map[string]int) {
	reasons = f.between(from, to)
	all = badOf(reasons) + reasons[""]
	return float64(badOf(reasons)) / float64(max(1, all)), all, reasons
}
