package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/symphony-serving/symphony/bench/netbench"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport/mono"
)

type netCmd struct {
	Servers  int           `help:"Server processes that the client READs from." default:"8"`
	Objects  int           `help:"Objects of each server." default:"8"`
	Size     int           `help:"Bytes of each object." default:"150000"`
	Duration time.Duration `help:"Span of the incast, for each transport; the rest of the run takes about as long again." default:"10s"`
	Rounds   int           `help:"So many rounds of each transport instead. 10,000 are needed for the 99.99th percentile of rounds." placeholder:"N"`
	Device   string        `help:"RDMA device; the first usable one if not given (symphony rdma list)." placeholder:"NAME"`
	Poll     string        `help:"How the device's completions are awaited: adaptive, busy, event." default:"adaptive" enum:"adaptive,busy,event"`
	TCPOnly  bool          `name:"tcp-only" help:"Leave RDMA out."`
	Out      string        `help:"Folder for NAME.txt, NAME.json and the plots NAME.svg/.png and NAME-latency.svg/.png." type:"path" placeholder:"FOLDER"`
	Name     string        `help:"Start of the files' names; the RDMA device's, or tcp, if not given."`
	Quiet    bool          `help:"No progress."`
	Serve    int           `hidden:"" default:"-1"` // be server N of a run: the client starts its servers so
}

// Help is shown by --help.
func (netCmd) Help() string {
	return "An incast as in the paper's Appendix B: a client READs all objects of all servers at once, round after round, over RDMA and TCP by turns; then messages of several sizes. Servers are processes of their own on this host. Ctrl-C ends the run and prints what was measured by then. Exit status 1 if interrupted."
}

// Run measures, or serves who measures.
func (c netCmd) Run() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Serve >= 0 {
		return c.serve()
	}
	if c.Out != "" {
		if err := tryFolder(c.Out); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	runtime.GOMAXPROCS(max(2, cli.Processors()))
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	w, err := c.openWays()
	if err != nil {
		return err
	}
	r, err := c.measure(ctx, w)
	if err = errors.Join(err, w.close()); err != nil {
		return err
	}
	rep := c.report(w, r)
	out := &cli.Checked{To: os.Stdout}
	rep.print(out)
	if c.Out != "" {
		if err := rep.write(c.Out, c.fileName(w)); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if out.Err == nil && r.Interrupted {
		return cli.Told(os.Stdout, "interrupted: the report has what was measured by then")
	}
	return out.Err
}

// serversMost bounds the processes that one command starts.
const serversMost = 256

func (c netCmd) check() error {
	if err := checkInts(intFlag{"servers", c.Servers, 1, serversMost}, intFlag{"objects", c.Objects, 1, 4096}, intFlag{"size", c.Size, 16, arena.Largest}, intFlag{"rounds", c.Rounds, 0, 1 << 30}); err != nil {
		return err
	}
	if c.Duration <= 0 {
		return fmt.Errorf("--duration: %v, must be more than 0", c.Duration)
	}
	if c.TCPOnly && c.Device != "" {
		return errors.New("--tcp-only and --device contradict each other")
	}
	return checkFileName(c.Name)
}

// measure starts the servers, measures, and ends them.
func (c netCmd) measure(ctx context.Context, w *netWays) (*netbench.Result, error) {
	s, err := startServers(c, w)
	if err != nil {
		return nil, err
	}
	cfg := netbench.Config{Duration: mono.Dur(c.Duration), Rounds: c.Rounds, Servers: s.cpu}
	ended := func() {}
	if !c.Quiet {
		cfg.Progress, ended = netProgress(os.Stderr, cli.IsTerminal(os.Stderr))
	}
	r, err := netbench.Measure(ctx, cfg, w.ways, s.offers)
	ended()
	return r, errors.Join(err, s.stop())
}

// netProgress rewrites one line on a terminal; elsewhere it writes one per phase.
func netProgress(to io.Writer, terminal bool) (tell func(netbench.Progress), ended func()) {
	phase := ""
	if !terminal {
		return func(p netbench.Progress) {
			if p.Phase != phase {
				phase = p.Phase
				fmt.Fprintf(to, "%s ...\n", phase)
			}
		}, func() {}
	}
	var last time.Time
	return func(p netbench.Progress) {
		if p.Phase == phase && time.Since(last) < 200*time.Millisecond {
			return
		}
		phase, last = p.Phase, time.Now()
		fmt.Fprintf(to, "\r\033[K%s: %.0f %%   (%s)", p.Phase, 100*p.Done, p.Text)
	}, func() { fmt.Fprint(to, "\r\033[K") }
}
