package schedbench

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Found is the highest rate with a bad rate below BadMost, and the runs on the way.
type Found struct {
	Loops, GPUs int
	Interrupted bool    `json:",omitzero"`  // there would have been more to try
	Best        *Point  `json:",omitempty"` // nil: not even the first rate was carried
	Within      float64 `json:",omitzero"`  // the lowest rate that was not carried is so many times Best's
	Tried       []Tried
}

// Tried is one run of a search.
type Tried struct {
	Rate, BadRate float64
	Held          bool
}

const (
	searchFrom  = 400_000 // requests/s
	searchSteps = 16      // runs at most
	searchClose = 1.05    // highest that held and lowest that did not: then it ends
)

// search doubles the rate until it is not carried, then halves the distance on a
// scale of ratios. A rate that is not carried is tried twice: one pause of the machine
// is enough for a bad run. The profile is made anew for each rate (load.go), so that the
// scheduler, not the GPUs, is what gives in.
func (b *bench) search(cfg Config) error {
	def(&cfg.Loops, 1)
	def(&cfg.GPUs, 64)
	f := &Found{Loops: cfg.Loops, GPUs: cfg.GPUs}
	defer func() {
		if len(f.Tried) > 0 {
			b.r.Searches = append(b.r.Searches, f)
		}
	}()
	if cfg.tape == nil {
		if err := cfg.complete(); err != nil {
			return err
		}
	}
	low, high := 0.0, 0.0
	rate := float64(searchFrom)
	if cfg.Zoo != nil { // the GPUs' own limit is where to begin
		rate = zooRate(&cfg) / 4
	}
	failed := 0.0 // a rate that is to be tried again
	for range searchSteps {
		cfg.Rate = rate
		p, err := Live(b.ctx, cfg, b.plan.Tell)
		f.Interrupted = b.ctx.Err() != nil
		if errors.Is(err, ErrNothing) && !f.Interrupted {
			p, err = &Point{BadRate: 1}, nil // the machine was elsewhere all the span: not carried
		}
		if err != nil || f.Interrupted {
			return err
		}
		f.Tried = append(f.Tried, Tried{rate, p.BadRate, p.Holds()})
		switch {
		case p.Holds():
			low, f.Best = rate, p
		case failed != rate:
			failed = rate
			continue
		default:
			high = rate
		}
		switch {
		case high == 0:
			rate *= 2
		case low == 0:
			rate /= 2
		case high/low < searchClose:
			f.Within = high / low
			return nil
		default:
			rate = low * math.Sqrt(high/low)
		}
	}
	return nil
}

// zooRate is what the GPUs carry in the largest batches that the SLO allows.
func zooRate(c *Config) float64 {
	best := 0.0
	for n := 1; n <= maxBatch; n++ {
		l := c.Zoo.Alpha.Seconds()*float64(n) + c.Zoo.Beta.Seconds()
		if 2*l <= c.SLO.Seconds() || n == 1 {
			best = float64(n) / l * float64(c.GPUs)
		}
	}
	return best
}

// text of a search.
func (f *Found) text() string {
	s := ""
	for _, t := range f.Tried {
		mark := "+"
		if !t.Held {
			mark = "-"
		}
		s += fmt.Sprintf(" %s%.0fk (%.2f %%)", mark, t.Rate/1e3, 100*t.BadRate)
	}
	return s
}

// Print writes a search for people.
func (f *Found) Print(to io.Writer) {
	head := "Highest rate of"
	if f.Interrupted {
		head = "Highest rate so far (the search was interrupted):"
	}
	fmt.Fprintf(to, "%s %d model loop(s) on %d GPUs, tried:%s\n", head, f.Loops, f.GPUs, f.text())
	if f.Best == nil {
		fmt.Fprintln(to, "  none of them was carried")
		return
	}
	if f.Within == 0 && !f.Interrupted {
		fmt.Fprintf(to, "  the search ended after %d runs, before it was sure to within %.0f %%\n", len(f.Tried), 100*(searchClose-1))
	}
	if f.Within > 0 {
		fmt.Fprintf(to, "  %.2f times the highest was not carried, twice\n", f.Within)
	}
	f.Best.Print(to)
}
