package draws

import (
	"math"
	"slices"
)

// Line is the ratio from which on a mix counts as won or drawn.
const Line = 0.99

const (
	againSeeds  = 3  // of arrivals, others than the first
	againLonger = 2  // spans, at least
	againMost   = 20 // spans, where the rarest model would have too few requests in less
	sampleEvery = 10 // of the mixes not below the line
)

// again measures a mix again where it came out below the line, longer (so that each model has requests
// enough, for a p99 of some tens is chance) and with
// other arrivals: ours, today's, and the others that came near the best. Every
// tenth of the other mixes, too: what noise lifts over the line is as much an
// error as what it pushes below.
//
// Whom --policies names does not matter here: a ratio compares all of them, and
// without the best other in these rounds ours would be compared with nobody.
func (r *runner) again(o *Outcome, stop func() bool) error {
	ratio, ok := o.Ratio(Ours)
	if !ok || ratio >= Line && o.Mix.Index%sampleEvery != 0 {
		return nil
	}
	var names []string
	best, _ := o.BestOther(Ours)
	for _, name := range r.names {
		if f, ok := o.Found[name]; ok && (name == Ours || name == Today || f.Rate >= near*best) {
			names = append(names, name)
		}
	}
	enough, err := o.Mix.enough(best)
	if err != nil {
		return err
	}
	times := min(max(againLonger, math.Ceil(enough/o.Span.Seconds)), againMost)
	var rounds []*Outcome
	for arrivals := 1; arrivals <= againSeeds; arrivals++ {
		one := &Outcome{Mix: o.Mix, Span: o.Span.longer(times), Found: map[string]Found{}}
		s := &searches{r: r, o: one, names: names, policies: names, fresh: r.fresh(), bench: newBench(o.Mix, one.Span, arrivals, stop), arrivals: arrivals, guess: best}
		if err := s.run(); err != nil {
			return err
		}
		o.Ran.add(one.Ran)
		rounds = append(rounds, one)
	}
	o.Again = rounds
	return nil
}

// rates are the goodputs that are compared: means of what was measured again,
// where it was.
func (o *Outcome) rates() map[string]float64 {
	out := map[string]float64{}
	if len(o.Again) == 0 {
		for name, f := range o.Found {
			out[name] = f.Rate
		}
		return out
	}
	for name := range o.Found {
		if slices.ContainsFunc(o.Again, func(a *Outcome) bool { _, ok := a.Found[name]; return !ok }) {
			continue
		}
		for _, a := range o.Again {
			out[name] += a.Found[name].Rate / float64(len(o.Again))
		}
	}
	return out
}

// first is the outcome as it was measured first.
func (o *Outcome) first() *Outcome {
	once := *o
	once.Again = nil
	return &once
}
