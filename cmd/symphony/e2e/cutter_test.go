package e2e

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"time"
)

var (
	cutsSeed = flag.Uint64("cuts.seed", 0, "repeats a run of random cuts of networks (0: another one each time)")
	cutsSpan = flag.Duration("cuts.span", 10*time.Minute, "of random cuts, in the full run")
)

// cutter drops packets between hosts of a lab, on their bridge: each way by itself. What is dropped is
// IP; neighbours go on to know each other's addresses, as beyond a router.
type cutter struct {
	lab *lab
	now map[way]int // how many cuts there are of it
}

// way is one of the two between a pair of hosts.
type way struct{ from, to string } // addresses

// cut is what is taken away: what hosts of one side send to those of the other.
type cut struct {
	what  string
	a, b  []*space
	both  bool // b's to a's, too
	after time.Duration
	span  time.Duration
}

func (c cut) String() string {
	arrow := "->"
	if c.both {
		arrow = "<->"
	}
	return fmt.Sprintf("%s: %s %s %s from %v for %v", c.what, hostNames(c.a), arrow, hostNames(c.b), c.after.Round(time.Millisecond), c.span.Round(time.Millisecond))
}

func hostNames(all []*space) string {
	var out []string
	for _, s := range all {
		out = append(out, s.name)
	}
	return strings.Join(out, ",")
}

// newCutter needs nftables on bridges.
func newCutter(l *lab) *cutter {
	l.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		l.lacks("there is no nft (nftables), which cuts networks")
	}
	c := &cutter{lab: l, now: map[way]int{}}
	if out, err := c.nft("table bridge cuts {\n set ways { type ipv4_addr . ipv4_addr; }\n chain f { type filter hook forward priority 0; ip saddr . ip daddr @ways drop; }\n}\n"); err != nil {
		l.lacks(fmt.Sprintf("no filter on a bridge: %v: %s", err, out))
	}
	return c
}

func (c *cutter) nft(rules string) (string, error) {
	cmd := exec.Command("ip", "netns", "exec", c.lab.prefix+"lan", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// set makes the cuts those that are given, and heals what was cut else: all at once.
func (c *cutter) set(cuts []cut) {
	c.lab.t.Helper()
	rules := "flush set bridge cuts ways\n"
	for _, k := range cuts {
		for _, a := range k.a {
			for _, b := range k.b {
				rules += fmt.Sprintf("add element bridge cuts ways { %s . %s }\n", a.ip, b.ip)
				if k.both {
					rules += fmt.Sprintf("add element bridge cuts ways { %s . %s }\n", b.ip, a.ip)
				}
			}
		}
	}
	if out, err := c.nft(rules); err != nil {
		c.lab.t.Fatalf("nft: %v: %s", err, out)
	}
}

// burst carries cuts out, and returns when the last was healed: just before.
func (c *cutter) burst(cuts []cut) (healed time.Time) {
	c.lab.t.Helper()
	var edges []time.Duration
	for _, k := range cuts {
		edges = append(edges, k.after, k.after+k.span)
	}
	slices.Sort(edges)
	began := time.Now()
	for _, edge := range edges {
		time.Sleep(time.Until(began.Add(edge)))
		var open []cut
		for _, k := range cuts {
			if k.after <= edge && edge < k.after+k.span {
				open = append(open, k)
			}
		}
		c.set(open)
		healed = time.Now()
	}
	return healed
}

// cutSeed is the flag's, or another one each time.
func cutSeed() uint64 {
	if *cutsSeed != 0 {
		return *cutsSeed
	}
	return 1 + rand.Uint64()%1e6
}

// kinds of cuts: of a pair of hosts, and of pairs of groups.
const cutKinds = 9

// draw chooses a cut of a kind. Spans are even on a logarithmic scale.
func (s *spread) draw(rng *rand.Rand, kind, leader int, shortest, longest time.Duration) cut {
	lead := s.schedulers[leader : leader+1]
	rest := slices.Delete(slices.Clone(s.schedulers), leader, leader+1)
	front := []*space{s.frontend}
	one := func(of []*space) []*space { i := rng.IntN(len(of)); return of[i : i+1] }
	without := func(x *space) []*space {
		return slices.DeleteFunc(s.hosts(), func(o *space) bool { return o == x })
	}
	var c cut
	switch kind {
	case 0:
		a := one(s.hosts())
		c = cut{what: "a pair", a: a, b: one(without(a[0]))}
	case 1:
		c = cut{what: "leader | spares", a: lead, b: rest}
	case 2:
		c = cut{what: "leader | all", a: lead, b: without(lead[0])}
	case 3:
		c = cut{what: "leader | backends", a: lead, b: s.backends}
	case 4:
		c = cut{what: "schedulers | backends", a: s.schedulers, b: s.backends}
	case 5:
		c = cut{what: "frontend | schedulers", a: front, b: s.schedulers}
	case 6:
		c = cut{what: "frontend | backends", a: front, b: s.backends}
	case 7:
		b := one(s.backends)
		c = cut{what: "a backend | schedulers", a: b, b: s.schedulers}
	default:
		all := s.hosts()
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		n := 1 + rng.IntN(len(all)-1)
		c = cut{what: "two halves", a: all[:n], b: all[n:]}
	}
	if c.both = rng.IntN(2) == 0; !c.both && rng.IntN(2) == 0 {
		c.a, c.b = c.b, c.a
	}
	c.span = time.Duration(float64(shortest) * math.Pow(float64(longest)/float64(shortest), rng.Float64()))
	return c
}
