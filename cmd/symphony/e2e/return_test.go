package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// kept is what restarts must not change.
type kept struct {
	Models []api.Model
	Plan   []api.SubCluster
	Config map[string]string // what the ingress says of each model, and of each version
}

// TestRestart: of everything, of the scheduler alone, and of a backend alone, by Ctrl-C or by
// kill -9: models, versions, SLOs, shares and the plan are as before, and all is served.
func TestRestart(t *testing.T) {
	beside(t)
	models := many(6, "400ms")
	p := startPlanned(t, []string{"--data", t.TempDir()}, 2, 2, models...)
	p.history(t)
	before := p.kept(t)
	restarts := []struct {
		name string
		do   func()
	}{
		{"the scheduler, killed", func() { p.scheduler.kill(); p.noScheduler(t); p.startScheduler() }},
		{"the controller, killed", func() { p.controller.kill(); p.startController() }},
		{"a backend, stopped, whose models' source is gone", func() { p.backendFromCache(t, 0, false) }},
		{"a backend, killed, whose models' source is gone", func() { p.backendFromCache(t, 1, true) }},
		{"everything, stopped", func() { p.restartAll(t, false) }},
		{"everything, killed", func() { p.restartAll(t, true) }},
	}
	for _, r := range restarts {
		begin := time.Now()
		r.do()
		eventually(t, 60*time.Second, r.name+": all is as before", func() error {
			now, err := p.keptNow()
			if err == nil && !reflect.DeepEqual(now, before) {
				err = differ(before, now)
			}
			return err
		})
		took := time.Since(begin)
		for _, m := range models {
			p.inferred(t, m.name)
		}
		t.Logf("%s: as before after %v", r.name, took.Round(100*time.Millisecond))
	}
}

// history makes what a restart must keep: versions, settings, shares, a plan.
func (p *planned) history(t *testing.T) {
	t.Helper()
	m := p.models[0]
	m.alpha, m.beta = 1, 6
	p.ordered("model", "versions", m.name, "--policy", "all")
	p.ordered("model", "add", m.name+"/2", "--source", p.source(m, 2), "--wait", "--timeout", "60s")
	p.ordered("model", "share", m.name, "1=70", "2=30")
	p.ordered("model", "update", p.models[1].name, "--slo", "333ms", "--max-batch", "7", "--drop-policy", "head")
	spec := halves(p.models, 3, 1, 3)
	spec.SubClusters[1].Models = append(spec.SubClusters[1].Models, m.name+"/2")
	p.apply(spec)
	eventually(t, epochTime, "the plan is in force", func() error { return p.settled(spec) })
	eventually(t, 10*time.Second, "the SLO is in force", func() error {
		_, body, err := get("http://" + p.http + "/v2/models/" + p.models[1].name + "/config")
		if err == nil && !bytes.Contains([]byte(body), []byte(`"333"`)) {
			err = fmt.Errorf("%s", body)
		}
		return err
	})
}

// kept is what there is when nothing changes any more.
func (p *planned) kept(t *testing.T) (k kept) {
	t.Helper()
	eventually(t, 30*time.Second, "all versions are served", func() (err error) {
		before := k
		if k, err = p.keptNow(); err != nil {
			return err
		}
		if !reflect.DeepEqual(k, before) { // frontends hear of it later than the control plane
			time.Sleep(time.Second)
			return differ(before, k)
		}
		for _, m := range k.Models {
			for _, v := range m.Versions {
				if v.State != api.Serving {
					return fmt.Errorf("%s/%s: %s %s", m.Name, v.Version, v.State, v.Reason)
				}
			}
		}
		return nil
	})
	return k
}

func (p *planned) keptNow() (k kept, err error) {
	ctx, cancel := p.call()
	defer cancel()
	err = p.control.All(ctx, "", func(m api.Model) error {
		m.Revision = 0
		for i := range m.Versions {
			v := &m.Versions[i]
			v.Since, v.Rate, v.Need, v.Done, v.Total = time.Time{}, 0, 0, 0, 0
		}
		k.Models = append(k.Models, m)
		return nil
	})
	if err != nil {
		return k, err
	}
	now, err := p.control.Plan(ctx)
	if err != nil {
		return k, err
	}
	for _, s := range now.SubClusters {
		s.Rate, s.Busy, s.Need = 0, 0, 0
		k.Plan = append(k.Plan, s)
	}
	slices.SortFunc(k.Plan, func(a, b api.SubCluster) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	k.Config = map[string]string{}
	for _, m := range k.Models {
		paths := []string{"/v2/models/" + m.Name + "/config"}
		for _, v := range m.Versions {
			paths = append(paths, "/v2/models/"+m.Name+"/versions/"+v.Version+"/config")
		}
		for _, path := range paths {
			code, body, err := get("http://" + p.http + path)
			if err != nil || code != 200 {
				return k, fmt.Errorf("%s: %d %s %w", path, code, body, err)
			}
			k.Config[path] = body
		}
	}
	return k, nil
}

// differ tells the lines in which two documents differ.
func differ(before, now any) error {
	lines := func(v any) []string {
		b, err := json.MarshalIndent(v, "", " ")
		return append(strings.Split(string(b), "\n"), fmt.Sprint(err))
	}
	a, b := lines(before), lines(now)
	var out []string
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			out = append(out, "- "+a[i], "+ "+b[i])
		}
	}
	return fmt.Errorf("%d lines, before %d; they differ:\n%s", len(b), len(a), strings.Join(out[:min(len(out), 20)], "\n"))
}

// backendFromCache starts a backend again while the models' files are only in its cache.
func (p *planned) backendFromCache(t *testing.T, i int, kill bool) {
	t.Helper()
	if old := p.backends[i]; kill {
		old.kill()
	} else if code := old.end(syscall.SIGTERM); code != 0 {
		t.Errorf("%s ended with status %d", old.name, code)
	}
	eventually(t, 20*time.Second, "it is known to be away", func() error {
		ctx, cancel := p.call()
		defer cancel()
		state, err := p.control.State(ctx)
		if err == nil && state.GPUs != p.devices*(len(p.backends)-1) {
			err = fmt.Errorf("%d GPUs are in service", state.GPUs)
		}
		return err
	})
	source := filepath.Join(p.folder, "models")
	if _, err := os.Stat(source); err == nil { // it stays away
		if err := os.Rename(source, source+"-gone"); err != nil {
			t.Fatal(err)
		}
	}
	p.startBackend(i)
}

// noScheduler waits until frontend and controller know that it is away: what they tell then is
// of the next one.
func (p *planned) noScheduler(t *testing.T) {
	t.Helper()
	eventually(t, 20*time.Second, "the scheduler is known to be away", func() error {
		ctx, cancel := p.call()
		defer cancel()
		state, err := p.control.State(ctx)
		if err != nil || len(state.Schedulers) != 0 {
			return fmt.Errorf("the controller has %v, %v", state.Schedulers, err)
		}
		if code, _, err := get("http://" + p.http + "/v2/health/ready"); err != nil || code == 200 {
			return fmt.Errorf("the frontend is ready: %v", err)
		}
		return nil
	})
}

// restartAll ends all processes and starts them again, in another order.
func (p *planned) restartAll(t *testing.T, kill bool) {
	t.Helper()
	for _, one := range append([]*process{p.controller, p.frontend, p.scheduler}, p.backends...) {
		if kill {
			one.kill()
		} else if code := one.end(syscall.SIGTERM); code != 0 {
			t.Errorf("%s ended with status %d", one.name, code)
		}
	}
	p.startFrontend()
	for i := range p.backends {
		p.startBackend(i)
	}
	p.startController()
	p.startScheduler()
}

// inferred asks a model over HTTP until it answers: the first answers of a machine that starts
// everything at once may be late.
func (p *planned) inferred(t *testing.T, model string) {
	t.Helper()
	eventually(t, 20*time.Second, model+" answers", func() error {
		code, _, body := post(t, "http://"+p.http+"/v2/models/"+model+"/infer", []byte(oneInput))
		if code != 200 {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
}

// oneInput is a request that each of these models takes.
const oneInput = `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,8],"data":[0,0,0,0,0,0,0,0]}]}`

// TestWithoutController: while no controller is there, a backend is killed and started again,
// then the scheduler: sub-clusters, their models and their GPUs are as planned last, and all is
// served. A backend that is killed after that comes back with nothing, since nobody is left who
// knows where its models are, and the other GPUs serve on; a controller that comes back mends it.
func TestWithoutController(t *testing.T) {
	beside(t)
	models := many(6, "400ms")
	p := startPlanned(t, []string{"--data", t.TempDir()}, 2, 2, models...)
	spec := halves(models, 2, 1, 3)
	p.apply(spec)
	eventually(t, epochTime, "the plan is in force", func() error { return p.settled(spec) })
	p.controller.kill()
	served := func(when string) {
		t.Helper()
		eventually(t, 30*time.Second, when+": as planned", func() error { return p.seated(spec) })
		for _, m := range models {
			p.inferred(t, m.name)
		}
	}
	served("without a controller")
	p.killBackend(t, 0)
	p.startBackend(0)
	served("after the backend's restart")
	p.scheduler.kill()
	p.startScheduler()
	served("after the scheduler's restart")
	p.killBackend(t, 0)
	p.startBackend(0)
	for _, m := range models[2:] { // whose sub-cluster has a GPU of the other backend
		p.inferred(t, m.name)
	}
	p.startController()
	eventually(t, 30*time.Second, "the plan is in force", func() error { return p.settled(spec) })
	served("with a controller again")
}

// killBackend returns when the scheduler knows that it is away.
func (p *planned) killBackend(t *testing.T, i int) {
	t.Helper()
	p.backends[i].kill()
	eventually(t, 20*time.Second, "its GPUs are away", func() error {
		if n, err := readMetric(p.metrics, "symphony_gpus"); err != nil || int(n) != p.devices*(len(p.backends)-1) {
			return fmt.Errorf("there are %g, %w", n, err)
		}
		return nil
	})
}

// seated says where the scheduler's sub-clusters differ from a plan.
func (p *planned) seated(spec api.PlanSpec) error {
	for _, s := range spec.SubClusters {
		for name, want := range map[string]int{"symphony_gpus": s.GPUs, "symphony_scheduler_models": len(s.Models)} {
			n, err := readMetric(p.metrics, name, fmt.Sprintf("pool=%q", s.DeviceType+"/"+s.Name))
			if err != nil || int(n) != want {
				return fmt.Errorf("%s of %s is %g, want %d, %v", name, s.Name, n, want, err)
			}
		}
	}
	return nil
}
