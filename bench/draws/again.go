package draws

import "math"

// Line is the ratio from which on a mix counts as won or drawn.
const Line = 0.99

const (
	againMost   = 10 // spans of each seed of arrivals, where the rarest model would have too few requests in one
	sampleEvery = 10 // of the mixes not below the line
)

// againArrivals are the seeds of arrivals of a mix that is measured again: others than the first.
func againArrivals() []int { return []int{1, 2, 3} }

// again measures a mix again where it came out below the line, three times as long or more (so that
// each model has requests enough, for a p99 of some tens is chance) and with
// other arrivals: ours, today's, and the others that came near the best. Every
// tenth of the other mixes, too: what noise lifts over the line is as much an
// error as what it pushes below.
//
// The seeds of arrivals are one measurement: a rate passes where no model loses more than
// one percent of its requests of all of them. All searches begin at the best
// other's rate as first measured.
//
// Whom --policies names does not matter here: a ratio compares all of them, and
// without the best other ours would be compared with nobody.
func (r *runner) again(o *Outcome, stop func() bool) error {
	ratio, ok := o.Ratio(o.Ours)
	if !ok || ratio >= Line && o.Mix.Index%sampleEvery != 0 {
		return nil
	}
	var names []string
	best, by := o.BestOther(o.Ours)
	if by == "" {
		return nil // nobody to compare with
	}
	for _, name := range r.names {
		if f, ok := o.Found[name]; ok && (name == o.Ours || name == Today || f.Rate >= near*best) {
			names = append(names, name)
		}
	}
	enough, err := o.Mix.enough(best)
	if err != nil {
		return err
	}
	arrivals := againArrivals()
	times := min(max(1, math.Ceil(enough/o.Span.Seconds/float64(len(arrivals)))), againMost)
	one := &Outcome{Ours: o.Ours, Mix: o.Mix, Span: o.Span.longer(times), Found: map[string]Found{}}
	s := &searches{r: r, o: one, names: names, policies: names, fresh: r.fresh(),
		bench: newBench(o.Mix, one.Span, r.opts.grid(best), arrivals, stop)}
	if err := s.run(); err != nil {
		return err
	}
	o.Ran.add(one.Ran)
	o.Again = one
	return nil
}

// rates are the goodputs that are compared: those that were measured again,
// where any was.
func (o *Outcome) rates() map[string]float64 {
	found, out := o.Found, map[string]float64{}
	if o.Again != nil {
		found = o.Again.Found
	}
	for name, f := range found {
		out[name] = f.Rate
	}
	return out
}

// first is the outcome as it was measured first.
func (o *Outcome) first() *Outcome {
	once := *o
	once.Again = nil
	return &once
}
