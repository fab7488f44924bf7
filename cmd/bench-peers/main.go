// Command bench-peers measures Symphony beside Triton, Ray Serve and BentoML on this
// machine; see bench/peers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/symphony-serving/symphony/bench/peers"
)

type cli struct {
	Systems     []string      `help:"What is measured." default:"symphony,triton,ray,bentoml"`
	Cases       []string      `help:"one: one model on one device; four: four models that share one." default:"one,four"`
	Arrivals    []string      `help:"Arrival processes; the first one drives the sweep." default:"poisson,gamma:0.2"`
	Rates       []float64     `help:"Offered requests/s, in place of each case's own."`
	Span        time.Duration `help:"Counted span of each point." default:"8s"`
	Warmup      time.Duration `help:"Span before it that is not counted." default:"2s"`
	SweepSpan   time.Duration `help:"Counted span of each of the sweep's points." default:"2500ms"`
	SweepWarmup time.Duration `help:"Span before it that is not counted." default:"1s"`
	SweepFrom   string        `help:"Take the sweep out of an earlier run's results.json." placeholder:"FILE"`
	Rounds      int           `help:"Measure everything so often; the round with the median in time counts." default:"1"`
	Seed        uint64        `help:"Seed of the arrivals." default:"1"`
	Quick       bool          `help:"A smoke test: few rates, short spans, two settings of each peer. Its numbers say nothing."`
	Out         string        `help:"Where environments are installed; results go into its folder results." default:"build/peers"`
	Keep        string        `help:"Write the results also into this folder, and the tables into its README.md." placeholder:"DIR"`
	Python      string        `help:"Makes the Python environments: 3.11 is what the versions are pinned for." default:"python3"`
	Symphony    string        `help:"The binary." default:"bin/symphony"`
	Limit       time.Duration `help:"The whole run ends after this." default:"3h"`
}

func main() {
	runtime.LockOSThread() // servers end with the thread that started them: this one
	var c cli
	kong.Parse(&c, kong.Name("bench-peers"), kong.Description("Symphony beside Triton, Ray Serve and BentoML, on this machine. Ctrl-C ends all servers and writes what was measured by then."))
	if err := c.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

func (c cli) run() error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Limit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, ended := peers.Run(ctx, cfg)
	if result == nil {
		return ended
	}
	fmt.Println("\n" + result.Markdown())
	folder := filepath.Join(c.Out, "results")
	err = result.Write(folder)
	fmt.Println("written to", folder)
	if c.Keep != "" && ended == nil && err == nil {
		err = result.Keep(c.Keep)
		fmt.Println("kept in", c.Keep)
	}
	return errors.Join(ended, err)
}

func (c cli) config() (peers.Config, error) {
	if c.Quick {
		c.Span, c.Warmup, c.SweepSpan, c.SweepWarmup = 2*time.Second, time.Second, time.Second, time.Second
	}
	cfg := peers.Config{Folder: c.Out, Python: c.Python, Symphony: c.Symphony, Command: strings.Join(os.Args, " "), Systems: c.Systems, Warmup: c.Warmup, Span: c.Span,
		SweepWarmup: c.SweepWarmup, SweepSpan: c.SweepSpan, Rounds: c.Rounds, Seed: c.Seed, Quick: c.Quick, Out: os.Stdout}
	if out, err := exec.Command(c.Symphony, "--version").Output(); err == nil {
		cfg.Version = strings.TrimSpace(string(out))
	}
	for _, a := range c.Arrivals {
		arrivals, err := peers.ParseArrivals(a)
		if err != nil {
			return cfg, err
		}
		cfg.Arrivals = append(cfg.Arrivals, arrivals)
	}
	var err error
	if cfg.Cases, err = c.cases(); err != nil {
		return cfg, err
	}
	if c.SweepFrom == "" {
		return cfg, nil
	}
	f, err := os.Open(c.SweepFrom)
	if err != nil {
		return cfg, err
	}
	defer f.Close()
	cfg.Former, err = peers.ReadResult(f)
	return cfg, err
}

func (c cli) cases() ([]peers.Case, error) {
	var out []peers.Case
	for _, name := range c.Cases {
		found := false
		for _, k := range peers.Cases() {
			if k.Name != name {
				continue
			}
			found = true
			if c.Quick {
				k.Rates, k.Bursty, k.Sweep = []float64{k.Rates[0], k.Rates[2]}, k.Rates[:1], []float64{k.Rates[0], k.Rates[2]}
			}
			if len(c.Rates) > 0 {
				k.Rates, k.Bursty = c.Rates, c.Rates
			}
			out = append(out, k)
		}
		if !found {
			return nil, fmt.Errorf("case %q: it must be one or four", name)
		}
	}
	return out, nil
}
