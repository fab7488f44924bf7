package bench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/overhead"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A short run over both kinds of links has a rate, all stages and all files. The rate is
// searched over one of them, and given for the other.
func TestBenchOverhead(t *testing.T) {
	c := overheadCmd{Links: "both", Models: 2, GPUs: 8, Batch: 8, Bytes: 64, SLO: 200 * 1e6, Duration: 200 * 1e6, Seed: 1}
	var told []string
	cfg := overhead.Config{Duration: 200 * mono.Millisecond, Payload: 64, Seed: 1, Loads: []int{10, 90}, Ways: c.ways()[:1],
		Progress: func(text string) { told = append(told, text) }}
	r, err := overhead.Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rate, cfg.Ways = 1000, c.ways()[1:]
	given, err := overhead.Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Ways = append(r.Ways, given.Ways...)
	if len(r.Ways) != 2 || len(told) < 5 || r.Floor.Hops.Samples == 0 || r.Floor.HTTP.Samples == 0 {
		t.Fatalf("%d ways, told %q, floors %+v", len(r.Ways), told, r.Floor)
	}
	for _, w := range r.Ways {
		if w.Highest == 0 {
			t.Logf("%s: no rate was borne on this machine now", w.Name)
			continue
		}
		for _, l := range w.Loads {
			for _, s := range l.Stages {
				if s.Samples == 0 {
					t.Errorf("%s at %d %%: no sample of %s", w.Name, l.Percent, s.Stage)
				}
			}
		}
	}
	dir := t.TempDir()
	if err := (&overheadReport{Result: r}).write(dir, "o"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"o.txt", "o.json", "o.svg", "o.png"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

// A load of which nothing was measured has no row, and certainly not that of the load before.
func TestBenchOverheadEmptyLoad(t *testing.T) {
	c := overheadCmd{Links: "inproc", Models: 1, GPUs: 2, Batch: 4, Bytes: 64, SLO: 100 * 1e6}
	r, err := overhead.Measure(t.Context(), overhead.Config{Duration: 200 * mono.Millisecond, Payload: 64, Seed: 1, Rate: 300, Loads: []int{100, 1}, Ways: c.ways()})
	if err != nil {
		t.Fatal(err)
	}
	w := &r.Ways[0]
	if len(w.Loads) == 0 || w.Loads[0].Percent != 100 || w.Loads[0].Stages[0].Samples == 0 || w.Loads[0].Floor.Hops.Samples == 0 {
		t.Fatalf("%+v", w)
	}
	for _, l := range w.Loads[1:] { // three requests a second: one may have come
		if n := l.Stages[0].Samples; n > 5 {
			t.Errorf("%d %%: %d samples", l.Percent, n)
		}
	}
}

// Ctrl-C before anything was measured says so, and leaves the files of an earlier run alone.
func TestBenchOverheadInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := overhead.Measure(ctx, overhead.Config{Duration: mono.Second, Payload: 64, Loads: []int{10}, Ways: overheadCmd{Links: "both"}.ways()}); !errors.Is(err, overhead.ErrNothing) {
		t.Error(err)
	}
}

// Ctrl-C between loads keeps those that were measured.
func TestBenchOverheadInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := overheadCmd{Links: "both", Models: 1, GPUs: 2, Batch: 4, Bytes: 64, SLO: 100 * 1e6}
	r, err := overhead.Measure(ctx, overhead.Config{Duration: 200 * mono.Millisecond, Payload: 64, Seed: 1, Rate: 1000, Loads: []int{100, 50}, Ways: c.ways(),
		Progress: func(text string) {
			if strings.Contains(text, "floors at 50 %") {
				cancel()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || len(r.Ways) != 1 || len(r.Ways[0].Loads) != 1 || r.Ways[0].Loads[0].Percent != 100 {
		t.Fatalf("%+v", r)
	}
	var out bytes.Buffer
	if (&overheadReport{Result: r}).print(&out); strings.Count(out.String(), "INTERRUPTED") != 1 {
		t.Error(out.String())
	}
	if err := (&overheadReport{Result: r}).write(t.TempDir(), "o"); err != nil {
		t.Error(err)
	}
}

func TestBenchOverheadRefuses(t *testing.T) {
	good := overheadCmd{Links: "tcp", Models: 1, GPUs: 1, Batch: 1, Bytes: 64, SLO: 25e6, Duration: 1e9, Name: "o", Loads: []int{10}}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for flag, spoil := range map[string]func(*overheadCmd){
		"--models": func(c *overheadCmd) { c.Models = 0 }, "--gpus": func(c *overheadCmd) { c.GPUs = 5000 },
		"--batch": func(c *overheadCmd) { c.Batch = 1025 }, "--bytes": func(c *overheadCmd) { c.Bytes = 63 },
		"--slo": func(c *overheadCmd) { c.SLO = 1e6 }, "--duration": func(c *overheadCmd) { c.Duration = 0 },
		"--rate": func(c *overheadCmd) { c.Rate = math.NaN() }, "--rate: 0.5": func(c *overheadCmd) { c.Rate = 0.5 },
		"--rate: -1": func(c *overheadCmd) { c.Rate = -1 }, "--loads: 0": func(c *overheadCmd) { c.Loads = []int{10, 0} },
		"--loads: 101": func(c *overheadCmd) { c.Loads = []int{101} }, "--loads: must": func(c *overheadCmd) { c.Loads = nil },
		"--duration: 1ns": func(c *overheadCmd) { c.Duration = 1 },
		"--name":          func(c *overheadCmd) { c.Name = "a/b" },
	} {
		c := good
		spoil(&c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
