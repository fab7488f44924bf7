package fleet

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// small is six hours of a small cluster, with many failures.
func small(t testing.TB) Config {
	c := Config{
		GPUs: 96, Models: 200, SubClusters: 6, PerHost: 8, Memory: 80 << 30, Popularity: "zipf:0.8", Peak: 60, Length: 6 * 3600 * mono.Second, Seed: 1,
		Partition: Greedy{}, MovesMax: 6, Reserve: 2 << 30, Limits: plan.Limits{Loads: 128, Drained: 32}, Changes: 36, Failures: 24, Away: 900 * mono.Second, Restarts: 6,
		LoadFail: 0.02, LoadLost: 0.005, LoadRate: 2e9, Regular: 6, RollOuts: 12, Stretch: mono.Second, Warmup: mono.Second / 2,
	}
	for _, m := range zoo.A100() {
		p, err := profile.Linear(m.Alpha, m.Beta, 256)
		if err != nil {
			t.Fatal(err)
		}
		c.Base = append(c.Base, Base{m.Name, p, m.SLO})
	}
	return c
}

// runDay goes through a day and all of its windows.
func runDay(t testing.TB, c Config) (*Day, []Window, []WindowResult) {
	d, err := NewDay(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(nil); err != nil {
		t.Fatal(err)
	}
	windows := d.Windows()
	var out []WindowResult
	for _, w := range windows {
		r, err := d.Simulate(w)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return d, windows, out
}

func text(t testing.TB, v ...any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDay: a day full of failures loses no request to moves, serves what it should with not many
// more GPUs than the need, and everything that is to happen does.
func TestDay(t *testing.T) {
	d, windows, results := runDay(t, small(t))
	var all, rolling WindowResult
	for i, r := range results {
		if r.Arrived != r.Served+r.Late+r.Dropped {
			t.Errorf("window %d at %v: %+v: the parts are not the whole", i, windows[i].From, r)
		}
		if all.Add(r); windows[i].Epoch >= 0 && !windows[i].Still {
			rolling.Add(r)
		}
	}
	if all.Lost > 0 || all.MovedBad > 0 {
		t.Errorf("%d requests are lost, and %d late or dropped that waited when their model moved", all.Lost, all.MovedBad)
	}
	if all.Arrived < 100_000 || all.BadRate() > 0.01 {
		t.Errorf("%d requests arrived, of which %.3f %% are bad", all.Arrived, 100*all.BadRate())
	}
	if all.Moved == 0 || rolling.Routes == 0 || rolling.Drains == 0 || rolling.Seats == 0 {
		t.Errorf("in the roll-outs' windows: %+v: nothing is shown", rolling)
	}
	n := d.Totals
	if n.GPUsDied == 0 || n.Restarts != 6 || n.Catalogue != 36 || n.Failed == 0 || n.Lost == 0 || n.Measures == 0 || n.Served == 0 {
		t.Errorf("not all that is to happen does: %s", text(t, n))
	}
	for _, k := range d.Ticks {
		if float64(k.Planned) < k.Need || float64(k.Planned) > 1.6*k.Need {
			t.Errorf("at %v: %d GPUs are planned for a need of %.1f", k.At, k.Planned, k.Need)
		}
	}
	short := 0
	for _, k := range d.Ticks {
		short += k.Short
	}
	if short > len(d.Ticks)*6/100 {
		t.Errorf("%d times of %d a sub-cluster has fewer GPUs than its need", short, len(d.Ticks)*6)
	}
}

// TestSameTwice: one seed, one day; another seed, another.
func TestSameTwice(t *testing.T) {
	c := small(t)
	c.Length, c.Failures, c.Changes = 2*3600*mono.Second, 8, 12
	d, w, r := runDay(t, c)
	one := text(t, d.Totals, d.Epochs, d.Ticks, d.Log, w, r)
	if d, w, r = runDay(t, c); text(t, d.Totals, d.Epochs, d.Ticks, d.Log, w, r) != one {
		t.Error("the same seed has another day")
	}
	c.Seed++
	if d, w, r = runDay(t, c); text(t, d.Totals, d.Epochs, d.Ticks, d.Log, w, r) == one {
		t.Error("another seed has the same day")
	}
}

// TestStill: where no step is taken, there is none in the result, and the same requests arrive.
func TestStill(t *testing.T) {
	d, windows, results := runDay(t, small(t))
	for i := 1; i < len(windows); i++ {
		if w := windows[i]; w.Still {
			if r := results[i]; r.Routes+r.Drains+r.Seats+r.Died > 0 || windows[i-1].Still || windows[i-1].From != w.From {
				t.Errorf("the twin at %v: %+v", w.From, r)
			}
		}
	}
	if _, err := d.Simulate(Window{From: mono.Time(3600 * mono.Second), Epoch: -1, Subs: nil}); err != nil {
		t.Errorf("a window of nothing: %v", err)
	}
}

// TestStopped: a day can be given up.
func TestStopped(t *testing.T) {
	d, err := NewDay(small(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(func() bool { return true }); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no GPUs": func(c *Config) { c.GPUs = 0 }, "no bases": func(c *Config) { c.Base = nil }, "no partitioner": func(c *Config) { c.Partition = nil },
		"no peak": func(c *Config) { c.Peak = 0 }, "no rate of loads": func(c *Config) { c.LoadRate = 0 }, "all loads fail": func(c *Config) { c.LoadFail = 1 },
		"popularity": func(c *Config) { c.Popularity = "by guess" }, "no room": func(c *Config) { c.Memory = 4 << 30 },
	} {
		c := small(t)
		change(&c)
		if _, err := NewDay(c); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
