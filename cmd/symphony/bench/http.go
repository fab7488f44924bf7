package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/httpbench"
	"github.com/symphony-serving/symphony/bench/netbench"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport/mono"
)

type httpCmd struct {
	Connections int           `help:"Keep-alive connections of the load." default:"256"`
	Depth       int           `help:"Requests in flight on each connection: HTTP pipelining." default:"1"`
	Floats      int           `help:"FP32 elements of a request's tensor." default:"784"`
	Rounds      int           `help:"Rounds; in each, every row of the table has its turn." default:"12"`
	Span        time.Duration `help:"Length of a turn." default:"1s"`
	Only        string        `help:"binary or json alone." enum:"binary,json," default:"" placeholder:"KIND"`
	JSON        string        `help:"Write the result, every round of it, as JSON to this file; - is standard output, in the table's place." type:"path" placeholder:"FILE"`
	CPUProfile  string        `name:"cpuprofile" help:"Write a CPU profile of the serving process." type:"path" placeholder:"FILE"`
	Quiet       bool          `help:"No progress."`
	Part        string        `hidden:"" enum:"generator,echo," default:""` // be a process of a run: the command starts them so
}

// Help is shown by --help.
func (httpCmd) Help() string {
	return "What serves is this process: ingress, frontend, scheduler and an emulated backend, as `symphony serve` arranges them, deferring. The load and the bare fasthttp server, which answers with the same bytes, are processes of their own on this host and share its processors. A run takes rounds times rows times span, and half a second's warm-up for each row: with the four rows and the flags' defaults about 50 s, with --only half of it. Ctrl-C ends the run and prints the rounds that are whole. Exit status 1 if interrupted."
}

// Run measures, or is a part of who measures.
func (c httpCmd) Run() error {
	switch c.Part {
	case "generator":
		return generatorPart()
	case "echo":
		return echoPart()
	}
	if err := c.check(); err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	r, err := c.measure(ctx)
	if err != nil {
		return err
	}
	return (&httpReport{provenance: newProvenance(), Result: r}).show(os.Stdout, c.JSON)
}

func (c httpCmd) check() error {
	if err := checkInts(intFlag{"connections", c.Connections, 1, 1 << 14}, intFlag{"depth", c.Depth, 1, 1024}, intFlag{"floats", c.Floats, 1, arena.Largest / 4}, intFlag{"rounds", c.Rounds, 1, 1 << 20}); err != nil {
		return err
	}
	if err := checkBounds(bounded[time.Duration]{"span", c.Span, 10 * time.Millisecond, time.Hour}); err != nil {
		return err
	}
	if c.CPUProfile == "-" {
		return errors.New("--cpuprofile: -: a profile is not for standard output: give a file")
	}
	if err := cli.CheckWritable("json", c.JSON); err != nil {
		return err
	}
	return cli.CheckWritable("cpuprofile", c.CPUProfile)
}

// measure starts the parts, measures, and ends them.
func (c httpCmd) measure(ctx context.Context) (r *httpbench.Result, err error) {
	s, err := c.serveEmulated(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Drain()) }()
	p := &httpParts{}
	defer func() { err = errors.Join(err, p.stop()) }()
	ways, err := c.ways(ctx, s.Web.Address, p)
	if err != nil {
		return nil, err
	}
	bench := httpbench.Config{Connections: c.Connections, Depth: c.Depth, Rounds: c.Rounds, Span: c.Span, Generate: p.generate}
	if !c.Quiet {
		tell, ended := netProgress(os.Stderr, cli.IsTerminal(os.Stderr))
		defer ended()
		bench.Progress = func(done float64, text string) { tell(netbench.Progress{Phase: "HTTP", Done: done, Text: text}) }
	}
	if c.CPUProfile != "" {
		f, err := os.Create(c.CPUProfile)
		if err != nil {
			return nil, fmt.Errorf("--cpuprofile: %w", err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, fmt.Errorf("--cpuprofile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	return httpbench.Measure(ctx, bench, ways)
}

// ways starts the echo and the generator, and lists what is measured.
func (c httpCmd) ways(ctx context.Context, address string, p *httpParts) ([]httpbench.Way, error) {
	requests := map[string][]byte{"binary": httpbench.Request("binary", c.Floats, false), "JSON": httpbench.Request("json", c.Floats, true)}
	replies := map[string][]byte{}
	for name, request := range requests {
		reply, err := httpbench.First(ctx, address, request)
		if err != nil {
			return nil, fmt.Errorf("first %s request: %w", name, err)
		}
		replies["/v2/models/"+strings.ToLower(name)+"/infer"] = reply
	}
	if err := p.start(httpbench.Echo{Replies: replies}); err != nil {
		return nil, err
	}
	var ways []httpbench.Way
	for _, name := range []string{"binary", "JSON"} {
		if c.Only != "" && c.Only != strings.ToLower(name) {
			continue
		}
		ways = append(ways,
			httpbench.Way{Name: name, Server: httpbench.EchoServer, Address: p.address, Request: requests[name], CPU: p.echoCPU},
			httpbench.Way{Name: name, Server: httpbench.InferServer, Address: address, Request: requests[name], CPU: func() (mono.Dur, error) { return netbench.ProcessCPU() }})
	}
	return ways, nil
}

// httpReport is a Result and all that must stand beside it.
type httpReport struct {
	provenance
	*httpbench.Result
}

func (r *httpReport) print(to io.Writer) {
	fmt.Fprintf(to, "$ %s\n%s, %s\n%s; load, echo and server on this host\n\n", r.Command, r.Version, r.Time, r.Host)
	r.Print(to)
}

// show prints the report, and makes the file that was asked for.
func (r *httpReport) show(to io.Writer, file string) error {
	failed := ""
	if r.Interrupted {
		failed = httpbench.InterruptedText
	}
	return showReport(to, file, r, r.print, failed)
}
