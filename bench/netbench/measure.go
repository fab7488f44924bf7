package netbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a run.
type Config struct {
	Duration mono.Dur // of the incast, for each way; everything else takes about as long again
	Rounds   int      // so many of each way instead; 0: Duration
	Echoes   mono.Dur // of each shape of message, and of each flood; 0: a fifteenth of Duration

	// Servers is the processor time of all servers; nil: they are in this process,
	// and theirs cannot be told from the client's.
	Servers func() (mono.Dur, error)
	// Progress is told after every turn; nil: nobody is.
	Progress func(Progress)
}

// Progress says how far a run is.
type Progress struct {
	Phase string
	Done  float64 // share of the phase
	Text  string
}

// ErrNothing: the run was interrupted before it had measured anything.
var ErrNothing = errors.New("interrupted in the warm-up: nothing was measured")

// turnSpan is how long a way is measured before it is the other's turn: long against
// what a change costs, short against what changes on a machine.
const turnSpan = 100 * mono.Millisecond

// bench is a run.
type bench struct {
	ctx     context.Context
	cfg     Config
	clients []*client
	tallies []*tally // of each client
}

// Measure measures all ways against servers that offer them. Where ctx ends it, the
// Result holds what had been measured by then, and says so.
func Measure(ctx context.Context, c Config, ways []Way, offers []Offer) (*Result, error) {
	if c.Echoes == 0 {
		c.Echoes = max(c.Duration/15, 50*mono.Millisecond)
	}
	b := &bench{ctx: ctx, cfg: c}
	defer func() {
		for _, cl := range b.clients {
			cl.close()
		}
	}()
	for _, w := range ways {
		cl, err := connect(ctx, w, offers)
		if err != nil {
			return nil, err
		}
		b.clients, b.tallies = append(b.clients, cl), append(b.tallies, newTally())
	}
	if err := b.run(); err != nil {
		return nil, err
	}
	if b.tallies[0].round.Count() == 0 {
		return nil, ErrNothing
	}
	r := &Result{Interrupted: ctx.Err() != nil, Config: Setting{Servers: len(offers), Rounds: c.Rounds}}
	if first := b.clients[0]; len(first.objects) > 0 {
		r.Config.Objects, r.Config.Size = len(first.objects)/len(offers), len(first.objects[0].dst)
	}
	if c.Rounds == 0 {
		r.Config.Duration = c.Duration.Seconds()
	}
	for i, cl := range b.clients {
		r.Ways = append(r.Ways, b.tallies[i].result(cl.way.Name))
	}
	return r, nil
}

// run goes through the phases.
func (b *bench) run() error {
	warm := min(b.cfg.Duration/10, 500*mono.Millisecond)
	if err := b.phase("warm-up", b.spanOf(warm), b.incastTurn); err != nil {
		return err
	}
	for _, t := range b.tallies {
		t.forget()
	}
	goal := b.spanOf(b.cfg.Duration)
	if b.cfg.Rounds > 0 {
		goal = func(i int, _ mono.Dur) float64 {
			return float64(b.tallies[i].round.Count()) / float64(b.cfg.Rounds)
		}
	}
	if err := b.phase("incast", goal, b.incastTurn); err != nil {
		return err
	}
	if err := b.phase("READ alone", b.spanOf(2*b.cfg.Echoes), b.aloneTurn); err != nil {
		return err
	}
	for i, s := range echoShapes() {
		name := fmt.Sprintf("round trips of %s", s)
		if err := b.phase(name, b.spanOf(b.cfg.Echoes), b.echoTurn(i, s)); err != nil {
			return err
		}
	}
	for i, n := range floodSizes() {
		name := fmt.Sprintf("messages one way, %d B", n)
		if err := b.phase(name, b.spanOf(b.cfg.Echoes), b.floodTurn(i, n)); err != nil {
			return err
		}
	}
	return nil
}

// goal is the share of a phase that way i has done, whose turns took so long.
type goal func(i int, took mono.Dur) float64

func (b *bench) spanOf(span mono.Dur) goal {
	return func(_ int, took mono.Dur) float64 {
		if span <= 0 {
			return 1
		}
		return took.Seconds() / span.Seconds()
	}
}

// phase lets the ways take turns until each has done its part, or ctx ends. A turn
// is at least one of whatever is measured.
func (b *bench) phase(name string, g goal, turn func(i int, until mono.Time) error) error {
	took := make([]mono.Dur, len(b.clients))
	for {
		done := 1.0
		for i := range b.clients {
			if g(i, took[i]) >= 1 {
				continue
			}
			if b.ctx.Err() != nil {
				return nil
			}
			start := mono.Now()
			if err := turn(i, start.Add(turnSpan)); err != nil {
				return err
			}
			took[i] += mono.Now().Sub(start)
			done = min(done, g(i, took[i]))
		}
		b.tell(name, done)
		if done >= 1 {
			return nil
		}
	}
}

func (b *bench) tell(phase string, done float64) {
	if b.cfg.Progress == nil {
		return
	}
	p := Progress{Phase: phase, Done: min(done, 1)}
	for i, t := range b.tallies {
		if i > 0 {
			p.Text += ", "
		}
		p.Text += fmt.Sprintf("%s %d rounds", b.clients[i].way.Name, t.round.Count())
	}
	b.cfg.Progress(p)
}
