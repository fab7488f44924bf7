package load

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

type every struct{ gap mono.Dur }

func (e every) Next() (mono.Dur, int) { return e.gap, 0 }

type tally struct {
	mu      sync.Mutex
	reasons map[string]int
	warmup  int
}

func (y *tally) Observe(o Observation) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if o.Warmup {
		y.warmup++
		return
	}
	y.reasons[o.Answer.Reason]++
}

// sends is a Target made of a function.
type sends func(model int, budget mono.Dur, done func(Answer))

func (f sends) Send(model int, budget mono.Dur, done func(Answer)) { f(model, budget, done) }

func runFor(t *testing.T, target Target, change func(*Config)) (*tally, *Counts) {
	t.Helper()
	cfg := Config{SLO: []mono.Dur{10 * mono.Second}, Warmup: 20 * mono.Millisecond, Duration: 100 * mono.Millisecond,
		OutstandingMax: 1000, Drain: 200 * mono.Millisecond}
	if change != nil {
		change(&cfg)
	}
	y, c := &tally{reasons: map[string]int{}}, &Counts{}
	Run(context.Background(), cfg, target, every{mono.Millisecond}, y, c)
	return y, c
}

func TestEveryRequestIsCounted(t *testing.T) {
	y, c := runFor(t, sends(func(_ int, _ mono.Dur, done func(Answer)) { done(Answer{BatchSize: 1}) }), nil)
	if y.reasons[""] != 100 || y.warmup != 19 || c.Lost() != 0 || c.Sent.Load() != 119 {
		t.Fatalf("served %d, warm-up %d, lost %d, sent %d; want 100, 19, 0, 119", y.reasons[""], y.warmup, c.Lost(), c.Sent.Load())
	}
}

func TestLostDoubleAndLateAreTold(t *testing.T) {
	n := 0
	y, c := runFor(t, sends(func(_ int, _ mono.Dur, done func(Answer)) {
		switch n++; n % 3 {
		case 0:
			done(Answer{})
			done(Answer{})
		case 1:
			done(Answer{Reason: "shed"})
		}
	}), func(cfg *Config) { cfg.SLO[0] = 0 })
	if c.Duplicates.Load() != 39 || c.Lost() != 40 {
		t.Errorf("duplicates %d, lost %d; want 39, 40", c.Duplicates.Load(), c.Lost())
	}
	if y.reasons["shed"] == 0 || y.reasons["late"] == 0 || y.reasons[""] != 0 {
		t.Errorf("reasons %v: want shed and late, none in time", y.reasons)
	}
}

func TestOutstandingIsBounded(t *testing.T) {
	var open []func(Answer)
	y, c := runFor(t, sends(func(_ int, _ mono.Dur, done func(Answer)) { open = append(open, done) }), func(cfg *Config) { cfg.OutstandingMax = 5; cfg.Drain = 0 })
	if len(open) != 5 || c.NotSent.Load() != 114 || y.reasons["generator_full"] != 100 {
		t.Fatalf("open %d, not sent %d, reasons %v", len(open), c.NotSent.Load(), y.reasons)
	}
}

// The budget shrinks by the generator's own lag: the request is as late as it is.
func TestLagShortensTheBudget(t *testing.T) {
	first := true
	var least mono.Dur = mono.Second
	runFor(t, sends(func(_ int, budget mono.Dur, done func(Answer)) {
		if first {
			time.Sleep(30 * time.Millisecond)
			first = false
		}
		least = min(least, budget)
		done(Answer{})
	}), func(cfg *Config) { cfg.SLO[0] = mono.Second })
	if least > 975*mono.Millisecond {
		t.Fatalf("least budget %v: a lag of 30 ms is not in it", least)
	}
}
