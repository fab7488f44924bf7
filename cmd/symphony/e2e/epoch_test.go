package e2e

import (
	"testing"
	"time"
)

// epochTime is how long a roll-out may take, on a machine that does other things beside it.
const epochTime = 60 * time.Second

// TestEpochs: under load an epoch moves ten of 40 models and one of twelve GPUs between two
// sub-clusters. Then the same once more, and in the middle one of the backends is killed with
// its three GPUs, and started again; and once more with the controller, after which the roll-out
// goes on where it was.
func TestEpochs(t *testing.T) {
	p := startEpochs(t)
	f := p.trafficOf(epochRate(), names(p.models)...)
	time.Sleep(2 * time.Second)
	p.epochs(t, f, nil)
	victim := 0
	p.epochs(t, f, func() {
		p.backends[victim].kill()
		time.Sleep(time.Second)
		p.startBackend(victim)
		victim++
	})
	p.epochs(t, f, func() {
		p.controller.kill()
		time.Sleep(time.Second)
		p.startController()
	})
	f.stop(t)
}

// epochRate is the load; what is claimed is claimed of 2,000 requests/s.
func epochRate() float64 {
	if full() {
		return 2000
	}
	return 600
}

// startEpochs starts 40 models on twelve GPUs of four backends, in two sub-clusters.
func startEpochs(t *testing.T) *planned {
	t.Helper()
	p := startPlanned(t, []string{"--data", t.TempDir()}, 4, 3, many(40, "250ms")...)
	p.move(t, 0)
	return p
}

// move orders the n-th of two plans in turn; the other one has ten models and a GPU elsewhere.
func (p *planned) move(t *testing.T, n int) (ended func() error) {
	t.Helper()
	spec := halves(p.models, 20, 6, 6)
	if n%2 == 1 {
		spec = halves(p.models, 30, 7, 5)
	}
	p.apply(spec)
	ended = func() error {
		if err := p.seated(spec); err != nil { // as the scheduler has it
			return err
		}
		return p.settled(spec) // and the control plane
	}
	if n == 0 {
		eventually(t, epochTime, "the first plan is in force", ended)
	}
	return ended
}

// epochs rolls out an epoch with a load beside it, and asks for at most 0.1 % of the requests bad
// beyond what is bad without one, and what the machine's pauses explain. There are three
// tries. disturb happens in the middle of the roll-out, and is over when it returns.
func (p *planned) epochs(t *testing.T, f *traffic, disturb func()) {
	t.Helper()
	for try := 1; ; try++ {
		before := time.Now()
		time.Sleep(span(3*time.Second, 10*time.Second))
		machine, from := watch(t), time.Now()
		p.moves++
		ended := p.move(t, p.moves)
		ordered := time.Since(from)
		if disturb != nil {
			time.Sleep(200 * time.Millisecond)
			if ended() == nil {
				t.Error("the roll-out was over before anything was killed")
			}
			disturb()
		}
		eventually(t, epochTime, "the plan is in force", ended)
		time.Sleep(500 * time.Millisecond) // what was sent at the end is answered
		to := time.Now()
		control, _, _ := f.share(before, from)
		bad, all, reasons := f.share(from, to)
		most := 0.001
		if !full() {
			most += min(control, 0.02) + machine.pardon(t, 250*time.Millisecond)
		}
		t.Logf("epoch %d: ordered after %v, in force after %v: of %d requests %.4f are bad: %v; %.4f before it", try, ordered.Round(time.Millisecond), to.Sub(from).Round(time.Millisecond), all, bad, reasons, control)
		if bad <= most {
			return
		}
		if try == 3 {
			t.Errorf("of %d requests during the epoch %.4f are bad, at most %.4f may: %v", all, bad, most, reasons)
			return
		}
	}
}
