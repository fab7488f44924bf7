package spread

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// cards are schedulers with GPUs of so many bytes each: many small ones that have nothing to do, and
// few large ones that have.
func cards(t *testing.T, gpus ...map[string]int) *cells {
	c := newCells(t, Config{Apart: 10}, gpus...)
	last := len(gpus) - 1
	c.memory[last-1], c.memory[last] = 16, 80
	c.spread.Restore("busy", last)
	c.needs["busy/1"], c.bytes["busy/1"] = 1, 8
	c.want("busy")
	c.run(20 * mono.Second)
	return c
}

// A model goes where one GPU is large enough for it, not where all together are.
func TestLargeModelsGoWhereOneGPUIsLargeEnough(t *testing.T) {
	c := cards(t, map[string]int{"t": 8}, map[string]int{"t": 2})
	c.bytes["large/1"] = 40
	c.want("small")
	c.want("large", Version{Key: "large/1", Bytes: 40})
	c.run(5 * mono.Second)
	if h := c.homes(); h["small"] != 0 || h["large"] != 1 || c.moves != 0 {
		t.Errorf("%v, %d moves", h, c.moves)
	}
}

// Models that are where no GPU is large enough go where one is: if that is known at once, else, since
// they have failed, one after the other. One that fails everywhere is tried once elsewhere, and stays.
func TestUnableModelsMove(t *testing.T) {
	for _, told := range []int64{40, 0} {
		c := cards(t, map[string]int{"t": 8}, map[string]int{"t": 2})
		for _, name := range []string{"large", "larger"} {
			c.bytes[name+"/1"] = 40
			c.spread.Restore(name, 0)
			c.want(name, Version{Key: name + "/1", Bytes: told})
		}
		c.run(60 * mono.Second)
		if c.moves != 0 {
			t.Errorf("size %d: it moves at once", told)
		}
		if c.run(120 * mono.Second); !slices.Equal(c.served("large"), []int{1}) || !slices.Equal(c.served("larger"), []int{1}) || c.moves != 2 {
			t.Errorf("size %d: served at %v and %v after %d moves\n%s", told, c.served("large"), c.served("larger"), c.moves, strings.Join(c.story, "\n"))
		}
		if known := told > 0; known != (c.most == 2) {
			t.Errorf("size %d: %d move at once", told, c.most)
		}
	}
	c := newCells(t, Config{}, four("t"), four("t"))
	for i, name := range []string{"bad", "worse", "bad", "worse"} {
		c.broken[fmt.Sprint(i/2, name+"/1")] = true
	}
	c.want("bad")
	c.want("worse")
	c.run(5 * mono.Second)
	before := c.homes()
	c.run(1800 * mono.Second)
	if h := c.homes(); c.moves != 2 || len(c.spread.moving) > 0 || fmt.Sprint(h) != fmt.Sprint(before) {
		t.Errorf("%d moves, at %v\n%s", c.moves, h, strings.Join(c.story, "\n"))
	}
}

// Where a model could not be served it is not sent again while there is another place.
func TestFailedMovesGoElsewhere(t *testing.T) {
	c := cards(t, map[string]int{"t": 1}, map[string]int{"t": 8}, map[string]int{"t": 2})
	c.bytes["large/1"] = 40 // nobody says so
	c.spread.Restore("large", 0)
	c.want("large")
	c.run(5 * mono.Second)
	c.gpus[0] = map[string]int{}
	c.spread.Stir()
	if c.run(1200 * mono.Second); !slices.Equal(c.served("large"), []int{2}) || c.moves != 2 {
		t.Errorf("served at %v after %d moves\n%s", c.served("large"), c.moves, strings.Join(c.story, "\n"))
	}
}

// In a small catalogue each model has more bytes than an interval may move: one moves nevertheless.
func TestSmallCatalogue(t *testing.T) {
	c := newCells(t, Config{}, map[string]int{"t": 2}, map[string]int{"t": 2})
	for i, name := range []string{"k", "l", "m", "n"} {
		c.spread.Restore(name, 0)
		c.bytes[name+"/1"], c.needs[name+"/1"] = 100, []float64{0.4, 0.4, 0.4, 0.3}[i]
		c.want(name)
	}
	if c.run(200 * mono.Second); c.moves != 1 {
		t.Errorf("%d moves in an interval\n%s", c.moves, strings.Join(c.story, "\n"))
	}
	c.run(3600 * mono.Second)
	if _, _, gap := c.spread.extremes("t"); gap > 0.1 || c.moves != 2 {
		t.Errorf("apart by %.2f after %d moves\n%s", gap, c.moves, strings.Join(c.story, "\n"))
	}
}

// A move that is under way when the controller is started again goes on the way it went, in
// whichever order the schedulers are configured, and whoever is late.
func TestRestartKeepsTheDirection(t *testing.T) {
	for late := -1; late < 2; late++ {
		c := newCells(t, Config{}, four("t"), four("t"))
		c.want("a")
		c.run(20 * mono.Second)
		for range 2 { // there, and back
			from, _ := c.spread.Home("a")
			c.takes = 200 * mono.Second
			c.assign("a", 1-from)
			c.run(5 * mono.Second)
			if late >= 0 {
				c.away(late)
			}
			c.restart()
			c.run(70 * mono.Second)
			if late >= 0 {
				c.back(late)
			}
			c.run(250 * mono.Second)
			if at, to := c.spread.Home("a"); at != 1-from || to != Nowhere || !slices.Equal(c.served("a"), []int{at}) {
				t.Errorf("%d late: at %d, to %d, served at %v, was to go to %d\n%s", late, at, to, c.served("a"), 1-from, strings.Join(c.story, "\n"))
			}
		}
	}
	// Both serve it: it goes where the newer plan has it.
	c := newCells(t, Config{}, four("t"), four("t"))
	c.want("a")
	c.run(20 * mono.Second)
	for range 2 {
		from, _ := c.spread.Home("a")
		c.assign("a", 1-from)
		if c.run(1500 * mono.Millisecond); len(c.served("a")) != 2 {
			t.Fatalf("served at %v", c.served("a"))
		}
		c.restart(from, 1-from)
		c.run(20 * mono.Second)
		if at, to := c.spread.Home("a"); at != 1-from || to != Nowhere {
			t.Errorf("at %d, to %d, was to go to %d\n%s", at, to, 1-from, strings.Join(c.story, "\n"))
		}
	}
}

// What people's plan moves may take long to load, and is tried again where it fails, as long as the
// plan holds; where it is given up, a warning says so.
func TestPeoplesMoves(t *testing.T) {
	c := newCells(t, Config{}, four("t"), four("t"))
	c.want("a")
	c.run(20 * mono.Second)
	from, _ := c.spread.Home("a")
	c.spread.Pause(true)
	c.takes = 2400 * mono.Second
	c.assign("a", 1-from)
	c.run(2000 * mono.Second)
	if at, to := c.spread.Home("a"); at != from || to != 1-from || len(c.warned) > 0 {
		t.Fatalf("at %d, to %d while it loads; %v", at, to, c.warned)
	}
	if c.run(600 * mono.Second); !slices.Equal(c.served("a"), []int{1 - from}) {
		t.Errorf("loaded, and served at %v", c.served("a"))
	}

	c.takes = mono.Second // back: it fails for a while
	key := fmt.Sprint(from, "a/1")
	c.broken[key] = true
	c.assign("a", from)
	if c.run(500 * mono.Second); len(c.warned) != 1 || !strings.Contains(c.warned[0], "broken") {
		t.Errorf("%q", c.warned)
	}
	delete(c.broken, key)
	if c.run(20 * mono.Second); !slices.Equal(c.served("a"), []int{from}) {
		t.Errorf("mended, and served at %v\n%s", c.served("a"), strings.Join(c.story, "\n"))
	}

	key = fmt.Sprint(1-from, "a/1") // and for ever
	c.broken[key] = true
	c.assign("a", 1-from)
	c.run(800 * mono.Second)
	if at, to := c.spread.Home("a"); at != from || to != Nowhere || len(c.warned) != 3 || !strings.Contains(c.warned[2], "stays at") {
		t.Errorf("at %d, to %d; %q", at, to, c.warned)
	}

	clear(c.broken) // it loads for ever: until people let the epochs go on
	c.takes = 100_000 * mono.Second
	c.assign("a", 1-from)
	c.run(2000 * mono.Second)
	c.spread.Pause(false)
	if _, to := c.spread.Home("a"); to != 1-from {
		t.Error("it was given up while people's plan held")
	}
	c.run(800 * mono.Second)
	if at, to := c.spread.Home("a"); at != from || to != Nowhere || len(c.warned) != 4 {
		t.Errorf("at %d, to %d; %q", at, to, c.warned)
	}
}
