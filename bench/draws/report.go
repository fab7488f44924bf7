package draws

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/blame"
)

// worstShown is how many of the worst mixes are explained.
const worstShown = 10

// summary is REPORT.md with what belongs to it.
type summary struct {
	opts  Options
	all   []*Outcome // that have a ratio of ours
	none  int        // mixes in which nobody has a goodput
	worst []explained
	b     strings.Builder
}

// explained is one of the worst.
type explained struct {
	o   *Outcome
	why map[string]blame.Blame // of ours and today's
}

// write makes REPORT.md, draws.csv and the plot.
func (c *summary) write() error {
	if err := c.csv(); err != nil {
		return err
	}
	if err := c.plot(); err != nil {
		return err
	}
	c.head()
	c.shares()
	c.overload()
	c.groups()
	c.worstOnes()
	return os.WriteFile(filepath.Join(c.opts.Out, "REPORT.md"), []byte(c.b.String()), 0o644)
}

func (c *summary) line(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

func (c *summary) head() {
	c.line("# Random mixes: ours against the best of all other policies\n\n`%s`\n", c.opts.Command)
	c.line("- %d mixes of seed %d (generator %d, simulator core %d); policies: %s.", len(c.all), c.opts.Seed, Generator, sim.CoreVersion, strings.Join(c.names(), ", "))
	unit := c.opts.Seconds / Defaults().Seconds
	if c.none > 0 {
		c.line("- Beside these, %d mixes in which no policy has a goodput of a request a second, or of which ours was not measured: bursts that exceed the SLO, or so few requests that what was measured first was chance.", c.none)
	}
	c.line("- Goodput: the highest rate at which each model keeps its p99, alone; a dropped request counts as late; tolerance %.2g %%. Counted: %g s; where the rarest model would have fewer than %d requests (of bursty arrivals more, over the root of their shape), up to %g s; where all models have more than %g, down to %g s. A third of that before, at least %g s, is not counted.",
		100*c.opts.Tolerance, c.opts.Seconds, int(unit*rareRequests), unit*longest, c.opts.Requests, unit*shortest, unit*warmup)
	c.line("- Every search begins at the rate of a pilot, and tries all rates of a grid about the turn, from %d in a row that pass up to as many that fail (%d where it is measured again); the goodput is what the passes among them come to. Below %g of the best it is not told, below %g roughly (but for ours and today's). The best other is chosen for each mix with hindsight; ours is no other of `%s`.", settledFirst, settledAgain, hopeless, near, Today)
	var requests int64
	worked, again, sampled := 0.0, 0, 0
	for _, o := range c.all {
		for one := o; one != nil; one = one.Again {
			for _, f := range one.Found {
				requests, worked = requests+f.Requests, worked+f.Worked
			}
		}
		if o.Again != nil {
			if first, _ := o.first().Ratio(o.Ours); first >= Line {
				sampled++
			} else {
				again++
			}
		}
	}
	c.line("- Simulated: %.4g million counted requests in %.3g processor hours.", float64(requests)/1e6, worked/3600)
	if again+sampled > 0 {
		c.line("- Measured again with %d other seeds of arrivals, which are judged together (each as long, and longer where the rarest model would have too few requests): the %d mixes below %g, and %d of those that were not.", len(againArrivals()), again, Line, sampled)
	}
}

// names are the policies that any mix has.
func (c *summary) names() []string {
	seen := map[string]bool{}
	for _, o := range c.all {
		for name := range o.Found {
			seen[name] = true
		}
	}
	var out []string
	for _, name := range append(Policies(), c.opts.Policies...) {
		if seen[name] {
			out = append(out, name)
			seen[name] = false
		}
	}
	return out
}

// compared are those of ours and today's that were measured.
func (c *summary) compared() []string {
	return slices.DeleteFunc(compared(c.opts.Ours), func(name string) bool { return len(ratios(c.all, name)) == 0 })
}

func (c *summary) shares() {
	c.line("\n![ratio to the best other policy](draws.svg)\n")
	c.line("| goodput to the best other | mixes | >= 0.99 | >= 0.95 | lowest | median | highest | >= 0.99 as first measured | lowest then |\n|---|---|---|---|---|---|---|---|---|")
	first := make([]*Outcome, len(c.all))
	for i, o := range c.all {
		first[i] = o.first()
	}
	for _, policy := range c.compared() {
		v, f := ratios(c.all, policy), ratios(first, policy)
		c.line("| `%s` | %d | %s | %s | %.3f | %.3f | %.3f | %s | %.3f |", policy, len(v), percent(shareOf(v, Line)), percent(shareOf(v, 0.95)), v[0], v[len(v)/2], v[len(v)-1], percent(shareOf(f, Line)), f[0])
	}
	c.line("\nThe best other, in how many mixes: %s.", c.winners())
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// winners counts who the best other of ours is.
func (c *summary) winners() string {
	count := map[string]int{}
	for _, o := range c.all {
		_, by := o.BestOther(o.Ours)
		count[by]++
	}
	var out []string
	for _, name := range c.names() {
		if n := count[name]; n > 0 {
			out = append(out, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(out, ", ")
}

func (c *summary) overload() {
	c.line("\n## At 1.5 times the best goodput\n\nServed in time, as a part of that goodput; \"behind\" is to the best other, in parts of the goodput.\n")
	c.line("| policy | mixes | >= 0.95 | lowest | at | more than 0.05 behind | most behind | at |\n|---|---|---|---|---|---|---|---|")
	for _, policy := range c.compared() {
		n, enough, behind := 0, 0, 0
		low, most := math.Inf(1), 0.0
		lowAt, mostAt := "-", "-"
		for _, o := range c.all {
			served, other, ok := o.Served(policy)
			if !ok {
				continue
			}
			n++
			if served >= 0.95 {
				enough++
			}
			if served < low {
				low, lowAt = served, o.Mix.Name()
			}
			if other-served > 0.05 {
				behind++
			}
			if other-served > most {
				most, mostAt = other-served, o.Mix.Name()
			}
		}
		if n > 0 {
			c.line("| `%s` | %d | %s | %.3f | %s | %d | %.3f | %s |", policy, n, percent(float64(enough)/float64(n)), low, lowAt, behind, most, mostAt)
		}
	}
}

// group is a part of the mixes.
type group struct {
	name string
	in   func(o *Outcome) bool
}

func groups() []group {
	of := func(in func(m *Mix) bool) func(o *Outcome) bool { return func(o *Outcome) bool { return in(o.Mix) } }
	per := func(low, high float64) func(o *Outcome) bool {
		return of(func(m *Mix) bool { return m.PerModel() > low && m.PerModel() <= high })
	}
	is := func(text string) func(o *Outcome) bool {
		return of(func(m *Mix) bool { return m.Kind == text || m.Arrivals == text })
	}
	return []group{
		{"at most 0.5 GPUs a model", per(0, 0.5)}, {"0.5 to 1", per(0.5, 1)}, {"1 to 2", per(1, 2)}, {"above 2", per(2, math.Inf(1))},
		{"one GPU", of(func(m *Mix) bool { return m.GPUs == 1 })}, {"one model", of(func(m *Mix) bool { return len(m.Models) == 1 })},
		{"blocking number above 1", of(func(m *Mix) bool { return m.Blocking() > 1 })},
		{oneProfile, is(oneProfile)}, {mixedProfiles, is(mixedProfiles)}, {"tables", of(func(m *Mix) bool { return m.Models[0].Table != nil })},
		{"rates that change", of(func(m *Mix) bool { return m.Change != "" })},
		{"poisson", is("poisson")}, {"uniform", is("uniform")}, {"gamma:0.3", is("gamma:0.3")}, {"gamma:0.05", is("gamma:0.05")},
		{fmt.Sprintf("rarest model below %d requests (chance)", rareRequests), (*Outcome).chancy},
	}
}

// chancy: the rarest model had too few requests for a p99, at the best goodput.
func (o *Outcome) chancy() bool {
	rarest := math.Inf(1)
	for i := range o.Mix.Models {
		rarest = min(rarest, o.Mix.Models[i].Share)
	}
	return rarest*o.Best()*o.Span.Seconds < rareRequests
}

func (c *summary) groups() {
	c.line("\n## By kind of mix\n")
	header, rule := "| mixes | n |", "|---|---|"
	for _, policy := range c.compared() {
		header += fmt.Sprintf(" `%s` >= 0.99 | lowest | median |", policy)
		rule += "---|---|---|"
	}
	c.line("%s\n%s", header, rule)
	for _, g := range groups() {
		part := slices.DeleteFunc(slices.Clone(c.all), func(o *Outcome) bool { return !g.in(o) })
		if len(part) == 0 {
			continue
		}
		row := fmt.Sprintf("| %s | %d |", g.name, len(part))
		for _, policy := range c.compared() {
			v := ratios(part, policy)
			if len(v) == 0 {
				row += " - | - | - |"
				continue
			}
			row += fmt.Sprintf(" %s | %.3f | %.3f |", percent(shareOf(v, Line)), v[0], v[len(v)/2])
		}
		c.line("%s", row)
	}
}

func (c *summary) worstOnes() {
	c.line("\n## The worst\n\nThe blocking number is the longest batch that a model may run (l(b) <= SLO/2) as a part of another model's SLO, at worst: above 1 one batch can cost another model's request everything.")
	for i, e := range c.worst {
		ratio, _ := e.o.Ratio(e.o.Ours)
		first, _ := e.o.first().Ratio(e.o.Ours)
		c.line("\n%d. **%s: %.3f** (as first measured %.3f), blocking %.2f. %s.", i+1, e.o.Mix.Name(), ratio, first, e.o.Mix.Blocking(), e.o.Mix)
		c.line("   - Goodput, r/s: %s.", e.o.goodputs())
		for _, policy := range c.compared() {
			if w, ok := e.why[policy]; ok {
				rate, _ := e.o.BestOther(policy)
				c.line("   - %s at %.4g r/s: %s.", policy, rate, w)
			}
		}
	}
}

// goodputs are those of all policies, the best first.
func (o *Outcome) goodputs() string {
	rates := o.rates()
	names := o.byRate()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rates[b], rates[a]) })
	var out []string
	for _, name := range names {
		if rate := rates[name]; rate > 0 {
			out = append(out, fmt.Sprintf("%s %.4g", name, rate))
		} else {
			out = append(out, fmt.Sprintf("%s %.4g (first measurement)", name, o.Found[name].Rate))
		}
	}
	return strings.Join(out, ", ")
}

// csv writes a row for each mix and policy.
func (c *summary) csv() error {
	f, err := os.Create(filepath.Join(c.opts.Out, "draws.csv"))
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	rows := [][]string{{"seed", "index", "models", "gpus", "gpus_per_model", "kind", "tables", "popularity", "arrivals", "change", "blocking", "span_s", "policy",
		"goodput_rps", "goodput_first_rps", "lowest_failed_first_rps", "highest_passed_first_rps", "to_best_other", "to_best_other_first", "served_at_1.5", "measured_again", "failed"}}
	for _, o := range c.all {
		m, rates := o.Mix, o.rates()
		for _, name := range c.names() {
			found, ok := o.Found[name]
			if !ok {
				continue
			}
			ratio, _ := o.Ratio(name)
			first, _ := o.first().Ratio(name)
			_, again := rates[name]
			rows = append(rows, []string{strconv.FormatUint(m.Seed, 10), strconv.Itoa(m.Index), strconv.Itoa(len(m.Models)), strconv.Itoa(m.GPUs), number(m.PerModel()), m.Kind,
				strconv.FormatBool(m.Models[0].Table != nil), m.Popularity, m.Arrivals, m.Change, number(m.Blocking()), number(o.Span.Seconds), name,
				number(rates[name]), number(found.Rate), number(found.Lowest), number(found.Highest), number(ratio), number(first), number(o.Over[name].Served), strconv.FormatBool(again && o.Again != nil), found.Failed})
		}
	}
	return errors.Join(w.WriteAll(rows), f.Close())
}

// What is beyond these lies on the end of the plot's axis.
const shownMin, shownMax = 0.5, 1.5

func (c *summary) plot() error {
	p := plot.CDF{Title: "Goodput to the best other policy's", X: plot.Axis{Label: "ratio", Min: shownMin, Max: shownMax}, Of: "mixes", VLines: []plot.Ref{{At: 1}}}
	for _, policy := range c.compared() {
		v := ratios(c.all, policy)
		for i := range v {
			v[i] = min(shownMax, max(shownMin, v[i]))
		}
		p.Series = append(p.Series, plot.Samples{Name: policy, Values: v})
	}
	return plot.Write(filepath.Join(c.opts.Out, "draws"), plot.Size{}, p)
}

// summarise prints the shares of the ratios.
func summarise(to io.Writer, all []*Outcome, ours string) error {
	for _, policy := range compared(ours) {
		values := ratios(all, policy)
		if len(values) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(to, "%s to the best other, %d mixes: at least 0.99 in %s, 0.95 in %s; lowest %.3f, median %.3f\n",
			policy, len(values), percent(shareOf(values, Line)), percent(shareOf(values, 0.95)), values[0], values[len(values)/2]); err != nil {
			return err
		}
	}
	return nil
}

// ratios of a policy, ascending.
func ratios(all []*Outcome, policy string) []float64 {
	var out []float64
	for _, o := range all {
		if v, ok := o.Ratio(policy); ok {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// shareOf the values that are at least that.
func shareOf(values []float64, least float64) float64 {
	n := 0
	for _, v := range values {
		if v >= least {
			n++
		}
	}
	return float64(n) / float64(max(1, len(values)))
}
