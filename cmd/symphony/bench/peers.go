package bench

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

	"github.com/symphony-serving/symphony/bench/peers"
)

type peersCmd struct {
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
	Symphony    string        `help:"The binary that serves; this one if not given." placeholder:"FILE"`
	Limit       time.Duration `help:"The whole run ends after this." default:"3h"`
}

// Help is shown by --help.
func (peersCmd) Help() string {
	return "Installs the others into Python environments of their own, starts one server at a time on loopback, each before the same emulated device, sweeps the settings of the others, and offers all of them the same requests. It takes about an hour. Ctrl-C ends all servers and writes what was measured by then. Exit status 1 if interrupted. More: bench/peers/README.md."
}

// Run measures. Its goroutine keeps its thread: servers end with the thread that
// started them. Further Ctrl-C change nothing: what Ray detaches would outlive us.
func (c peersCmd) Run() error {
	runtime.LockOSThread()
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

// check refuses what cannot be measured.
func (c peersCmd) check() error {
	if err := checkInts(intFlag{"rounds", c.Rounds, 1, 100}); err != nil {
		return err
	}
	for _, rate := range c.Rates {
		if err := checkBounds(bounded[float64]{"rates", rate, 0.1, 1e6}); err != nil {
			return err
		}
	}
	const least, most = 100 * time.Millisecond, time.Hour
	return checkBounds(bounded[time.Duration]{"span", c.Span, least, most}, bounded[time.Duration]{"warmup", c.Warmup, 0, most},
		bounded[time.Duration]{"sweep-span", c.SweepSpan, least, most}, bounded[time.Duration]{"sweep-warmup", c.SweepWarmup, 0, most},
		bounded[time.Duration]{"limit", c.Limit, time.Minute, 7 * 24 * time.Hour})
}

func (c peersCmd) config() (peers.Config, error) {
	if err := c.check(); err != nil {
		return peers.Config{}, err
	}
	if c.Quick {
		c.Span, c.Warmup, c.SweepSpan, c.SweepWarmup = 2*time.Second, time.Second, time.Second, time.Second
	}
	if c.Symphony == "" {
		self, err := os.Executable()
		if err != nil {
			return peers.Config{}, err
		}
		c.Symphony = self
	}
	cfg := peers.Config{Folder: c.Out, Python: c.Python, Symphony: c.Symphony, Command: strings.Join(append([]string{"symphony"}, os.Args[1:]...), " "), Systems: c.Systems, Warmup: c.Warmup, Span: c.Span,
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

func (c peersCmd) cases() ([]peers.Case, error) {
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
