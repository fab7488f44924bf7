package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// ask is a call of a fakeScaler; the test says what comes of it.
type ask struct {
	deviceType, scheduler string
	order                 scaling.Order
	answer                chan answer
}

type answer struct {
	granted int
	err     error
}

type fakeScaler chan ask

// Scale implements Scaler.
func (f fakeScaler) Scale(ctx context.Context, deviceType, scheduler string, o scaling.Order) (int, error) {
	a := ask{deviceType, scheduler, o, make(chan answer)}
	select {
	case f <- a:
		r := <-a.answer
		return r.granted, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// scene is a reign whose time the test moves, over one scheduler with backends of a GPU each.
type scene struct {
	*still
	scaler fakeScaler
	now    mono.Time
	need   float64
	states map[string]string // by backend
	served uint64
	under  map[string]uint64 // orders to drain that are not done, by GPU
	drains []string          // GPUs that were ordered to drain
	seats  []string
}

func newScene(t *testing.T, kind string, backends int) *scene {
	x := &scene{still: newStill(t, lead.Config{}), scaler: make(fakeScaler), now: mono.Now(), states: map[string]string{}, under: map[string]uint64{}}
	cfg := scaling.Config{Interval: 2 * mono.Second, CoolUp: 4 * mono.Second, CoolDown: 20 * mono.Second, Lead: 15 * mono.Second, Drain: 60 * mono.Second, Max: 20, Advises: kind == "none"}
	x.c.cfg.Scaling = Scaling{Kind: kind, Of: func(string) scaling.Config { return cfg }}
	x.c.cfg.Scaling.complete()
	if kind == "exec" {
		x.c.cfg.Scaling.Scaler = x.scaler
	}
	for i := range backends {
		x.states[fmt.Sprintf("gpu-%d", i)] = catalog.GPUServing
	}
	x.wish(1, "m")
	x.tell(true)
	return x
}

// tell hands in the facts of now.
func (x *scene) tell(whole bool) {
	f := &catalog.Facts{Epoch: 1, Whole: whole}
	n := 0
	for _, name := range sortedNames(x.states) {
		state := x.states[name]
		if state == "" {
			f.GoneGPUs = append(f.GoneGPUs, name+"/t/0")
			delete(x.states, name)
			continue
		}
		if state == catalog.GPUServing {
			n++
		}
		g := catalog.GPUFacts{Name: name + "/t/0", DeviceType: "t", State: state, Memory: 1000}
		if state == catalog.GPUFree {
			g.In = catalog.Nowhere
		}
		g.Stock = []catalog.Stocked{{Key: "m/1", State: catalog.StateReady, Static: 10, Files: catalog.Files{Digest: catalog.DigestOf([]byte("m"))},
			Spec: &catalog.ModelSpec{Name: "m", Version: "1", SLO: mono.Second, MaxBatch: 8}}}
		f.GPUs = append(f.GPUs, g)
	}
	x.served += 1000
	f.Models = []catalog.ModelFacts{{Key: "m/1", DeviceType: "t", Need: x.need, Served: x.served}}
	f.SubClusters = []catalog.SubClusterFacts{{DeviceType: "t", GPUs: n, Models: 1, Need: x.need}}
	x.l.facts(x.now, x.l.cells[0], f)
}

func sortedNames(m map[string]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// second lets one pass.
func (x *scene) second() {
	x.now = x.now.Add(mono.Second)
	x.tell(false)
	x.l.scale(x.now)
	c := x.l.cells[0]
	x.l.cells.counted()
	c.lead.Step(x.now, &c.effects)
	orders := slices.Clone(c.effects.Orders)
	x.l.carryOut(c)
	x.stored()
	for _, o := range orders { // but for drains the scheduler does them at once
		switch o.Kind {
		case catalog.OrderDrain:
			x.drains, x.under[o.GPU] = append(x.drains, o.GPU), o.ID
			x.states[strings.TrimSuffix(o.GPU, "/t/0")] = catalog.GPUDraining
			continue
		case catalog.OrderSeat:
			x.seats = append(x.seats, o.GPU)
			x.states[strings.TrimSuffix(o.GPU, "/t/0")] = catalog.GPUServing
			x.tell(false)
		}
		c.lead.Outcome(x.now, catalog.Outcome{ID: o.ID}, &c.effects)
	}
}

// drained has nothing left on some of the backends.
func (x *scene) drained(from, to int) {
	c := x.l.cells[0]
	for i := from; i < to; i++ {
		name := fmt.Sprintf("gpu-%d", i)
		x.states[name] = catalog.GPUFree
		x.tell(false)
		c.lead.Outcome(x.now, catalog.Outcome{ID: x.under[name+"/t/0"]}, &c.effects)
	}
}

// until lets seconds pass until something is so.
func (x *scene) until(what string, is func() bool) {
	x.Helper()
	for range 300 {
		if is() {
			return
		}
		x.second()
	}
	x.Fatalf("never: %s; %s", what, x.advice().Why)
}

func (x *scene) advice() api.ScaleGroup {
	x.Helper()
	a, err := x.c.Advice(x.Context())
	if err != nil || len(a.Groups) != 1 {
		x.Fatalf("%+v, %v", a, err)
	}
	return a.Groups[0]
}

// asked lets seconds pass until the scaler is, and has the loop take what came of it.
func (x *scene) asked(r answer) ask {
	x.Helper()
	for range 300 {
		x.second()
		wait := time.Duration(0)
		if g := x.l.groups[0]; x.l.c.advice.Load() != nil && g.core.Waiting() {
			wait = 30 * time.Second
		}
		select {
		case a := <-x.scaler:
			a.answer <- r
			s := <-x.l.scaled
			s.group.core.Asked(x.now, s.order, s.granted, s.failed)
			return a
		case <-time.After(wait):
		}
	}
	x.Fatal("the scaler was never asked; " + x.advice().Why)
	return ask{}
}

// GPUs that are missing are asked for; what is to spare drains by orders to the scheduler, and only
// then the scaler is asked to remove it.
func TestScaling(t *testing.T) {
	x := newScene(t, "exec", 4)
	x.need = 6
	a := x.asked(answer{})
	if a.deviceType != "t" || a.scheduler != "inproc:a" || a.order.Size != 9 || !strings.Contains(a.order.Why, "needs 6.0 and a reserve") {
		t.Errorf("%+v", a)
	}
	for i := 4; i < 9; i++ {
		x.states[fmt.Sprintf("gpu-%d", i)] = catalog.GPUFree
	}
	x.until("nine serve", func() bool { return x.advice().GPUs == 9 })
	x.need, x.drains = 1, nil
	x.until("GPUs drain", func() bool { return len(x.drains) == 7 })
	if slices.Sort(x.drains); x.drains[0] != "gpu-2/t/0" || x.drains[6] != "gpu-8/t/0" {
		t.Errorf("%v drain", x.drains)
	}
	if g := x.advice(); g.Action != api.ScaleDrain || g.GPUs != 2 || g.Size != 9 || len(g.Leaving) != 7 || len(g.Remove) != 0 {
		t.Errorf("%+v", g)
	}
	x.second()
	x.second()
	if g := x.advice(); g.Size != 9 || len(g.Remove) != 0 {
		t.Errorf("removed while it drains: %+v", g)
	}
	x.drained(2, 9)
	if a = x.asked(answer{}); a.order.Size != 2 || len(a.order.Remove) != 7 || a.order.Remove[0] != "gpu-8" {
		t.Errorf("%+v", a)
	}
	x.seats = nil
	for i := 2; i < 9; i++ {
		x.states[fmt.Sprintf("gpu-%d", i)] = ""
	}
	for range 30 {
		x.second()
	}
	if len(x.seats) > 0 {
		t.Errorf("%v were seated again", x.seats)
	}
	x.states["gpu-2"] = catalog.GPUFree // by somebody's hand
	x.until("it is used, though its name was to go once", func() bool { return slices.Contains(x.seats, "gpu-2/t/0") })
}

// A drain is called off when its GPUs are needed again, and they are seated.
func TestScalingCalledOff(t *testing.T) {
	x := newScene(t, "exec", 8)
	x.need = 1
	x.until("GPUs drain", func() bool { return len(x.drains) == 6 })
	x.second()
	x.drained(2, 7)
	x.need = 3.5 // and a reserve: six GPUs
	x.until("four serve again", func() bool { return len(x.seats) == 4 })
	if slices.Sort(x.seats); x.seats[0] != "gpu-2/t/0" || x.seats[3] != "gpu-5/t/0" {
		t.Errorf("%v are seated again, and the lowest were to be", x.seats)
	}
	if g := x.advice(); !slices.Equal(g.Leaving, []string{"gpu-7", "gpu-6"}) || g.GPUs != 6 || g.Size != 8 {
		t.Errorf("%+v", g)
	}
	x.drained(7, 8)
	if a := x.asked(answer{}); a.order.Size != 6 || !slices.Equal(a.order.Remove, []string{"gpu-7", "gpu-6"}) {
		t.Errorf("%+v", a)
	}
}

// A scaler that fails is asked again, and the advice has why.
func TestScalingFails(t *testing.T) {
	x := newScene(t, "exec", 2)
	x.need = 4
	x.asked(answer{err: errors.New("no quota")})
	x.l.publish()
	if g := x.advice(); g.Error != "no quota" || g.Action != api.ScaleAwait || !strings.Contains(g.Why, "no quota") {
		t.Errorf("%+v", g)
	}
	if a := x.asked(answer{granted: 3}); a.order.Try != 2 || a.order.Size != 6 {
		t.Errorf("%+v", a)
	}
	x.l.publish()
	if g := x.advice(); g.Size != 3 || g.Error != "" {
		t.Errorf("%+v", g)
	}
}

// By default nobody acts: what there should be is said, no GPU drains, and metrics tell the same.
func TestAdviceOnly(t *testing.T) {
	x := newScene(t, "none", 8)
	reg := prometheus.NewRegistry()
	reg.MustRegister(newAdviceMetrics(x.c))
	x.need = 1
	x.until("some are to spare", func() bool { return x.l.c.advice.Load() != nil && x.advice().Action == api.ScaleSpare })
	if g := x.advice(); g.Size != 2 || len(g.Leaving) != 6 || !strings.Contains(g.Why, "6 replicas are to spare") {
		t.Errorf("%+v", g)
	}
	for range 30 {
		x.second()
	}
	x.need = 12
	x.until("some are missing", func() bool { return x.advice().Action == api.ScaleAdd })
	if g := x.advice(); g.Size != 16 || g.Want != 16 || g.GPUs != 8 {
		t.Errorf("%+v", g)
	}
	if len(x.drains) > 0 {
		t.Errorf("%v were drained, and nobody is to act", x.drains)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			key := f.GetName()
			for _, l := range m.Label {
				key += "," + l.GetName() + "=" + l.GetValue()
			}
			got[key] = m.GetGauge().GetValue()
		}
	}
	for key, want := range map[string]float64{"symphony_control_advice_gpus,device_type=t,scheduler=inproc:a": 16, "symphony_control_scaling_gpus,device_type=t,scheduler=inproc:a,state=serving": 8,
		"symphony_control_advice_action,action=add,device_type=t,scheduler=inproc:a": 1, "symphony_control_scaling_replicas,device_type=t,scheduler=inproc:a,state=size": 16} {
		if got[key] != want {
			t.Errorf("%s is %g, want %g; there are %v", key, got[key], want, got)
		}
	}
}

// Backends with GPUs of two types do not go for the sake of one of them.
func TestBackendsOfTwoTypes(t *testing.T) {
	census := []lead.Census{{DeviceType: "a", Backends: []lead.BackendCensus{{Name: "x"}, {Name: "y"}}}, {DeviceType: "b", Backends: []lead.BackendCensus{{Name: "y"}}}}
	if got := inSeveral(census); got["x"] || !got["y"] {
		t.Errorf("%v", got)
	}
}

func TestWeekOf(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want mono.Dur
	}{{time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), 0}, {time.Date(2026, 11, 29, 23, 59, 59, 0, time.UTC), 7*24*3600*mono.Second - mono.Second},
		{time.Date(2026, 11, 24, 8, 30, 0, 5, time.UTC), (24*3600 + 8*3600 + 1800) * mono.Second}} {
		if got := weekOf(c.at); got != c.want {
			t.Errorf("%v: %v, want %v", c.at, got, c.want)
		}
	}
}
