package spread

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Whatever comes and goes, a model is at one scheduler or moves between two, is never taken from
// the only one that serves it (cells.carryOut, cells.check), and once it is quiet all is
// served at one place each and nothing moves any more.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := Config{MovesMax: rapid.SampledFrom([]float64{0.05, 0.5, 1}).Draw(r, "moves")}
		full := []map[string]int{{"t": 2}, {"t": 1, "u": 1}, {"u": 3}}[:rapid.IntRange(2, 3).Draw(r, "schedulers")]
		gpus := make([]map[string]int, len(full))
		copy(gpus, full)
		c := newCells(t, cfg, gpus...)
		c.fatal = r
		c.takes = mono.Dur(rapid.IntRange(0, 40).Draw(r, "load")) * mono.Second
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			event(r, c, full)
			c.run(mono.Dur(rapid.SampledFrom([]int{0, 1, 5, 60, 400}).Draw(r, "s")) * mono.Second)
		}
		mend(c, full)
		c.run(3 * 3600 * mono.Second)
		moves := c.moves
		c.run(3600 * mono.Second)
		if c.moves != moves {
			r.Fatalf("%d moves though all is quiet\n%s", c.moves-moves, strings.Join(c.story, "\n"))
		}
		for _, name := range names(c.wishes) {
			at, to := c.spread.Home(name)
			if n, _ := c.spread.runs(max(0, at), c.spread.models[name]); at == Nowhere || to != Nowhere || n == 0 || !slices.Equal(c.served(name), []int{at}) {
				r.Fatalf("%s: at %d, moves to %d, served at %v\n%s", name, at, to, c.served(name), strings.Join(c.story, "\n"))
			}
		}
	})
}

func event(r *rapid.T, c *cells, full []map[string]int) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(r, "name")
	i := rapid.IntRange(0, len(c.names)-1).Draw(r, "scheduler")
	switch rapid.IntRange(0, 9).Draw(r, "what") {
	case 0, 1:
		var versions []Version
		types := rapid.SampledFrom([][]string{nil, {"t"}, {"u"}, {"u", "t"}}).Draw(r, "types")
		for v := range rapid.IntRange(1, 2).Draw(r, "versions") {
			versions = append(versions, Version{Key: fmt.Sprintf("%s/%d", name, v+1), DeviceTypes: types, Bytes: 10})
		}
		c.want(name, versions...)
	case 2:
		c.unwant(name)
	case 3:
		if c.told[i] {
			c.away(i)
		} else {
			c.back(i)
		}
	case 4:
		if len(c.gpus[i]) == 0 {
			c.gpus[i] = full[i]
		} else {
			c.gpus[i] = map[string]int{}
		}
		c.spread.Stir()
	case 5:
		c.needs[name+"/1"] = rapid.Float64Range(0, 3).Draw(r, "need")
		c.bytes[name+"/1"] = 100
	case 6:
		c.restart()
	case 7:
		c.spread.Pause(rapid.Bool().Draw(r, "paused"))
	case 8:
		key := fmt.Sprint(i, name+"/1")
		c.broken[key] = !c.broken[key]
	case 9:
		var out Effects
		c.spread.Assign(c.now, name, i, c, &out)
		c.carryOut(&out)
	}
}

// mend ends all that is wrong.
func mend(c *cells, full []map[string]int) {
	clear(c.broken)
	c.spread.Pause(false)
	for i := range c.names {
		c.gpus[i] = full[i]
		if !c.told[i] {
			c.back(i)
		}
	}
	c.spread.Stir()
}
