package published

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// story has models of l(b) = b + 5 ms and an SLO of 20 ms.
func story(t *testing.T, models, gpus int) *policytest.Story {
	var all []policy.Model
	for range models {
		all = append(all, policy.Model{Profile: policytest.Linear(t, 1, 5, 16), SLO: 20 * ms})
	}
	return policytest.New(t, New(policy.Config{RequestsMax: 100}), all, gpus)
}

// A candidate waits for frontrun less 100 us and takes the GPU that is free
// first.
func TestModelTakesGPU(t *testing.T) {
	y := story(t, 1, 2)
	y.Submit(0, 0, 1, 20*ms)
	y.Submit(13, 0, 1, 20*ms)
	y.Submit(27, 0, 1, 20*ms)
	y.Submit(42, 0, 1, 20*ms)
	y.Advance(100)
	y.Golden("model_takes_gpu", `
l(b) = b + 5 ms, SLO 20 ms, two GPUs. Each request waits until a second one would
not fit: due less l(2) less 0.1 ms. R4 runs on GPU 1, which is free from 31.90;
GPU 0 is from 45.90, and has the smaller id.`)
}

// A GPU that becomes free takes the candidate with the least latest.
func TestGPUTakesModel(t *testing.T) {
	y := story(t, 2, 1)
	y.Submit(0, 0, 1, 6.1*1e6)
	y.Submit(1, 0, 1, 13*ms)
	y.Submit(1, 1, 2, 13*ms)
	y.Advance(100)
	y.Golden("gpu_takes_model", `
Two models of l(b) = b + 5 ms, one GPU, busy until 6.00. All that waits is due at 14.00,
but two must start by 7.00 and one by 8.00: the two run. R2 cannot follow.`)
}

// The window drop takes back what was cut, if it fits the batch that is left.
func TestCutComesBack(t *testing.T) {
	y := story(t, 1, 1)
	y.Submit(0, 0, 1, 20*ms)
	y.Submit(8, 0, 10, 20*ms)
	y.Advance(100)
	y.Golden("cut_comes_back", `
l(b) = b + 5 ms, SLO 20 ms, one GPU. At 8.00 R1 has 12 ms left, which seven bear: they
run. R8-R11 must start by 19.00, the GPU is free at 20.00: R8 is cut, since four do
not fit, and comes back for the batch of three. R11 is too late after them.`)
}

// The window drop sheds a head that the target's batch cannot bear.
func TestTargetSheds(t *testing.T) {
	y := story(t, 1, 1)
	y.Submit(0, 0, 1, 6.1*1e6)
	y.Submit(1, 0, 1, 13*ms)
	y.Submit(2, 0, 6, 20*ms)
	y.Advance(100)
	y.Golden("target_sheds", `
l(b) = b + 5 ms, SLO 20 ms, one GPU, busy until 6.00. Before a rate is known the target is
what runs in half the SLO: five. At 4.00 R2 has 10 ms left, which five need, and
is shed after that, although it could run alone at 6.00. The six others run.`)
}

// By hand: 16 for the rate that 8 GPUs serve staggered (Table 2), what gathers in
// time where one GPU is enough.
func TestTargetByHand(t *testing.T) {
	p := policytest.Linear(t, 1.053, 5.072, 64)
	for _, k := range []struct {
		rate   int
		budget mono.Dur
		want   int
	}{
		{5839, 25 * ms, 16},    // l(17) + 17/rate = 25.9
		{1 << 30, 25 * ms, 18}, // l(19) = 25.1
		{100, 25 * ms, 1},      // l(2) + 2/rate = 27.2
		{400, 25 * ms, 5},      // l(6) + 6/rate = 26.4
		{5839, 5 * ms, 1},      // nothing fits
		{5839, mono.Second, 64},
		{0, 25 * ms, 1},
	} {
		w := meter{closed: 20, total: k.rate} // a second
		if got := target(p, k.budget, 0, w.gather); got != k.want {
			t.Errorf("%d r/s in %v: target %d, want %d", k.rate, k.budget, got, k.want)
		}
	}
}

// The target is that of the formula as it is published, with its n.
func TestTargetAgainstFormula(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		alpha, beta, slo := 0.25+3*r.Float64(), 20*r.Float64(), 5+200*r.Float64()
		perItem := 0.05 * float64(r.IntN(3))
		p := policytest.Linear(t, alpha, beta, 1024)
		w := meter{closed: 100, total: 1 + r.IntN(20000)}
		rate := float64(w.total) / 5000 // per ms
		l := func(b int) float64 { return p.Latency(b).Millis() }
		gpus, b := 0.0, 1
		for ; b < p.MaxBatch(); b++ {
			gpus = rate * l(b) / float64(b)
			if l(b)*(1+1/max(gpus, 1)) > slo-float64(b)*perItem {
				break
			}
		}
		want := max(1, b-1)
		if gpus <= 1 {
			for want = 1; l(want+1)+float64(want+1)/rate+perItem*float64(want+1) <= slo; want++ {
			}
		}
		if got := target(p, mono.FromMillis(slo), mono.FromMillis(perItem), w.gather); got != want {
			t.Fatalf("seed %d: l = %.3fb + %.3f, SLO %.3f, %.3f an item, %.2f r/ms: target %d, want %d", seed, alpha, beta, slo, perItem, rate, got, want)
		}
	}
}

// The rate is the mean of the last 100 windows, those without arrivals too.
func TestMeter(t *testing.T) {
	var w meter
	at := func(x float64) mono.Time { return mono.Time(mono.FromMillis(x)) }
	if w.roll(at(500)) {
		t.Error("a window is closed before the first arrival")
	}
	w.hit(at(1000))
	w.hit(at(1020))
	if w.roll(at(1049)) || !w.roll(at(1050)) || w.gather(1) != 25*ms {
		t.Errorf("two in a window: one in %v", w.gather(1))
	}
	if !w.roll(at(1199)) || w.gather(1) != 75*ms {
		t.Errorf("two in three windows: one in %v", w.gather(1))
	}
	w.hit(at(1199))
	if !w.roll(at(5999)) || w.closed != 99 || w.total != 3 {
		t.Errorf("%d arrivals in %d windows, want 3 in 99", w.total, w.closed)
	}
	if !w.roll(at(6050)) || w.closed != 100 || w.total != 1 {
		t.Errorf("%d arrivals in %d windows, want 1 in 100: the first window has left", w.total, w.closed)
	}
	if !w.roll(at(1e6)) || w.closed != 100 || w.total != 0 || w.gather(5) < mono.Second {
		t.Errorf("%d arrivals in %d windows, want 0 in 100", w.total, w.closed)
	}
}

// What a GPU gets hangs on what was planned, until a batch is 20 ms late.
func TestPlansNotReports(t *testing.T) {
	s := New(policy.Config{RequestsMax: 10})
	s.AddModel(0, policy.Model{Profile: policytest.Linear(t, 1, 5, 16), SLO: 20 * ms})
	var out policy.Out
	s.AddGPU(0, 0, &out)
	at := func(x float64) mono.Time { return mono.Time(mono.FromMillis(x)) }
	submit := func(x float64) {
		s.Submit(at(x), 0, batching.Request{Deadline: at(x).Add(7 * ms)}, &out)
		for s.NextWake() <= at(x) {
			s.Step(at(x), &out)
		}
	}
	submit(0)
	submit(6) // the batch before is not reported
	if len(out.Dispatches) != 2 || out.Dispatches[1].Exec != at(6) {
		t.Fatalf("two batches were expected, from 0 and from 6 ms: %+v", out.Dispatches)
	}
	submit(26.1)
	if n := len(out.Dispatches); n != 2 {
		t.Fatalf("%d batches: a GPU that is 20 ms late got one", n)
	}
	for i := range 2 {
		s.Done(at(26.5), out.Dispatches[i].Batch, at(26.5), &out)
	}
	s.Done(at(26.5), wire.BatchID(12345), at(26.5), &out) // unknown: ignored
	s.Step(at(26.5), &out)
	if n := len(out.Dispatches); n != 3 || out.Dispatches[2].Exec != at(26.5) {
		t.Fatalf("the request did not run after the reports: %+v", out.Dispatches)
	}
}

// A flat top: beyond the peak it serves what staggered execution serves.
func TestFlatTop(t *testing.T) {
	resnet := policy.Model{Profile: policytest.Linear(t, 1.053, 5.072, 64), SLO: 25 * ms}
	for _, k := range []policytest.Load{
		{Rate: 5250, Low: 5150, High: 5300, Least: 15, Most: 16},
		{Rate: 8000, Low: 5700, High: 5900, Least: 16, Most: 16},
	} {
		k.Model, k.GPUs, k.Seconds = resnet, 8, 4
		k.Check(t, func(cfg policy.Config) policy.Scheduler { return New(cfg) })
	}
}
