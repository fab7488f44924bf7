package schedbench

import (
	"fmt"
	"io"
	"slices"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Tuned is what the engine's tuner took and chose in a run.
type Tuned struct {
	Share   float64 // of a processor, that it may take
	Took    float64 // of a processor, in the span that counts
	Choice  string  // in force at the end, and why
	Changes int     // of the setting, since the start

	setting batching.Setting // in force at the end
}

// Print writes it for people.
func (t *Tuned) Print(to io.Writer) {
	fmt.Fprintf(to, "  tuner: took %.2f %% of a processor, may take %g %%; %d changes; %s\n", 100*t.Took, 100*t.Share, t.Changes, t.Choice)
}

// tuned is what the tuner did within the span; nil without one.
func (m *meter) tuned() *Tuned {
	choice, _, ok := m.w.engine.Tuning()
	if !ok {
		return nil
	}
	return &Tuned{Share: m.w.cfg.Tuner, Took: (m.spent[1] - m.spent[0]).Seconds() / m.at[1].Sub(m.at[0]).Seconds(), Choice: choice.String(), Changes: choice.Changes, setting: choice.Setting}
}

// TunerCompared is the same load with the tuner, without it but with the setting that it chose,
// and with the whole deferral, by turns: neighbours on the machine disturb all alike. The first two
// differ by what the tuner costs, the last two by what its choice does: smaller batches are more
// work for each request. All but Took are medians over the turns.
type TunerCompared struct {
	GPUs, Models, Turns   int
	Rate, Seconds         float64 // requests/s; of a turn
	Took, TookMost        float64 // of a processor: mean, and most of a turn
	Choice                string  // at the end of the last turn
	With, Fixed, Deferral TunerSide
	Ratio                 TunerSide // of With to Fixed, median over the turns
}

// TunerSide is one side, or their ratio.
type TunerSide struct {
	CPU                    float64 // ns per request, of the scheduler's loops
	P50, P99, P999         float64 // us, from when an order was due until it left the model loop
	GrantP99               float64 // us, from when a grant was due until it left the rank loop
	Wait, BadRate, Goodput float64 // us, a request's arrival until in a candidate, median; share; requests/s
}

func sideOf(p *Point) TunerSide {
	return TunerSide{CPU: p.CPU(), P50: p.Lateness.P50, P99: p.Lateness.P99, P999: p.Lateness.P999, GrantP99: p.Grants.P99,
		Wait: p.ToCandidate.P50, BadRate: p.BadRate, Goodput: p.Goodput}
}

// values are what ratios and medians are taken of.
func (s *TunerSide) values() []*float64 {
	return []*float64{&s.CPU, &s.P50, &s.P99, &s.P999, &s.GrantP99, &s.Wait, &s.BadRate, &s.Goodput}
}

// medianSide is the median of each value.
func medianSide(sides []TunerSide) (out TunerSide) {
	for i, v := range out.values() {
		all := make([]float64, len(sides))
		for k := range sides {
			all[k] = *sides[k].values()[i]
		}
		slices.Sort(all)
		*v = (all[len(all)/2] + all[(len(all)-1)/2]) / 2
	}
	return out
}

func ratioSide(a, b TunerSide) (out TunerSide) {
	for i, v := range out.values() {
		if d := *b.values()[i]; d > 0 {
			*v = *a.values()[i] / d
		}
	}
	return out
}

// tunerRates are compared where none is given: a few users, many, and near what a core carries.
func tunerRates() []float64 { return []float64{1000, 20_000, 500_000} }

const (
	tunerTurns = 10
	// TunerTurnSpan is how long each turn of the comparison counts.
	TunerTurnSpan = 2 * mono.Second
)

// compareTuner runs each rate with the tuner and without, by turns.
func (b *bench) compareTuner() error {
	rates := tunerRates()
	if b.plan.Rate > 0 {
		rates = []float64{b.plan.Rate}
	}
	for _, rate := range rates {
		cfg := b.plan.Config
		cfg.Rate = rate
		if err := cfg.complete(); err != nil {
			return err
		}
		c := &TunerCompared{GPUs: cfg.GPUs, Models: cfg.Models, Rate: rate, Seconds: cfg.Duration.Seconds()}
		var with, fixed, deferral, ratios []TunerSide
		setting := tuner.Settings()[0]
		for turn := range tunerTurns {
			sides, err := b.tunerTurn(cfg, turn, &setting, c)
			if err != nil {
				return err
			}
			if b.ctx.Err() != nil {
				break
			}
			with, fixed, deferral = append(with, sides[0]), append(fixed, sides[1]), append(deferral, sides[2])
			ratios = append(ratios, ratioSide(sides[0], sides[1]))
		}
		if c.Turns = len(with); c.Turns > 0 {
			c.Took /= float64(c.Turns)
			c.With, c.Fixed, c.Deferral, c.Ratio = medianSide(with), medianSide(fixed), medianSide(deferral), medianSide(ratios)
			b.r.Tuner = append(b.r.Tuner, c)
		}
	}
	return nil
}

// tunerTurn runs each side once, another one first in each turn.
func (b *bench) tunerTurn(cfg Config, turn int, setting *batching.Setting, c *TunerCompared) (sides [3]TunerSide, err error) {
	for k := range sides {
		run, side := cfg, (turn+k)%len(sides)
		run.Seed += uint64(turn)
		switch side {
		case 1:
			run.Tuner, run.Setting = 0, *setting
		case 2:
			run.Tuner = 0
		}
		p, err := Live(b.ctx, run, b.plan.Tell)
		if err != nil || b.ctx.Err() != nil {
			return sides, err
		}
		sides[side] = sideOf(p)
		if t := p.Tuned; t != nil {
			c.Took += t.Took
			c.TookMost, c.Choice, *setting = max(c.TookMost, t.Took), t.Choice, t.setting
		}
	}
	return sides, nil
}

// Print writes it for people.
func (c *TunerCompared) Print(to io.Writer) {
	fmt.Fprintf(to, "The tuner at %.0f requests/s, %d GPUs, %d models, %d turns of %.1f s each: took %.2f %% of a processor, %.2f %% at most in a turn\n",
		c.Rate, c.GPUs, c.Models, c.Turns, c.Seconds, 100*c.Took, 100*c.TookMost)
	fmt.Fprintf(to, "  %s\n", c.Choice)
	w := report.Table(to)
	fmt.Fprintln(w, "medians over the turns\tCPU ns/request\torder p50 us\tp99\tp99.9\tgrant p99 us\tto candidate p50 us\tbad rate\t")
	for _, r := range []struct {
		name string
		s    *TunerSide
	}{{"with", &c.With}, {"its setting without it", &c.Fixed}, {"whole deferral", &c.Deferral}} {
		s := r.s
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.4f %%\t\n", r.name, s.CPU, report.Micros(s.P50), report.Micros(s.P99), report.Micros(s.P999), report.Micros(s.GrantP99), report.Micros(s.Wait), 100*s.BadRate)
	}
	s := &c.Ratio
	fmt.Fprintf(w, "with to its setting without it\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\t\n", s.CPU, s.P50, s.P99, s.P999, s.GrantP99, s.Wait)
	w.Flush()
}
