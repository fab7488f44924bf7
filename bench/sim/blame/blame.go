// Package blame tells why a policy does not carry a rate: which model fares
// worst, what became of its requests, and whether a GPU was free for them.
package blame

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Blame is what happened at a rate that was too high.
type Blame struct {
	Bad      float64          `json:"bad"`       // share of all requests
	Failing  int              `json:"failing"`   // models with more than 1 % bad
	Models   int              `json:"models"`    // of so many
	Model    int              `json:"model"`     // the worst
	SLO      mono.Dur         `json:"slo"`       // its
	Single   mono.Dur         `json:"single"`    // its l(1)
	ModelBad float64          `json:"model_bad"` // its bad rate
	Arrived  int64            `json:"arrived"`   // its requests
	Reasons  map[string]int64 `json:"reasons"`   // of its bad ones
	// Blocked is the share of its bad requests during whose time no GPU was ever
	// free, from arrival to the last start that would have served them. Of the
	// others the policy let a GPU stand idle.
	Blocked float64 `json:"blocked"`
	// Longest is the longest batch of another model that ran; 0 if there is none.
	Longest mono.Dur `json:"longest"`
}

// Run simulates the configuration to its end, with an observer of its own.
func Run(cfg *sim.Config, stop func() bool) (Blame, error) {
	g := newGatherer(cfg)
	cfg.Observer = g.observer()
	r, err := sim.Run(cfg, stop)
	if err != nil {
		return Blame{}, err
	}
	b := Blame{Bad: r.All.BadRate(), Models: len(r.Models), Reasons: map[string]int64{}}
	for i := range r.Models {
		rate := r.Models[i].BadRate()
		if rate > sim.BadRateMax {
			b.Failing++
		}
		if rate > b.ModelBad {
			b.Model, b.ModelBad = i, rate
		}
	}
	b.of(&cfg.Models[b.Model], &r.Models[b.Model])
	b.Blocked, b.Longest = g.blocked(b.Model, cfg.GPUs), g.behind(b.Model)
	return b, nil
}

// of takes the worst model's numbers.
func (b *Blame) of(m *sim.Model, c *sim.Counts) {
	b.SLO, b.Single, b.Arrived = m.SLO, m.Profile.Latency(1), c.Arrived
	if c.Late > 0 {
		b.Reasons["late"] = c.Late
	}
	for reason, n := range c.Dropped {
		if n > 0 {
			b.Reasons[wire.Reason(reason).String()] = n
		}
	}
}

// gatherer keeps the batches of a run, and its bad requests: those that the result counts as bad,
// so that Blocked is a share of what Reasons adds up to.
type gatherer struct {
	models   []sim.Model
	from, to mono.Time // the counted span, of arrivals
	batches  []batch
	lost     []lost
}

func newGatherer(cfg *sim.Config) *gatherer {
	return &gatherer{models: cfg.Models, from: mono.Time(cfg.Warmup), to: mono.Time(cfg.Warmup + cfg.Duration)}
}

func (g *gatherer) observer() sim.Observer { return sim.Observer{Executed: g.executed, Drop: g.drop} }

type batch struct {
	model      wire.ModelID
	start, end mono.Time
}

// lost is a bad request: it could have started from one instant to the other.
type lost struct {
	model    int
	from, to mono.Time
}

func (g *gatherer) executed(e *sim.Execution) {
	g.batches = append(g.batches, batch{e.Model, e.Start, e.End})
	for i := range e.Requests {
		// Not by its Deadline: that is the scheduler's, less the way of the answer and a margin.
		if q := &e.Requests[i]; e.Kept && e.Answered > q.Arrival.Add(g.models[e.Model].SLO) {
			g.lose(int(e.Model), q)
		}
	}
}

func (g *gatherer) drop(_ mono.Time, d *batching.Drop) {
	g.lose(int(d.Request.Input.Length), &d.Request) // the simulator tells the model so
}

func (g *gatherer) lose(model int, q *batching.Request) {
	if q.Arrival < g.from || q.Arrival >= g.to {
		return
	}
	m := &g.models[model]
	g.lost = append(g.lost, lost{model, q.Arrival, q.Arrival.Add(m.SLO - m.Profile.Latency(1))})
}

// blocked is the share of a model's lost requests during whose time all GPUs
// ran.
func (g *gatherer) blocked(model, gpus int) float64 {
	idle := g.idle(gpus)
	n, all := 0, 0
	for _, l := range g.lost {
		if l.model != model {
			continue
		}
		all++
		// The first span without work that ends after the request came.
		i := sort.Search(len(idle), func(i int) bool { return idle[i].to > l.from })
		if i == len(idle) || idle[i].from >= l.to {
			n++
		}
	}
	return float64(n) / float64(max(1, all))
}

// idle are the spans in which some GPU had no work, in order.
func (g *gatherer) idle(gpus int) []lost {
	type change struct {
		at mono.Time
		by int
	}
	var changes []change
	for _, b := range g.batches {
		changes = append(changes, change{b.start, 1}, change{b.end, -1})
	}
	// Of one instant the ends go first, and a span of no length is none.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	var out []lost
	busy, since := 0, mono.Time(0)
	for _, c := range changes {
		was := busy
		busy += c.by
		if was == gpus-1 && busy == gpus && c.at > since {
			out = append(out, lost{from: since, to: c.at})
		} else if was == gpus && busy == gpus-1 {
			since = c.at
		}
	}
	if busy < gpus {
		out = append(out, lost{from: since, to: mono.Never})
	}
	return out
}

// behind is the longest batch of another model.
func (g *gatherer) behind(model int) mono.Dur {
	longest := mono.Dur(0)
	for _, b := range g.batches {
		if int(b.model) != model {
			longest = max(longest, b.end.Sub(b.start))
		}
	}
	return longest
}

// String is the explanation in a sentence, without its end.
func (b Blame) String() string {
	text := fmt.Sprintf("%d of %d models above 1 %% bad; the worst (number %d, l(1) %.3g ms, SLO %.3g ms) loses %.3g %% of %d requests", b.Failing, b.Models, b.Model, b.Single.Millis(), b.SLO.Millis(), 100*b.ModelBad, b.Arrived)
	var reasons []string
	for _, name := range slices.Sorted(maps.Keys(b.Reasons)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", b.Reasons[name], name))
	}
	if len(reasons) == 0 {
		return text
	}
	text += fmt.Sprintf(" (%s); for %.0f %% of these no GPU was free in time", strings.Join(reasons, ", "), 100*b.Blocked)
	if b.Longest > 0 {
		text += fmt.Sprintf(", the longest batch of another model took %.3g ms", b.Longest.Millis())
	}
	return text
}
