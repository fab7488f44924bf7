package scenario

import (
	"errors"
	"math"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestSummariesAddUp: each arrival is served or bad for one reason, and the
// models' sums are ALL.
func TestSummariesAddUp(t *testing.T) {
	s := small()
	s.Models = append(s.Models, s.Models[0])
	s.Models[1].Name = "other"
	s.Rate, s.Jitter = 2000, 0.2 // over what two GPUs can serve
	o := simulate(t, s)
	var arrived, bad int64
	for _, m := range append(o.Models, o.All) {
		n := int64(0)
		for _, k := range m.Bad {
			n += k
		}
		if rate := float64(n) / float64(m.Arrived); math.Abs(rate-m.BadRate) > 1e-12 {
			t.Errorf("%s: %d bad of %d, but the bad rate is %g", m.Model, n, m.Arrived, m.BadRate)
		}
		arrived, bad = arrived+m.Arrived, bad+n
	}
	if arrived != 2*o.All.Arrived || bad == 0 {
		t.Errorf("the models have %d arrivals, ALL %d; %d bad", arrived-o.All.Arrived, o.All.Arrived, bad)
	}
	if o.GPUsUsed != 2 || o.GPUBusy < 0.9 || o.Models[0].Batch < 2 || o.Models[0].QueueP99 <= o.Models[0].QueueP50 {
		t.Errorf("implausible: %+v", o)
	}
}

// TestTallyIsTheResults: with one model, its own queueing times and batches are
// those of all.
func TestTallyIsTheResults(t *testing.T) {
	o := simulate(t, small())
	m := o.Models[0]
	if m.QueueP50 != o.All.QueueP50 || m.QueueP99 != o.All.QueueP99 || math.Abs(m.Batch-o.All.Batch) > 0.1 {
		t.Errorf("%+v and %+v differ", m, o.All)
	}
}

func TestFindGoodput(t *testing.T) {
	s := small()
	s.Rate = 0
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	o, err := p.FindGoodput(3, 0.02, func() { tries++ }, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := o.Search
	if g.Rate < 500 || g.Rate > o.Bounds.Fluid || g.TooHigh > g.Rate*1.02+1 || g.Runs != tries || o.All.BadRate > sim.BadRateMax || o.Scenario.Seed != 3 {
		t.Errorf("found %+v within %+v: %+v", g, o.Bounds, o.All)
	}
	if math.Abs(o.All.Offered-g.Rate) > 0.15*g.Rate {
		t.Errorf("the record is of a run at %g r/s, the goodput is %g", o.All.Offered, g.Rate)
	}
	if m := o.Models[0]; m.QueueP99 != o.All.QueueP99 || math.Abs(m.Batch-o.All.Batch) > 0.1 {
		t.Errorf("the model's own counts are of another run: %+v, %+v", m, o.All)
	}
	if g.Judged != o.All.Arrived {
		t.Errorf("the only model was judged by %d requests of %d", g.Judged, o.All.Arrived)
	}
	if n := RunsExpected(0.02); tries > 2*n || n > 3*tries {
		t.Errorf("%d runs, %d were expected", tries, n)
	}
}

func TestFindGoodputRefusesTolerance(t *testing.T) {
	p, err := small().Plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, tolerance := range []float64{0, -1, 1, math.NaN()} {
		if _, err := p.FindGoodput(1, tolerance, nil, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("tolerance %g: %v", tolerance, err)
		}
	}
}

func TestStop(t *testing.T) {
	s := small()
	s.Duration *= 100
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Simulate(sim.Observer{}, func() bool { return true }); !errors.Is(err, sim.ErrStopped) {
		t.Errorf("a stopped run: %v", err)
	}
}

// TestMean against a table of Student's t: 1, 2, 3 have deviation 1.
func TestMean(t *testing.T) {
	mean, half := Mean([]float64{1, 2, 3})
	if mean != 2 || math.Abs(half-4.303/math.Sqrt(3)) > 1e-3 {
		t.Errorf("%g +- %g", mean, half)
	}
	if _, half := Mean([]float64{5}); !math.IsInf(half, 1) {
		t.Errorf("one result is within +- %g", half)
	}
	for freedom, want := range map[int]float64{1: 12.706, 20: 2.086, 21: 2.080, 30: 2.042, 60: 2.000, 120: 1.980} {
		if got := studentT(freedom); math.Abs(got-want) > 1e-3 {
			t.Errorf("t(%d) = %g, the table has %g", freedom, got, want)
		}
	}
}

// TestAlike: models are judged together when only their names differ.
func TestAlike(t *testing.T) {
	models, err := ParseModels([]string{"2xa:1:5:20", "b:1:5:20", "c:1:6:20"})
	if err != nil {
		t.Fatal(err)
	}
	got := alike(models, []float64{0.25, 0.25, 0.2, 0.3})
	for i, want := range []int{0, 0, 2, 3} {
		if got[i] != want {
			t.Errorf("groups %v", got)
		}
	}
}

// TestJudged: copies are judged together, others alone; the fewest count.
func TestJudged(t *testing.T) {
	s := small()
	var err error
	if s.Models, err = ParseModels([]string{"3xa:1:5:40", "b:1:6:40"}); err != nil {
		t.Fatal(err)
	}
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	o := &Outcome{Models: []Summary{{Arrived: 10}, {Arrived: 20}, {Arrived: 30}, {Arrived: 50}}}
	if got := p.judged(o); got != 50 {
		t.Errorf("judged by %d requests, want 50", got)
	}
}

// TestLatencyAndNeed: a request that is alone on its GPU takes l(1), and a need of one GPU is one
// GPU's time; what few batches run elsewhere does not make a GPU one in use.
func TestLatencyAndNeed(t *testing.T) {
	s := small()
	s.Rate, s.Policy, s.GPUs, s.Arrivals = 5, "eager", 2, "constant"
	o := simulate(t, s)
	if m, l := o.Models[0], (s.Models[0].Alpha + s.Models[0].Beta).Millis(); math.Abs(m.LatencyP50-l) > 0.11 || m.LatencyP99 != o.All.LatencyP99 || o.All.QueueP99 != 0 {
		t.Errorf("latency %g and %g ms where nothing waits, l(1) is %g ms", m.LatencyP50, o.All.LatencyP99, l)
	}
	if want := o.GPUBusy * 2; math.Abs(o.Need-want) > 0.1*want || o.GPUsMost != 1 {
		t.Errorf("need %g, %d GPUs in use; %g are busy", o.Need, o.GPUsMost, want)
	}
	if n := most([]mono.Dur{980, 15, 5}); n != 2 {
		t.Errorf("%d GPUs carry 99 %%, want 2", n)
	}
	if n := most(make([]mono.Dur, 3)); n != 0 {
		t.Errorf("%d of idle GPUs are in use", n)
	}
}
