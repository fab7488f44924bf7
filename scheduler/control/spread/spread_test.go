package spread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// cells are schedulers with their Leads, as a Spread sees them: a model that was given is served
// after a while, one that was taken is gone at once.
type cells struct {
	fatal  interface{ Fatalf(string, ...any) }
	cfg    Config
	names  []string
	spread *Spread
	now    mono.Time
	takes  mono.Dur // to load a model

	told   []bool
	gpus   []map[string]int
	given  []map[string]bool      // by name
	routed []map[string]mono.Time // by key: since when, or from when on
	kept   []map[string]bool      // names by the last plan that is stored
	wishes map[string][]Version
	needs  map[string]float64 // by key
	bytes  map[string]int64
	broken map[string]bool // "i key"
	memory map[int]int64   // of each GPU of a scheduler, where it is not 1000

	moves  int // begun
	most   int // at once
	waits  map[string]string
	warned []string
	story  []string
}

func newCells(t *testing.T, cfg Config, gpus ...map[string]int) *cells {
	c := &cells{fatal: t, cfg: cfg, takes: mono.Second, gpus: gpus, wishes: map[string][]Version{}, needs: map[string]float64{}, bytes: map[string]int64{}, broken: map[string]bool{}, memory: map[int]int64{}, waits: map[string]string{}}
	for i := range gpus {
		c.names = append(c.names, fmt.Sprintf("s%d", i))
		c.told = append(c.told, true)
		c.given = append(c.given, map[string]bool{})
		c.kept = append(c.kept, map[string]bool{})
		c.routed = append(c.routed, map[string]mono.Time{})
	}
	c.spread = New(c.now, cfg, c.names)
	return c
}

func (c *cells) Told(i int) bool { return c.told[i] }

func (c *cells) GPUs(i int) (out []GPUs) {
	for _, t := range names(c.gpus[i]) {
		out = append(out, GPUs{DeviceType: t, Count: c.gpus[i][t], Memory: c.each(i), Largest: c.each(i)})
	}
	return out
}

// each is what a GPU has.
func (c *cells) each(i int) int64 { return cmp.Or(c.memory[i], 1000) }

func (c *cells) Routed(i int, key string) bool {
	at, there := c.routed[i][key]
	return there && at <= c.now && c.told[i]
}

func (c *cells) Failed(i int, key string) string {
	if c.told[i] && c.broken[fmt.Sprint(i, key)] {
		return "broken"
	}
	if c.told[i] && c.bytes[key] > c.each(i) {
		return "too large"
	}
	return ""
}

// Size is known of what is served.
func (c *cells) Size(i int, key, _ string) int64 { return c.Load(i, key).Bytes }

func (c *cells) Load(i int, key string) Load {
	if !c.Routed(i, key) {
		return Load{}
	}
	return Load{DeviceType: c.typeOf(i, key), Need: c.needs[key], Bytes: c.bytes[key]}
}

// typeOf is where a version is served: the first type that it may be on.
func (c *cells) typeOf(i int, key string) string {
	name, _, _ := strings.Cut(key, "/")
	for _, v := range c.wishes[name] {
		for _, t := range names(c.gpus[i]) {
			if v.Key == key && v.mayBeOn(t) && c.gpus[i][t] > 0 {
				return t
			}
		}
	}
	return ""
}

// settle is what Leads do: what was given and can be served will be.
func (c *cells) settle() {
	for i := range c.names {
		if !c.told[i] {
			continue
		}
		want := map[string]bool{}
		for _, name := range names(c.given[i]) {
			for _, v := range c.wishes[name] {
				if c.typeOf(i, v.Key) != "" && c.Failed(i, v.Key) == "" {
					want[v.Key] = true
				}
			}
		}
		for _, key := range names(c.routed[i]) {
			if !want[key] {
				delete(c.routed[i], key)
			}
		}
		for _, key := range names(want) {
			if _, there := c.routed[i][key]; !there {
				c.routed[i][key] = c.now.Add(c.takes)
			}
		}
		c.kept[i] = map[string]bool{}
		for _, name := range names(c.given[i]) {
			c.kept[i][name] = true
		}
	}
}

// served are the schedulers that serve a version of a model.
func (c *cells) served(name string) (at []int) {
	for i := range c.names {
		if slices.ContainsFunc(c.wishes[name], func(v Version) bool { return c.Routed(i, v.Key) }) {
			at = append(at, i)
		}
	}
	return at
}

// carryOut does what a Spread says, and fails where it takes a model from the only one that
// serves a version of it.
func (c *cells) carryOut(out *Effects) {
	for _, g := range out.Gives {
		c.given[g.Scheduler][g.Name] = true
		c.story = append(c.story, fmt.Sprintf("%v give %s %s", mono.Dur(c.now), g.Name, c.names[g.Scheduler]))
	}
	for _, g := range out.Takes {
		c.story = append(c.story, fmt.Sprintf("%v take %s %s", mono.Dur(c.now), g.Name, c.names[g.Scheduler]))
		if !c.given[g.Scheduler][g.Name] {
			c.fatal.Fatalf("%s is taken from %s, which has it not\n%s", g.Name, c.names[g.Scheduler], strings.Join(c.story, "\n"))
		}
		before := c.served(g.Name)
		delete(c.given[g.Scheduler], g.Name)
		if _, wanted := c.wishes[g.Name]; wanted && slices.Equal(before, []int{g.Scheduler}) {
			c.fatal.Fatalf("%s is taken from %s, the only one that serves it\n%s", g.Name, c.names[g.Scheduler], strings.Join(c.story, "\n"))
		}
	}
	for _, w := range out.Waits {
		c.waits[w.Name] = w.Reason
	}
	for _, n := range out.Notes {
		if strings.Contains(n, "moves from") {
			c.moves++
		}
		c.story = append(c.story, fmt.Sprint(mono.Dur(c.now), " ", n))
	}
	for _, n := range out.Warnings {
		c.warned = append(c.warned, n)
		c.story = append(c.story, fmt.Sprint(mono.Dur(c.now), " ", n))
	}
	out.Reset()
}

// run lets time pass.
func (c *cells) run(span mono.Dur) {
	var out Effects
	step := 500 * mono.Millisecond
	if span > 300*mono.Second {
		step = 5 * mono.Second
	}
	for end := c.now.Add(span); ; {
		c.settle()
		c.spread.Step(c.now, c, &out)
		c.most = max(c.most, len(c.spread.moving))
		c.carryOut(&out)
		c.settle()
		c.check()
		if c.now >= end {
			return
		}
		c.now = min(end, c.now.Add(step))
	}
}

// check is what holds at every moment.
func (c *cells) check() {
	c.spread.survey(c)
	for _, name := range names(c.wishes) {
		at, to := c.spread.Home(name)
		var has, want []int
		for i := range c.names {
			if c.given[i][name] {
				has = append(has, i)
			}
			if i == at || i == to {
				want = append(want, i)
			}
		}
		if !slices.Equal(has, want) || at == Nowhere && to != Nowhere {
			c.fatal.Fatalf("%s is at %d and moves to %d; Leads have it: %v\n%s", name, at, to, has, strings.Join(c.story, "\n"))
		}
		if at != Nowhere || c.now < c.spread.begun.Add(c.spread.cfg.Wait) || !c.spread.waited {
			continue
		}
		for i := range c.names {
			if n, _ := c.spread.runs(i, c.spread.models[name]); c.told[i] && n > 0 {
				c.fatal.Fatalf("%s is nowhere, though %s has GPUs for it\n%s", name, c.names[i], strings.Join(c.story, "\n"))
			}
		}
	}
}

func (c *cells) want(name string, versions ...Version) {
	if len(versions) == 0 {
		versions = []Version{{Key: name + "/1"}}
	}
	c.wishes[name] = versions
	var out Effects
	c.spread.Want(c.now, name, versions, &out)
	c.carryOut(&out)
	c.spread.Stir()
}

func (c *cells) unwant(name string) {
	delete(c.wishes, name)
	var out Effects
	c.spread.Unwant(name, &out)
	c.carryOut(&out)
}

// away and back are a scheduler's link.
func (c *cells) away(i int) { c.told[i] = false; c.spread.Stir() }

func (c *cells) back(i int) {
	var keys []string
	for _, key := range names(c.routed[i]) {
		if c.routed[i][key] <= c.now {
			keys = append(keys, key)
		}
	}
	var out Effects
	c.spread.Claim(i, keys, c, &out)
	c.carryOut(&out)
	c.told[i] = true
	c.spread.Stir()
}

// restart is another controller: it knows the wishes and the last plans, and hears the
// schedulers again. order: of their plans, the oldest first; that of their numbers.
func (c *cells) restart(order ...int) {
	c.spread = New(c.now, c.cfg, c.names)
	var up []int
	for i := range c.names {
		if len(order) > 0 {
			i = order[i]
		}
		for _, name := range names(c.kept[i]) {
			c.spread.Restore(name, i)
		}
		if c.given[i] = map[string]bool{}; c.told[i] {
			up, c.told[i] = append(up, i), false
		}
	}
	for _, name := range names(c.wishes) {
		c.want(name, c.wishes[name]...)
	}
	for _, i := range up {
		c.back(i)
	}
}

func (c *cells) homes() map[string]int {
	all := map[string]int{}
	for _, name := range names(c.wishes) {
		all[name], _ = c.spread.Home(name)
	}
	return all
}

// count is how many models a scheduler has, those that move there too.
func (c *cells) count(i int) int { return len(c.given[i]) }

func (c *cells) many(n int) {
	for i := range n {
		c.want(fmt.Sprintf("m%02d", i))
	}
}

func four(t string) map[string]int { return map[string]int{t: 4} }

// Models that nobody asks anything yet are spread by their number, in proportion to the GPUs.
func TestNewModelsAreSpread(t *testing.T) {
	c := newCells(t, Config{}, map[string]int{"t": 4}, map[string]int{"t": 2})
	c.many(12)
	c.run(5 * mono.Second)
	if a, b := c.count(0), c.count(1); a != 8 || b != 4 {
		t.Errorf("%d and %d models on 4 and 2 GPUs", a, b)
	}
	if c.moves != 0 {
		t.Errorf("%d moves", c.moves)
	}
}

// The one with less need per GPU gets the next model, and one with GPUs of its type.
func TestNewModelsGoWhereThereIsRoom(t *testing.T) {
	c := newCells(t, Config{Apart: 10}, four("t"), four("t"), four("u"))
	c.many(4)
	c.run(2 * mono.Second)
	for name, i := range c.homes() {
		if i == 0 {
			c.needs[name+"/1"] = 1
		}
	}
	c.run(2 * mono.Second)
	c.want("next", Version{Key: "next/1", DeviceTypes: []string{"t"}})
	c.want("other", Version{Key: "other/1", DeviceTypes: []string{"u"}})
	c.want("none", Version{Key: "none/1", DeviceTypes: []string{"x"}})
	c.run(2 * mono.Second)
	if h := c.homes(); h["next"] != 1 || h["other"] != 2 || h["none"] != Nowhere {
		t.Errorf("%v", h)
	}
	if why := c.waits["none"]; why != "for a GPU of the types [x]; there are [t u]" {
		t.Errorf("it waits %q", why)
	}
}

// A scheduler that is away keeps its models; others go on; new ones go to those that are there.
func TestAwayKeepsItsModels(t *testing.T) {
	c := newCells(t, Config{}, four("t"), four("t"))
	c.many(10)
	c.run(20 * mono.Second)
	before := c.homes()
	c.away(0)
	c.run(3600 * mono.Second)
	c.want("new")
	c.run(mono.Second)
	if at, _ := c.spread.Home("new"); at != 1 {
		t.Errorf("the new one is at %d", at)
	}
	c.back(0)
	c.run(60 * mono.Second)
	c.unwant("new")
	if after := c.homes(); fmt.Sprint(after) != fmt.Sprint(before) || c.moves != 0 {
		t.Errorf("%v, were %v; %d moves", after, before, c.moves)
	}
}

// A controller that is started again moves nothing, also where a scheduler is late, or its last
// plan was not stored: then it says itself what it serves.
func TestRestartMovesNothing(t *testing.T) {
	c := newCells(t, Config{}, four("t"), four("t"))
	c.many(10)
	c.run(20 * mono.Second)
	before := c.homes()
	for _, lost := range []bool{false, true} {
		if lost {
			c.kept[1] = map[string]bool{}
		}
		c.away(1)
		c.restart()
		c.run(3 * mono.Second)
		c.back(1)
		c.run(120 * mono.Second)
		if after := c.homes(); fmt.Sprint(after) != fmt.Sprint(before) || c.moves != 0 {
			t.Errorf("plan lost %v: %v, were %v; %d moves\n%s", lost, after, before, c.moves, strings.Join(c.story, "\n"))
		}
	}
}

// Models of a scheduler that is not configured any more go to the others; theirs stay.
func TestGoneSchedulersModels(t *testing.T) {
	three := newCells(t, Config{}, four("t"), four("t"), four("t"))
	three.many(9)
	three.run(20 * mono.Second)
	before := three.homes()
	c := newCells(t, Config{}, four("t"), four("t"))
	c.wishes, c.kept = three.wishes, three.kept[:2]
	c.restart()
	c.run(20 * mono.Second)
	for name, at := range c.homes() {
		if at == Nowhere || before[name] < 2 && at != before[name] || !slices.Equal(c.served(name), []int{at}) {
			t.Errorf("%s is at %d, was at %d", name, at, before[name])
		}
	}
	if c.count(0)+c.count(1) != 9 || three.count(2) != 3 {
		t.Error(c.count(0), c.count(1), three.count(2))
	}
}

// Needs that are apart for long move models, few at a time; afterwards nothing moves.
func TestNeedsMoveModels(t *testing.T) {
	c := newCells(t, Config{MovesMax: 0.1}, four("t"), four("t"))
	c.many(20)
	for i := range 20 {
		c.bytes[fmt.Sprintf("m%02d/1", i)] = 100
	}
	c.run(20 * mono.Second)
	for name, i := range c.homes() {
		if i == 0 {
			c.needs[name+"/1"] = 0.3 // 3 of 4 GPUs, against none
		}
	}
	c.run(100 * mono.Second)
	if c.moves != 2 { // of 20 that are alike
		t.Errorf("%d moves in an interval of at most 0.1 of the bytes\n%s", c.moves, strings.Join(c.story, "\n"))
	}
	c.run(3600 * mono.Second)
	moves := c.moves
	if _, _, gap := c.spread.extremes("t"); gap > 0.25 || moves > 6 {
		t.Errorf("apart by %.2f after %d moves", gap, moves)
	}
	if c.run(4 * 3600 * mono.Second); c.moves != moves {
		t.Errorf("%d moves though nothing changed", c.moves-moves)
	}
}

// Needs that go up and down move nothing; nor does anything while epochs are paused.
func TestFlappingNeeds(t *testing.T) {
	c := newCells(t, Config{MovesMax: 1}, four("t"), four("t"))
	c.many(8)
	c.run(20 * mono.Second)
	homes := c.homes()
	load := func(i int) {
		for name, at := range homes {
			c.needs[name+"/1"] = 0.05
			if at == i {
				c.needs[name+"/1"] = 0.8
			}
		}
	}
	for k := range 200 {
		load(k % 2)
		c.run(15 * mono.Second)
	}
	if c.moves != 0 {
		t.Errorf("%d moves", c.moves)
	}
	c.spread.Pause(true)
	load(0)
	if c.run(3600 * mono.Second); c.moves != 0 {
		t.Errorf("%d moves while paused", c.moves)
	}
	c.spread.Pause(false)
	if c.run(60 * mono.Second); c.moves == 0 {
		t.Error("no move though needs are apart for an hour")
	}
}

// A move that fails is undone, and its model served all the time where it was.
func TestMoveThatFails(t *testing.T) {
	c := newCells(t, Config{MovesMax: 1}, four("t"), four("t"))
	c.want("a")
	c.run(20 * mono.Second)
	from, _ := c.spread.Home("a")
	c.broken[fmt.Sprint(1-from, "a/1")] = true
	var out Effects
	c.spread.Assign(c.now, "a", 1-from, c, &out)
	c.carryOut(&out)
	c.run(5 * mono.Second)
	if at, to := c.spread.Home("a"); at != from || to != Nowhere || !slices.Equal(c.served("a"), []int{from}) {
		t.Errorf("at %d, to %d, served at %v", at, to, c.served("a"))
	}
	clear(c.broken)
	c.spread.Assign(c.now, "a", 1-from, c, &out)
	c.carryOut(&out)
	c.run(2 * mono.Second)
	if got := c.served("a"); len(got) != 2 { // until frontends have heard of the new place
		t.Errorf("just arrived, and served at %v", got)
	}
	c.run(5 * mono.Second)
	if at, to := c.spread.Home("a"); at != 1-from || to != Nowhere || !slices.Equal(c.served("a"), []int{1 - from}) {
		t.Errorf("at %d, to %d, served at %v\n%s", at, to, c.served("a"), strings.Join(c.story, "\n"))
	}
}

// A scheduler that is there and has lost all its GPUs loses its models to others, after a while.
func TestStranded(t *testing.T) {
	c := newCells(t, Config{}, four("t"), four("t"))
	c.many(6)
	c.run(20 * mono.Second)
	c.gpus[0] = map[string]int{}
	c.spread.Stir()
	if c.run(100 * mono.Second); c.count(0) != 3 {
		t.Error("models move before their GPUs could be back")
	}
	c.run(60 * mono.Second)
	for name := range c.wishes {
		if !slices.Equal(c.served(name), []int{1}) {
			t.Errorf("%s is served at %v", name, c.served(name))
		}
	}
}

// Models go where there is memory for them: those that need not move stay where they are.
func TestMemory(t *testing.T) {
	c := newCells(t, Config{MovesMax: 1}, map[string]int{"t": 1}, map[string]int{"t": 4}) // of 1000 bytes each
	large := func(name string) {
		c.bytes[name+"/1"] = 600
		c.want(name, Version{Key: name + "/1", Bytes: 600})
		c.run(3 * mono.Second)
	}
	for _, name := range []string{"k", "l", "m", "n", "o"} {
		large(name)
	}
	if c.count(0) != 1 || c.count(1) != 4 {
		t.Fatalf("%v", c.homes())
	}
	for name, at := range c.homes() { // 4 of 4 GPUs, against nothing: but there is no room
		if at == 1 {
			c.needs[name+"/1"] = 1
		}
	}
	if c.run(900 * mono.Second); c.moves != 0 {
		t.Errorf("%d moves to where there is no memory\n%s", c.moves, strings.Join(c.story, "\n"))
	}
	c.gpus[1] = map[string]int{}
	c.spread.Stir()
	if c.run(900 * mono.Second); c.moves != 0 {
		t.Errorf("%d models leave for where there is no memory", c.moves)
	}
	c.gpus[0] = map[string]int{"t": 2}
	c.spread.Stir()
	if c.run(900 * mono.Second); c.moves != 2 || c.count(0) != 3 {
		t.Errorf("%d models move, of which 2 have room", c.moves)
	}
}

// assign is people's plan.
func (c *cells) assign(name string, i int) {
	var out Effects
	c.spread.Assign(c.now, name, i, c, &out)
	c.carryOut(&out)
}

// A look at 10,000 models over 8 schedulers, which is made each 5 s.
func BenchmarkLook(b *testing.B) {
	var gpus []map[string]int
	for range 8 {
		gpus = append(gpus, map[string]int{"t": 500})
	}
	c := &cells{gpus: gpus, wishes: map[string][]Version{}, needs: map[string]float64{}, bytes: map[string]int64{}, broken: map[string]bool{}, waits: map[string]string{}}
	for i := range gpus {
		c.names, c.told, c.routed = append(c.names, fmt.Sprint("s", i)), append(c.told, true), append(c.routed, map[string]mono.Time{})
	}
	c.spread = New(0, Config{}, c.names)
	var out Effects
	for i := range 10_000 {
		name := fmt.Sprintf("m%05d", i)
		c.wishes[name] = []Version{{Key: name + "/1"}}
		c.routed[i%8][name+"/1"] = 0
		c.needs[name+"/1"] = 0.1
		c.spread.Restore(name, i%8)
		c.spread.Want(0, name, c.wishes[name], &out)
	}
	for b.Loop() {
		c.now = c.now.Add(lookEvery)
		c.spread.Step(c.now, c, &out)
		out.Reset()
	}
}
