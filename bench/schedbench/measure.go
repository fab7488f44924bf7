package schedbench

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/scheduler/engine"
)

// Plan is which parts of the benchmark run, and with what.
type Plan struct {
	Config
	Suite   bool // all of them, briefly
	Point   bool // one run at Rate
	Search  bool // the highest rate
	Cores   bool
	Scaling bool
	Replay  bool
	Compare bool    // with the tuner and without
	Disturb float64 // of the second processor
	Heap    int64   // bytes of live pointers; 0: no such run
	Garbage int64   // bytes per second
	Tell    Progress
	// Place is the placement of so many model loops, where a plan has runs with different
	// numbers; nil: that of Config for all.
	Place func(loops int) engine.Placement
	// Disturber starts the process that keeps a processor busy part of the time,
	// and returns what ends it.
	Disturber func(part float64) (end func() error, err error)
}

// Check says what is wrong with the plan before anything is measured.
func (p *Plan) Check() error {
	cfg := p.Config
	cfg.tape = &tape{} // not needed yet
	if err := cfg.complete(); err != nil {
		return err
	}
	if p.Heap < 0 || p.Heap > 64<<30 || p.Garbage < 0 || p.Garbage > 4<<30 {
		return fmt.Errorf("heap %d and garbage %d bytes: at most 64 GiB, and 4 GiB/s", p.Heap, p.Garbage)
	}
	return nil
}

// Result of a plan.
type Result struct {
	Interrupted bool             `json:",omitzero"`
	Points      []*Point         `json:",omitempty"` // runs at a rate
	Searches    []*Found         `json:",omitempty"`
	Cores       []*CoreCosts     `json:",omitempty"`
	Scaling     *Scaling         `json:",omitempty"`
	Lateness    *Compared        `json:",omitempty"`
	Heap        *Compared        `json:",omitempty"`
	Replay      *Replayed        `json:",omitempty"`
	Tuner       []*TunerCompared `json:",omitempty"`
}

// bench is a plan being measured.
type bench struct {
	ctx  context.Context
	plan Plan
	r    Result
}

// Measure carries a plan out. What an interrupted one has measured is returned.
func Measure(ctx context.Context, plan Plan) (*Result, error) {
	if plan.Tell == nil {
		plan.Tell = func(string, float64, string) {}
	}
	b := &bench{ctx: ctx, plan: plan}
	var err error
	for _, step := range b.steps() {
		if err = step(); err != nil || ctx.Err() != nil {
			break
		}
	}
	b.r.Interrupted = ctx.Err() != nil
	switch {
	case !b.r.Interrupted || err != nil && !errors.Is(err, ErrNothing):
	case b.r.empty():
		err = fmt.Errorf("interrupted: %w", ErrNothing)
	default:
		err = nil
	}
	return &b.r, err
}

func (r *Result) empty() bool {
	return len(r.Points) == 0 && len(r.Searches) == 0 && len(r.Cores) == 0 && r.Lateness == nil && r.Heap == nil && r.Replay == nil && len(r.Tuner) == 0
}

func (b *bench) steps() []func() error {
	p := &b.plan
	if p.Suite {
		return b.suite()
	}
	var steps []func() error
	for _, s := range []struct {
		wanted bool
		step   func() error
	}{{p.Point, b.point}, {p.Search, func() error { return b.search(p.Config) }}, {p.Cores, func() error { return b.cores(p.Config) }},
		{p.Scaling, b.scaling}, {p.Disturb > 0, b.disturbed}, {p.Heap > 0, b.heaped}, {p.Replay, b.replay}, {p.Compare, b.compareTuner}} {
		if s.wanted {
			steps = append(steps, s.step)
		}
	}
	return steps
}

func (b *bench) point() error {
	p, err := Live(b.ctx, b.plan.Config, b.plan.Tell)
	if err == nil {
		b.r.Points = append(b.r.Points, p)
	}
	return err
}

// suite is each part once, but runs at one rate, heaps and replays.
func (b *bench) suite() []func() error {
	cfg := b.plan.Config
	b.plan.Disturb = 0.5
	at := func(gpus int) func() error {
		return func() error {
			c := cfg
			c.Loops, c.GPUs = 1, gpus
			return b.search(c)
		}
	}
	return []func() error{at(64), at(1024), func() error {
		c := cfg
		c.Loops, c.GPUs = 1, 64
		return b.cores(c)
	}, b.scaling, b.disturbed}
}

// InterruptedText stands above the results of a plan that did not come to its end.
const InterruptedText = "INTERRUPTED: this is what had been measured by then."

// Print writes all of it for people.
func (r *Result) Print(to io.Writer) {
	if r.Interrupted {
		fmt.Fprintf(to, "%s\n\n", InterruptedText)
	}
	var parts []interface{ Print(io.Writer) }
	for _, p := range r.Points {
		parts = append(parts, p)
	}
	for _, f := range r.Searches {
		parts = append(parts, f)
	}
	for _, c := range r.Cores {
		parts = append(parts, c)
	}
	if r.Scaling != nil {
		parts = append(parts, r.Scaling)
	}
	for _, c := range []*Compared{r.Lateness, r.Heap} {
		if c != nil {
			parts = append(parts, c)
		}
	}
	if r.Replay != nil {
		parts = append(parts, r.Replay)
	}
	for _, c := range r.Tuner {
		parts = append(parts, c)
	}
	for i, p := range parts {
		if i > 0 {
			fmt.Fprintln(to)
		}
		p.Print(to)
	}
	for _, p := range r.Points {
		fmt.Fprintln(to, "\nOrders, from due until they left the model loop:")
		p.Lateness.Print(to)
	}
}
