package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
)

// Config of a run.
type Config struct {
	Folder   string // where environments are installed and results go
	Python   string // that makes the environments
	Symphony string // the binary
	Version  string // of the binary
	Command  string // as it was given, for the record
	Systems  []string
	Cases    []Case
	Arrivals []Arrivals // the first also drives the sweep, and at all rates

	Warmup, Span           time.Duration // of a point
	SweepWarmup, SweepSpan time.Duration
	Rounds                 int // each system's points are measured so often; the median counts
	Seed                   uint64
	Quick                  bool    // two settings, one stage
	Former                 *Result // its sweep is used, if any
	Out                    io.Writer
}

// run is a run under way.
type run struct {
	cfg    Config
	result *Result
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.cfg.Out, format+"\n", args...) }

// Names are the systems that can be measured.
func Names() []string { return []string{"symphony", "triton", "ray", "bentoml"} }

func (c Config) systems() ([]system, error) {
	binary, err := filepath.Abs(c.Symphony)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(c.Folder)
	if err != nil {
		return nil, err
	}
	env := func(name string) venv { return venv{c.Python, filepath.Join(folder, name), name} }
	var out []system
	for _, name := range c.Systems {
		switch name {
		case "symphony":
			out = append(out, symphony{binary, c.Version})
		case "triton":
			out = append(out, triton{env("triton")})
		case "ray":
			out = append(out, rayServe{env("ray")})
		case "bentoml":
			out = append(out, bentoML{env("bentoml")})
		default:
			return nil, fmt.Errorf("system %q: it must be one of %s", name, strings.Join(Names(), ", "))
		}
	}
	return out, nil
}

// Run measures all systems, one after the other. It must be called on a thread that
// lives as long as the process (main's, locked): servers end with it. When ctx ends,
// what was measured by then is returned, with ctx's error.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := adopt(); err != nil {
		return nil, err
	}
	all, err := cfg.systems()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r := &run{cfg, &Result{Date: start.UTC().Format("2006-01-02 15:04 UTC"), Command: cfg.Command, Host: host(), Load: loadNow(), Seconds: cfg.Span.Seconds(), Cases: cfg.Cases}}
	for _, a := range cfg.Arrivals {
		r.result.Arrivals = append(r.result.Arrivals, a.String())
	}
	if r.result.Load > float64(runtime.NumCPU())/4 {
		r.say("The machine's load is %.1f on %d cores: the numbers will say less about the systems than about what else runs.", r.result.Load, runtime.NumCPU())
	}
	var ready []system
	for _, s := range all {
		r.say("%s: installing where it is missing", s.name())
		r.result.Systems = append(r.result.Systems, Measured{Name: s.name(), Version: s.version()})
		if err := s.install(ctx); err != nil {
			if ctx.Err() != nil {
				break
			}
			r.say("%s: %v", s.name(), err)
			r.result.miss(s.name(), "", err)
			continue
		}
		ready = append(ready, s)
	}
	for _, c := range cfg.Cases {
		r.measure(ctx, ready, c)
	}
	r.result.Took, r.result.Interrupted = time.Since(start).Seconds(), ctx.Err() != nil
	return r.result, ctx.Err()
}

// measure sweeps each system, then drives them all, round by round.
func (r *run) measure(ctx context.Context, ready []system, c Case) {
	chosen := map[string][]choice{}
	for _, s := range ready {
		if ctx.Err() != nil {
			return
		}
		choices, err := r.choices(ctx, s, c)
		if err != nil && ctx.Err() == nil {
			r.say("%s: %v", s.name(), err)
			r.result.miss(s.name(), c.Name, err)
		}
		chosen[s.name()] = choices
	}
	var points []Point
	for round := range r.cfg.Rounds {
		for _, s := range ready {
			for _, ch := range chosen[s.name()] {
				if ctx.Err() == nil {
					points = append(points, r.points(ctx, s, c, ch, uint64(round))...)
				}
			}
		}
	}
	r.result.Points = append(r.result.Points, median(points)...)
}

// choices are the settings to measure: of an earlier run's sweep, of one now, or the
// system as it comes.
func (r *run) choices(ctx context.Context, s system, c Case) ([]choice, error) {
	if len(s.stages(c)) == 0 {
		return []choice{{"", Setting{}}}, nil
	}
	if r.cfg.Former != nil {
		var trials []Trial
		for _, t := range r.cfg.Former.Sweep {
			if t.System == s.name() && t.Case == c.Name {
				trials = append(trials, t)
			}
		}
		if out := choose(trials); len(out) > 0 {
			r.result.Sweep = append(r.result.Sweep, trials...)
			return out, nil
		}
	}
	r.say("%s, %s: sweep at %s r/s, %v each", s.name(), c.Name, list(c.Sweep), r.cfg.SweepSpan)
	return r.sweep(ctx, s, c)
}

// with runs f beside a started server, which ends with it.
func (r *run) with(ctx context.Context, s system, c Case, set Setting, f func(*server) error) error {
	folder, err := emptyFolder()
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	srv, err := s.start(c, set, folder)
	if err != nil {
		return err
	}
	defer srv.proc.stop()
	if err := awake(ctx, srv, c, startMax); err != nil {
		return fmt.Errorf("does not start: %w", err)
	}
	// Its code is warmed, and BentoML learns its model's latency.
	if _, err := drive(ctx, srv.url, c, offer{r.cfg.Arrivals[0], c.Sweep[0], 0, r.cfg.SweepWarmup, 99}); err != nil {
		return err
	}
	return f(srv)
}

// drive offers a load and waits until the server has left it behind.
func (r *run) drive(ctx context.Context, srv *server, c Case, o offer) (*report.Report, error) {
	rep, err := drive(ctx, srv.url, c, o)
	if err != nil {
		return nil, err
	}
	if err := awake(ctx, srv, c, recoverMax); err != nil {
		return nil, fmt.Errorf("after %g r/s: %w", o.rate, err)
	}
	return rep, nil
}

// points drives one setting at all rates, once.
func (r *run) points(ctx context.Context, s system, c Case, ch choice, round uint64) []Point {
	var out []Point
	err := r.with(ctx, s, c, ch.setting, func(srv *server) error {
		for i, a := range r.cfg.Arrivals {
			rates := c.Rates
			if i > 0 {
				rates = c.Bursty
			}
			for _, rate := range rates {
				p := Point{Case: c.Name, System: s.name(), Choice: ch.what, Setting: ch.setting, Arrivals: a.String(), Rate: rate}
				rep, err := r.drive(ctx, srv, c, offer{a, rate, r.cfg.Warmup, r.cfg.Span, r.cfg.Seed + round})
				if err != nil {
					return err
				}
				p.fill(rep)
				r.say("%s, %s, %s %5.0f r/s: in time %6.1f r/s, bad %5.2f %%, p50 %5.1f ms, p99 %5.1f ms %s", c.Name, p.label(), p.Arrivals, rate, p.InTime, 100*p.BadRate, p.P50, p.P99, p.Note)
				out = append(out, p)
				if p.InTime < collapsed*rate {
					break // nor will it at more
				}
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		r.say("%s: %v", s.name(), err)
		r.result.miss(s.name(), c.Name, err)
	}
	return out
}

// median makes one point of those of several rounds: that with the median in time.
func median(points []Point) []Point {
	type key struct {
		system, choice, arrivals string
		rate                     float64
	}
	var order []key
	groups := map[key][]Point{}
	for _, p := range points {
		k := key{p.System, p.Choice, p.Arrivals, p.Rate}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], p)
	}
	var out []Point
	for _, k := range order {
		g := groups[k]
		slices.SortStableFunc(g, func(a, b Point) int {
			switch {
			case a.InTime < b.InTime:
				return -1
			case a.InTime > b.InTime:
				return 1
			}
			return 0
		})
		out = append(out, g[len(g)/2])
	}
	return out
}

func list(values []float64) string {
	var out []string
	for _, v := range values {
		out = append(out, number(v))
	}
	return strings.Join(out, ", ")
}

func host() string {
	return fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// loadNow is the machine's load over the last minute; -1: not known.
func loadNow() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	load := -1.0
	if err == nil {
		_, err = fmt.Sscan(string(text), &load)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return -1
	}
	return load
}
