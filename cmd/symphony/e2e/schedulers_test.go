package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// spreadOver is a control plane over two schedulers, each with two backends of its own, and a
// frontend that is linked to both.
type spreadOver struct {
	*planned // of the first scheduler
	other    *cluster
}

func startSpread(t *testing.T, models []emulated) *spreadOver {
	t.Helper()
	s := &spreadOver{planned: newPlanned(t, []string{"--data", t.TempDir()}, 2, models...), other: newCluster(t)}
	s.startControllers()
	for i := range 4 {
		s.backends = append(s.backends, nil)
		s.backendAt(i)
	}
	s.frontend = start(t, "frontend", "frontend", "--scheduler", strings.Join(s.addresses(), ","), "--http", s.http)
	eventually(t, 30*time.Second, "all are there", func() error {
		ctx, cancel := s.call()
		defer cancel()
		st, err := s.control.State(ctx)
		if err == nil && (len(st.Schedulers) != 2 || st.Backends != 4 || st.GPUs != 8) {
			err = fmt.Errorf("%+v", st)
		}
		return err
	})
	s.addAll(models)
	return s
}

// addresses are the schedulers', as the control plane calls them.
func (s *spreadOver) addresses() []string {
	return []string{"tcp:" + s.cluster.address, "tcp:" + s.other.address}
}

func (s *spreadOver) startControllers() {
	s.controller = start(s.t, "controller", append([]string{"controller", "--scheduler", strings.Join(s.addresses(), ","), "--http", s.planned.address, "--name", "controller"}, s.planned.flags...)...)
}

// backendAt starts the i-th backend: the first two belong to the first scheduler.
func (s *spreadOver) backendAt(i int) {
	name := fmt.Sprint("b", i)
	path := write(s.t, plannedPool, s.folder+"/cache-"+name, s.devices)
	s.backends[i] = start(s.t, name, "backend", "-c", path, "--scheduler", s.addresses()[i/2], "--name", name)
}

// homes are where models are by the plan that is shown, once it is in force everywhere.
func (s *spreadOver) homes() (map[string]string, error) {
	p, err := s.plan()
	if err != nil {
		return nil, err
	}
	if p.State != api.PlanInForce || len(p.Plans) != 2 {
		return nil, fmt.Errorf("plan %d: %s of %d schedulers: %s", p.Epoch, p.State, len(p.Plans), p.Reason)
	}
	at := map[string]string{}
	for _, c := range p.SubClusters {
		for _, key := range c.Models {
			if at[key] != "" {
				return nil, fmt.Errorf("%s is at %s and at %s", key, at[key], c.Scheduler)
			}
			at[key] = c.Scheduler
		}
	}
	if len(at) != len(s.models) {
		return at, fmt.Errorf("%d of %d models are in a plan", len(at), len(s.models))
	}
	return at, nil
}

// since is when the models of a scheduler began to be served.
func (s *spreadOver) since(homes map[string]string, scheduler string) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	for key, at := range homes {
		if at != scheduler {
			continue
		}
		ctx, cancel := s.call()
		m, err := s.control.Model(ctx, strings.TrimSuffix(key, "/1"))
		cancel()
		if err != nil || m.Versions[0].State != api.Serving {
			return nil, fmt.Errorf("%+v, %v", m, err)
		}
		out[key] = m.Versions[0].Since
	}
	return out, nil
}

// as says what lacks until models are at home as they were.
func (s *spreadOver) as(before map[string]string) error {
	now, err := s.homes()
	if err == nil && !maps.Equal(now, before) {
		err = fmt.Errorf("models are at %v, were at %v", now, before)
	}
	return err
}

// TestSchedulers: models are spread over two scheduler processes. One of them is killed and started
// again: its models are back, and those of the other one are served all the while. The controller
// is killed and started again: no model moves. A plan of one's own moves a model from one
// scheduler to the other, and no request to it is refused.
func TestSchedulers(t *testing.T) {
	beside(t)
	models := many(20, "400ms")
	s := startSpread(t, models)
	a, b := s.addresses()[0], s.addresses()[1]
	var before map[string]string
	eventually(t, 30*time.Second, "the plans are in force", func() (err error) { before, err = s.homes(); return err })
	count := map[string]int{}
	for _, at := range before {
		count[at]++
	}
	if count[a] != 10 || count[b] != 10 {
		t.Errorf("models by scheduler: %v", count)
	}
	for _, args := range [][]string{{"plan", "show"}, {"plan", "history"}} {
		if out := s.ordered(args...); !strings.Contains(out, a) || !strings.Contains(out, b) || !strings.Contains(out, "SCHEDULER") {
			t.Errorf("symphony %v:\n%s", args, out)
		}
	}
	for _, m := range models {
		s.inferred(t, m.name)
	}
	s.killOne(t, before)
	s.controller.kill()
	s.startControllers()
	eventually(t, 60*time.Second, "another controller leads", func() error {
		ctx, cancel := s.call()
		defer cancel()
		st, err := s.control.State(ctx)
		if err == nil && (!st.Leads || len(st.Schedulers) != 2 || st.GPUs != 8) {
			err = fmt.Errorf("%+v", st)
		}
		return err
	})
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if err := s.as(before); err != nil {
			t.Fatal("after the controller's restart: ", err)
		}
	}
	if log := s.controller.log.String(); strings.Contains(log, "moves from scheduler") {
		t.Errorf("models move:\n%s", log)
	}
	s.moveOne(t, before)
}

// killOne kills the first scheduler and starts it again.
func (s *spreadOver) killOne(t *testing.T, before map[string]string) {
	a, b := s.addresses()[0], s.addresses()[1]
	others, err := s.since(before, b)
	if err != nil {
		t.Fatal(err)
	}
	s.scheduler.kill()
	eventually(t, 20*time.Second, "it is missed", func() error {
		ctx, cancel := s.call()
		defer cancel()
		st, err := s.control.State(ctx)
		if err == nil && !slices.Equal(st.Lost, []string{a}) {
			err = fmt.Errorf("%+v", st)
		}
		return err
	})
	for key, at := range before {
		if at == b {
			if code, body := s.ask(strings.TrimSuffix(key, "/1")); code != 200 {
				t.Errorf("%s, of the scheduler that lives: %d %s", key, code, body)
			}
		}
	}
	s.startScheduler()
	for key, at := range before {
		if at == a {
			s.inferred(t, strings.TrimSuffix(key, "/1"))
		}
	}
	eventually(t, 30*time.Second, "all is as before", func() error { return s.as(before) })
	if now, err := s.since(before, b); err != nil || !maps.Equal(now, others) {
		t.Errorf("the other one's models were touched: %v, were %v, %v", now, others, err)
	}
}

// moveOne moves a model by a plan, under requests.
func (s *spreadOver) moveOne(t *testing.T, before map[string]string) {
	a, b := s.addresses()[0], s.addresses()[1]
	mover, next := "", maps.Clone(before)
	spec := api.PlanSpec{SubClusters: []api.PlanPart{{Name: "x", DeviceType: "emulated", GPUs: 4, Scheduler: a}, {Name: "x", DeviceType: "emulated", GPUs: 4, Scheduler: b}}}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if mover == "" && before[key] == a {
			mover, next[key] = strings.TrimSuffix(key, "/1"), b
		}
		part := &spec.SubClusters[slices.Index([]string{a, b}, next[key])]
		part.Models = append(part.Models, key)
	}
	stop := make(chan struct{})
	var sent atomic.Int64
	var refused []string
	var mu sync.Mutex
	var posting sync.WaitGroup
	for range 4 {
		posting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				sent.Add(1)
				if code, body := s.ask(mover); code != 200 {
					mu.Lock()
					refused = append(refused, fmt.Sprintf("%d %s", code, body))
					mu.Unlock()
				}
			}
		})
	}
	s.apply(spec)
	eventually(t, epochTime, mover+" has moved", func() error { return s.as(next) })
	time.Sleep(time.Second)
	close(stop)
	posting.Wait()
	if n := sent.Load(); n == 0 || len(refused) > 0 {
		t.Errorf("%d of %d requests were refused while %s moved: %v", len(refused), n, mover, refused[:min(3, len(refused))])
	}
	t.Logf("%d requests while %s moved", sent.Load(), mover)
}

// ask makes one request; it may be called from any goroutine.
func (s *spreadOver) ask(model string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.http+"/v2/models/"+model+"/infer", strings.NewReader(oneInput))
	if err != nil {
		return 0, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}
