package cold

import (
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Millisecond

func small() Config {
	return Config{Models: 41, Growth: 4 * mono.Second, SLO: 100 * ms, GPUs: 2, Pages: 28, Seed: 3, Spans: 4, Sending: Sending{OutstandingMax: 1000, Drain: mono.Second}}
}

// By arithmetic: 3,600 models of which 195 are there, and 120.05 loads/s of 8.33 ms.
func TestBound(t *testing.T) {
	c := Config{Models: 3601, Growth: 360 * mono.Second, SLO: 100 * ms, GPUs: 1, Pages: 1376, Spans: 1}
	f, err := c.fluid()
	if err != nil {
		t.Fatal(err)
	}
	if f.room != 195 || math.Abs(f.loads()-120.05) > 0.01 {
		t.Fatalf("room for %d models, %g loads/s", f.room, f.loads())
	}
	// Nearly all groups are of one; of those of two, 2.6 % of 920 a second, the loads take all first.
	if b := f.of(3600, 1000); math.Abs(b.links-54.2-120.05-25) > 5 || b.gpus < 300 || b.gpus > 330 {
		t.Errorf("at the end: %+v", b)
	}
	if b := f.of(100, 1000); b.links != 1000 || b.gpus < 450 || b.gpus > 550 { // the best batches are of a few
		t.Errorf("while all fit: %+v", b)
	}
	if b := f.of(0, 1000); b.most(1000) != 0 {
		t.Errorf("without others: %+v", b)
	}
	// Clockwork's arithmetic: at the end 120.2 / (1 - 196/3600) = 127 r/s can be served of which nothing is refused.
	if r := f.fits(3600, 1, 1000); math.Abs(r-127.5) > 1.5 {
		t.Errorf("%g r/s fit at the end", r)
	}
	last := 0.0
	for _, share := range []float64{0.3, 0.5, 0.7, 1} {
		r := f.fits(600, share, 1000)
		if r <= last {
			t.Errorf("share %g fits %g r/s, a smaller one %g", share, r, last)
		}
		last = r
	}
}

// The largest groups, first, by their cost: against counting them out.
func TestLargest(t *testing.T) {
	one := func(float64) float64 { return 1 }
	for _, c := range []struct {
		mean, budget, want float64
	}{{0, 1, 1}, {0, 0.25, 0.25}, {0.5, 1, 1.5}, {0.5, 0, 0}, {500, 1, 501}, {500, 0.5, 250.5}, {0.5, 1 - math.Exp(-0.5), 1.5 - math.Exp(-0.5)}} {
		if got := largest(c.mean, c.budget, one); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("mean %g, budget %g: %g, want %g", c.mean, c.budget, got, c.want)
		}
	}
}

// A simulation of it never serves more than the bound but by chance, and what is made to fit is served.
func TestSimulated(t *testing.T) {
	for _, share := range []float64{0, 0.25} {
		c := small()
		c.Share = share
		all, spans, err := c.simulate(c.Growth, nil)
		if err != nil {
			t.Fatal(err)
		}
		bound, _, _, err := c.allowed(0, all.To)
		if err != nil {
			t.Fatal(err)
		}
		var offered, served int64
		for i := range spans {
			offered, served = offered+spans[i].Offered, served+spans[i].InTime
		}
		refused := int64(0)
		for _, n := range all.Refused {
			refused += n
		}
		if len(spans) != 4 || offered != all.Offered || served != all.InTime || all.Offered != all.Outputs()+refused {
			t.Errorf("share %g: the parts do not add up: %+v of %d", share, all, len(spans))
		}
		if all.Cold == 0 || all.Loads == 0 || all.Links <= 0 || all.Goodput() > 1.05*bound {
			t.Errorf("share %g: %+v, bound %g", share, all, bound)
		}
		if share > 0 && all.Share(all.InTime) < 0.99 || // of eight places some are in use at any time
			share == 0 && refused == 0 {
			t.Errorf("share %g: %d of %d in time, %v", share, all.InTime, all.Offered, all.Refused)
		}
	}
	c := small()
	c.Share = 0.05 // the steady model alone takes more
	if _, _, err := c.simulate(c.Growth, nil); err == nil || !strings.Contains(err.Error(), "--share") {
		t.Errorf("a share without room: %v", err)
	}
}

// Spans count what comes and ends in them, of the time from 0 on.
func TestCounter(t *testing.T) {
	c := newCounter(100*ms, 4*mono.Second, 4, func(mono.Time) int { return 7 })
	at := func(d mono.Dur) mono.Time { return mono.Time(d) }
	c.output(at(-1), 0, ms, false)
	c.output(at(4*mono.Second), 0, ms, false)
	c.output(at(ms), 0, 100*ms, true)
	c.output(at(ms), 1, 101*ms, false)
	c.refused(at(3999*ms), 2, "cold")
	c.copied(at(-500*ms), at(1500*ms))
	c.ran(at(3500*ms), at(9000*ms))
	c.unloaded(at(1500 * ms))
	for _, d := range []mono.Dur{-ms, 100 * ms, 101 * ms, 950 * ms, 940 * ms, 1300 * ms} { // the last but one came before another that was counted first
		c.answered(at(d))
	}
	c.woke(at(2500*ms), 7*ms)
	c.woke(at(2600*ms), 3*ms)
	c.waited(at(2600*ms), 30*ms)
	c.waited(at(3600*ms), 10*ms)
	all, spans := c.end(4*mono.Second, 1)
	if all.Silent != 849 || all.Stalled != 7 || all.Waited != 0.01 || spans[2].Waited != 0.03 || spans[0].Silent != 849 || spans[1].Silent != 350 || spans[2].Stalled != 7 || spans[2].Silent != 0 {
		t.Errorf("silent and stalled: %+v, %+v", all, spans)
	}
	if all.Offered != 3 || all.InTime != 1 || all.Late != 1 || all.Cold != 1 || all.Refused["cold"] != 1 || all.Steady != 1 || all.Loads != 1 || all.Unloads != 1 || all.Models != 7 {
		t.Errorf("%+v", all)
	}
	if len(spans) != 4 || spans[0].Links != 1 || spans[1].Links != 0.5 || spans[1].Loads != 1 || spans[3].GPUs != 0.5 || spans[3].Offered != 1 || all.Links != 1.5/4 {
		t.Errorf("%+v", spans)
	}
	if all, spans = c.end(1500*ms, 1); len(spans) != 2 || spans[1].To != 1.5 || spans[1].Links != 1 || all.To != 1.5 {
		t.Errorf("interrupted: %+v", spans)
	}
}

// A thread that had to wait is seen, where the system tells.
func TestThreadWaits(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip(err)
	}
	if threadWaits() <= 0 { // the test's own have begun, at least
		t.Error("no thread has ever waited")
	}
}

// Errors are told by their side, of what ended in the counted span.
func TestWatcher(t *testing.T) {
	c := small()
	w, err := c.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	start := mono.Time(mono.Second)
	n := c.counter(c.Growth, func(mono.Time) int { return 1 })
	run := func(id wire.BatchID, end mono.Time, over mono.Dur, ran uint16) {
		w.Dispatched(id, 4, end.Add(-over))
		w.Done(&wire.Done{Batch: id, Start: end.Add(ms - w.profile.Latency(4) - over), End: end.Add(ms), Ran: ran}, ms)
	}
	run(1, start.Add(-ms), 5*ms, 4) // nobody counts yet
	w.begin(n, start)
	run(2, start.Add(-ms), 5*ms, 4) // before the span
	run(3, start.Add(20*ms), 2*ms, 4)
	run(4, start.Add(40*ms), -ms, 4)
	run(5, start.Add(60*ms), 0, 0) // given back whole
	w.Done(&wire.Done{Batch: 99, Ran: 1}, 0)
	w.Ordered(7, start, start.Add(8*ms))
	w.Loaded(&wire.Loaded{Load: 7, Op: wire.OpLoad, Start: start, End: start.Add(9 * ms)}, 0)
	w.Ordered(8, start, start.Add(8*ms))
	w.Loaded(&wire.Loaded{Load: 8, Op: wire.OpLoad, Reason: wire.ReasonMemory, Start: start, End: start}, 0)
	w.Ordered(0, start, start)
	r := &Result{}
	w.result(r)
	if r.Infer.N != 2 || r.Infer.OverMax != 2 || r.Infer.UnderMax != 1 || r.InferEnd.OverMax != 2 || r.Load.N != 1 || r.Load.OverMax != 1 || r.LoadEnd.UnderMax != 0 || r.LoadsFailed != 1 || r.BatchesReturned != 1 {
		t.Errorf("%+v", r)
	}
	if all, _ := n.end(c.Growth, 1); all.Loads != 1 || all.Unloads != 1 || all.GPUs == 0 {
		t.Errorf("%+v", all)
	}
}

// Each claim fails by what it is about.
func TestClaims(t *testing.T) {
	good := func() *Result {
		k := Counts{To: 10, Offered: 2000, InTime: 1000, Refused: map[string]int64{"cold": 1000}}
		p := Prediction{N: 10}
		s := k
		return &Result{Live: k, Simulated: &s, Infer: p, Load: p}
	}
	if r := good(); true {
		if r.judge(); r.Failed() != "" || len(r.Claims) != 6 {
			t.Fatalf("%q, %+v", r.Failed(), r.Claims)
		}
	}
	spoilt(t, good, map[string]func(*Result){
		"lost":        func(r *Result) { r.Lost = 1 },
		"twice":       func(r *Result) { r.Duplicates = 1 },
		"not sent":    func(r *Result) { r.NotSent = 1 },
		"lag":         func(r *Result) { r.LagMean = 3 },
		"late":        func(r *Result) { r.Live.Late = 10 },
		"expired":     func(r *Result) { r.Live.Refused["expired"] = 10 },
		"never sent":  func(r *Result) { r.Live.Refused["generator_late"] = 10 },
		"share":       func(r *Result) { r.Config.Share = 0.5 }, // half of all were refused
		"infer":       func(r *Result) { r.Infer.OverP99 = 1.1 },
		"load":        func(r *Result) { r.Load.UnderP99 = 1.1 },
		"no load":     func(r *Result) { r.Load.N = 0 },
		"simulation":  func(r *Result) { r.Simulated.InTime = 1100 },
		"interrupted": func(r *Result) { r.Interrupted = true },
	})
}

// claimant is what has claims.
type claimant interface {
	judge()
	Failed() string
	Print(to io.Writer)
}

// spoilt sees that each spoils one claim, and that this is told.
func spoilt[R claimant](t *testing.T, good func() R, all map[string]func(R)) {
	t.Helper()
	for name, spoil := range all {
		r := good()
		spoil(r)
		if r.judge(); r.Failed() == "" {
			t.Errorf("%s: nothing failed", name)
		}
		var out strings.Builder
		r.Print(&out)
		if name != "interrupted" && strings.Count(out.String(), "DOES NOT HOLD") != 1 {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}
