package schedbench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Scaling is what more model loops do: measured as far as the processors go, and
// reckoned beyond.
type Scaling struct {
	Processors int
	Parallel   float64 // two bare cores on two threads at once, against one
	One        []*Found
	Two        *Found  `json:",omitempty"`
	Factor     float64 // highest rate of two model loops against one; 0: not measured
	Models     []LoopModel
}

// LoopModel reckons the rate of any number of model loops from what one run
// measured. It assumes:
//
//  1. A model loop's cost per request does not depend on how many there are: they
//     share nothing but the rank loop's ring and the mailboxes of their own models.
//  2. The rank loop's cost per batch, informs included, lies between what it was in
//     that run, its sleeps and wake-ups (or its part of a shared thread's) included,
//     and what the bare core takes, which never sleeps. The busier the rank loop, the nearer it
//     is to the latter, and the more candidates are overtaken in their mailboxes
//     before it looks. The former is a lower bound of the rate, the latter an upper.
//  3. Every loop has a processor of its own, one more is the rank loop's, and those
//     that ask and the GPUs are elsewhere.
//
// So the rate is linear in the model loops until the rank loop's processor is full.
type LoopModel struct {
	GPUs         int
	MeanBatch    float64
	ModelRequest float64 // ns of a model loop per request
	RankBatch    float64 // ns of the rank loop per batch, informs included
	RankBare     float64 // the same by the bare core; 0: not known
}

// loopModel takes what a run measured.
func loopModel(p *Point, c *CoreCosts) LoopModel {
	m := LoopModel{GPUs: p.GPUs, MeanBatch: p.MeanBatch, ModelRequest: p.ModelCPU.PerRequest, RankBatch: p.RankCPU.PerRequest * p.MeanBatch}
	if c != nil {
		for _, k := range []call{callSetCandidate, callStep, callAnswer, callDone} {
			m.RankBare += c.Calls[k].PerRequest * c.MeanBatch
		}
	}
	return m
}

// Rate is that of so many model loops, and the share of its processor that the
// rank loop then uses.
func (m *LoopModel) Rate(loops int) (rate, rankShare float64) {
	if m.ModelRequest <= 0 {
		return 0, 0
	}
	rate = min(float64(loops)*1e9/m.ModelRequest, m.RankMost())
	if m.RankBatch <= 0 {
		return rate, 0
	}
	return rate, rate / m.RankMost()
}

// RankMost is the rate at which the rank loop's processor is full.
func (m *LoopModel) RankMost() float64 {
	if m.RankBatch <= 0 {
		return 1e18 // no limit that could be seen
	}
	return 1e9 / m.RankBatch * m.MeanBatch
}

// Upper is the rate of so many model loops with a rank loop that never sleeps.
func (m *LoopModel) Upper(loops int) float64 {
	if m.RankBare > 0 {
		n := *m
		n.RankBatch = min(m.RankBatch, m.RankBare)
		m = &n
	}
	rate, _ := m.Rate(loops)
	return rate
}

// Fill is how many model loops fill the rank loop.
func (m *LoopModel) Fill() float64 { return m.RankMost() * m.ModelRequest / 1e9 }

// scaling measures one loop and two, unless that was done, and makes the model.
func (b *bench) scaling() error {
	s := &Scaling{Processors: runtime.NumCPU()}
	for _, gpus := range []int{64, 1024} {
		if f := b.searched(1, gpus); f != nil {
			s.One = append(s.One, f)
			continue
		}
		cfg := b.plan.Config
		cfg.Loops, cfg.GPUs, cfg.Rate = 1, gpus, 0
		if err := b.search(cfg); err != nil || b.ctx.Err() != nil {
			return err
		}
		s.One = append(s.One, b.searched(1, gpus))
	}
	for _, f := range s.One {
		if f == nil || f.Best == nil {
			continue
		}
		if b.coresOn(f.GPUs) == nil {
			cfg := b.plan.Config
			cfg.Loops, cfg.GPUs = 1, f.GPUs
			if err := b.cores(cfg); err != nil {
				return err
			}
		}
		s.Models = append(s.Models, loopModel(f.Best, b.coresOn(f.GPUs)))
	}
	var err error
	if s.Parallel, err = b.parallel(); err != nil {
		return err
	}
	b.r.Scaling = s
	cfg := b.plan.Config
	cfg.Loops, cfg.GPUs, cfg.Rate = 2, 64, 0
	if b.plan.Place != nil {
		cfg.Placement = b.plan.Place(2)
	}
	if err := b.search(cfg); err != nil || b.ctx.Err() != nil {
		return err
	}
	if s.Two = b.searched(2, 64); s.Two != nil && s.Two.Best != nil && s.One[0].Best != nil {
		s.Factor = s.Two.Best.OfferedRate / s.One[0].Best.OfferedRate
	}
	return nil
}

// coresOn is what the bare cores cost in turns, with so many GPUs; nil: not measured.
func (b *bench) coresOn(gpus int) *CoreCosts {
	for _, c := range slices.Backward(b.r.Cores) {
		if c.GPUs == gpus {
			return c
		}
	}
	return nil
}

func (b *bench) searched(loops, gpus int) *Found {
	for _, f := range b.r.Searches {
		if f.Loops == loops && f.GPUs == gpus {
			return f
		}
	}
	return nil
}

// cores measures the bare cores, at the rate that goes with the plan's or 1 M/s.
func (b *bench) cores(cfg Config) error {
	if cfg.Rate == 0 {
		cfg.Rate = coresRate
	}
	for _, turn := range []mono.Dur{0, coresTurn} {
		c, err := Cores(b.ctx, cfg, turn, coresRequests, b.plan.Tell)
		if err != nil {
			return err
		}
		b.r.Cores = append(b.r.Cores, c)
	}
	return nil
}

const (
	coresRate = 1_000_000
	coresTurn = 50 * mono.Microsecond
)

// parallel drives one bare core, then two on threads of their own at once: what
// the processors lose to each other (caches, memory, frequency) when nothing else
// is shared.
func (b *bench) parallel() (float64, error) {
	if runtime.NumCPU() < 2 {
		return 0, nil
	}
	cfg := b.plan.Config
	cfg.Loops, cfg.GPUs, cfg.Rate = 1, 64, coresRate
	if err := cfg.complete(); err != nil {
		return 0, err
	}
	b.plan.Tell("bare cores on two threads", 0, "")
	const requests = coresRequests / 2
	var took [3]mono.Dur
	for threads := 1; threads <= 2; threads++ {
		rigs := make([]*rig, threads)
		for i := range rigs {
			c := cfg
			c.Seed += uint64(i)
			r, err := newRig(&c, false)
			if err != nil {
				return 0, err
			}
			r.run(requests / 8)
			rigs[i] = r
		}
		var all sync.WaitGroup
		began := mono.Now()
		for _, r := range rigs {
			all.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				r.run(requests)
			})
		}
		all.Wait()
		took[threads] = mono.Now().Sub(began)
	}
	return 2 * float64(took[1]) / float64(took[2]), nil
}

// Print writes it for people.
func (s *Scaling) Print(to io.Writer) {
	fmt.Fprintf(to, "Scaling on %d processors\n", s.Processors)
	if s.Parallel > 0 {
		fmt.Fprintf(to, "  two bare cores on two threads, nothing else: %.2f times one\n", s.Parallel)
	}
	if s.Factor > 0 {
		fmt.Fprintf(to, "  two model loops: %.0f requests/s, %.2f times one's %.0f", s.Two.Best.OfferedRate, s.Factor, s.One[0].Best.OfferedRate)
		if s.Processors < 4 {
			fmt.Fprintf(to, "; but on %d processors the rank loop and the world take their part of the same ones", s.Processors)
		}
		fmt.Fprintln(to)
	}
	if len(s.Models) == 0 {
		return
	}
	fmt.Fprintln(to, "  Reckoned, NOT measured: linear in the model loops until the rank loop's processor is full; a processor for each loop, one for the rank loop, the world elsewhere; the costs are those of the one-loop run. At least: the rank loop as dear as there; at most: as the bare core")
	w := report.Table(to)
	fmt.Fprintln(w, "GPUs\tbatch\tmodel loop ns/request\trank loop ns/batch\tbare\t16 cores: at least M requests/s\trank's share\tat most\t32 cores: at least\trank's share\tat most\trank full with model loops\t")
	for i := range s.Models {
		m := &s.Models[i]
		r16, u16 := m.Rate(15)
		r32, u32 := m.Rate(31)
		fmt.Fprintf(w, "%d\t%.1f\t%.0f\t%.0f\t%.0f\t%.1f\t%.0f %%\t%.1f\t%.1f\t%.0f %%\t%.1f\t%.1f\t\n", m.GPUs, m.MeanBatch, m.ModelRequest, m.RankBatch, m.RankBare,
			r16/1e6, 100*u16, m.Upper(15)/1e6, r32/1e6, 100*u32, m.Upper(31)/1e6, m.Fill())
	}
	w.Flush()
	fmt.Fprintln(to, "  The paper's Figure 13 (left): about 12 M requests/s on 32 cores.")
}

// Picture is like the paper's Figure 13 (left): rate by model loops. False: there
// is nothing to draw.
func (r *Result) Picture() (plot.Picture, bool) {
	s := r.Scaling
	if s == nil || len(s.Models) == 0 {
		return nil, false
	}
	p := plot.Lines{Title: "Requests the scheduler carries, bad rate below 1 %", X: plot.Axis{Label: "model loops, each with a processor of its own"},
		Y: plot.Axis{Label: "million requests/s"}}
	for i := range s.Models {
		m := &s.Models[i]
		least := plot.Series{Name: fmt.Sprintf("reckoned at least, %d GPUs", m.GPUs), Dashed: true}
		most := plot.Series{Name: fmt.Sprintf("reckoned at most, %d GPUs", m.GPUs), Dashed: true}
		for loops := 1; loops <= 31; loops++ {
			rate, _ := m.Rate(loops)
			least.X, least.Y = append(least.X, float64(loops)), append(least.Y, rate/1e6)
			most.X, most.Y = append(most.X, float64(loops)), append(most.Y, m.Upper(loops)/1e6)
		}
		p.Series = append(p.Series, least, most)
	}
	for _, f := range append(s.One, s.Two) {
		if f == nil || f.Best == nil {
			continue
		}
		name := fmt.Sprintf("measured, %d GPUs", f.GPUs)
		at := -1
		for i := range p.Series {
			if p.Series[i].Name == name {
				at = i
			}
		}
		if at < 0 {
			p.Series = append(p.Series, plot.Series{Name: name})
			at = len(p.Series) - 1
		}
		p.Series[at].X, p.Series[at].Y = append(p.Series[at].X, float64(f.Loops)), append(p.Series[at].Y, f.Best.OfferedRate/1e6)
	}
	p.Markers = true
	p.VLines = []plot.Ref{{At: 15, Label: "16 cores"}, {At: 31, Label: "32 cores"}}
	p.HLines = []plot.Ref{{At: 12, Label: "the paper's, 32 cores"}}
	return p, true
}
