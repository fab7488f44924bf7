package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// newcomersCmd is what models that come cost one that is served: a server on this machine with
// one CPU device, constant load on a small model, and models that are copied into its
// repository while the load goes on.
type newcomersCmd struct {
	ONNXRuntime string        `name:"onnxruntime" help:"Path of libonnxruntime.so; where the server finds it by itself if empty." placeholder:"FILE"`
	Binary      string        `help:"The server: another build of symphony; this one if empty." placeholder:"FILE"`
	Wide        string        `help:"Folder of digits-wide (make models), for its row." default:"examples/digits/models/digits-wide" placeholder:"DIR"`
	Rows        []string      `help:"Only rows of these numbers; all if none." placeholder:"N" sep:","`
	Rate        float64       `help:"Requests/s of the served model." default:"200"`
	Threads     int           `help:"Threads of the device." default:"1"`
	Span        time.Duration `help:"Counted span; models come a second after its begin. Longer where they are not served by then." default:"10s"`
	Most        time.Duration `help:"Longest wait for the models that come." default:"60s"`
	JSON        string        `help:"Write the rows as JSON to this file; - is standard output, in the table's place." placeholder:"FILE"`
}

// newcomersRow is one line of the table.
type newcomersRow struct {
	Name   string           `json:"comes"`
	Bad    float64          `json:"bad_rate"`
	Sent   int64            `json:"answered"`
	P99    float64          `json:"p99_ms"`
	Max    float64          `json:"max_ms"`
	Served []float64        `json:"served_after_s"` // by model that came, -1: not in time
	Why    map[string]int64 `json:"bad,omitempty"`
}

// newcomersScene is what comes in a row.
type newcomersScene struct {
	name     string
	profiled bool // with the profiles that a server has stored before
	models   []string
}

func newcomersScenes() []newcomersScene {
	return []newcomersScene{
		{name: "nothing"},
		{name: "one slow model", models: []string{"slow"}},
		{name: "two slow models and one of 128 MB", models: []string{"slow", "slower", "large"}},
		{name: "one of 128 MB", models: []string{"large"}},
		{name: "digits-wide", models: []string{"digits-wide"}},
		{name: "one slow model, with its profile", models: []string{"slow"}, profiled: true},
		{name: "one of 128 MB, with its profile", models: []string{"large"}, profiled: true},
	}
}

// Run makes the models, and measures row by row, each with a server of its own.
func (c newcomersCmd) Run() error {
	if err := c.check(); err != nil {
		return err
	}
	runtime.LockOSThread() // servers end with it
	runtime.GOMAXPROCS(max(2, cli.Processors()))
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "warn"}))
	defer cancel()
	dir, err := os.MkdirTemp("", "symphony-newcomers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n := &newcomers{cmd: c, dir: dir}
	if err := n.make(); err != nil {
		return err
	}
	var rows []newcomersRow
	for i, s := range newcomersScenes() {
		if len(c.Rows) > 0 && !wanted(fmt.Sprint(i+1), c.Rows) {
			continue
		}
		row, err := n.measure(ctx, &s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, *row)
		fmt.Fprintf(os.Stderr, "%s: %.3f %% bad\n", row.Name, 100*row.Bad)
	}
	failed := ""
	for i := range rows {
		if rows[i].Bad > 0.01 {
			failed = fmt.Sprintf("%s: %.2f %% of the served model's requests are bad, 1 %% is allowed", rows[i].Name, 100*rows[i].Bad)
		}
	}
	from := newProvenance()
	return showReport(os.Stdout, c.JSON, rows, func(to io.Writer) {
		from.print(to, fmt.Sprintf("one CPU device with %d threads; `fast` has an SLO of 20 ms and gets %g requests/s", c.Threads, c.Rate))
		printNewcomers(to, rows)
	}, failed)
}

func (c newcomersCmd) check() error {
	for _, row := range c.Rows {
		if n, err := strconv.Atoi(row); err != nil || n < 1 || n > len(newcomersScenes()) {
			return fmt.Errorf("--rows: %q, must be numbers of 1 to %d", row, len(newcomersScenes()))
		}
	}
	return errors.Join(checkInts(intFlag{"threads", c.Threads, 1, 1024}), checkBounds(bounded[float64]{"rate", c.Rate, 1, 1e5}),
		checkBounds(bounded[time.Duration]{"span", c.Span, 3 * time.Second, time.Hour}, bounded[time.Duration]{"most", c.Most, time.Second, time.Hour}))
}

func printNewcomers(to io.Writer, rows []newcomersRow) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "what comes\tbad of fast\tof\tp99 ms\tmax ms\tserved after s\t\n")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%.3f %%\t%d\t%.2f\t%.2f\t%.1f\t\n", r.Name, 100*r.Bad, r.Sent, r.P99, r.Max, r.Served)
	}
	t.Flush()
}

// newcomers is a run's folder, and what it makes there.
type newcomers struct {
	cmd newcomersCmd
	dir string
}

func (n *newcomers) model(name string) string { return filepath.Join(n.dir, "models", name) }

func (n *newcomers) make() error {
	if err := errors.Join(writeFast(n.model("fast")), writeSlow(n.model("slow"), 400), writeSlow(n.model("slower"), 500), writeLarge(n.model("large"))); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(n.cmd.Wide, "1", "model.onnx")); err != nil {
		return nil // its row says so
	}
	if err := os.CopyFS(n.model("digits-wide"), os.DirFS(n.cmd.Wide)); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(n.model("digits-wide"), "profiles"))
}

// measure is one row.
func (n *newcomers) measure(ctx context.Context, s *newcomersScene) (*newcomersRow, error) {
	repo, err := os.MkdirTemp(n.dir, "repository-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(repo)
	if err := os.CopyFS(filepath.Join(repo, "fast"), os.DirFS(n.model("fast"))); err != nil {
		return nil, err
	}
	from := make([]string, len(s.models))
	for i, name := range s.models {
		from[i] = n.model(name)
		if _, err := os.Stat(from[i]); err != nil {
			return nil, fmt.Errorf("%w: make models, or --wide", err)
		}
	}
	if s.profiled {
		if from, err = n.profiled(ctx, s.models); err != nil {
			return nil, err
		}
	}
	srv, err := n.start(ctx, repo, "fast")
	if err != nil {
		return nil, err
	}
	defer srv.end()
	come, served := time.Second+loadWarm, make(chan []float64, 1)
	go func() { served <- srv.copyIn(ctx, come, s.models, from, n.cmd.Most) }()
	rep, err := n.load(ctx, srv.url)
	if err != nil {
		return nil, err
	}
	m := rep.All
	return &newcomersRow{Name: s.name, Bad: m.BadRate, Sent: m.Answered, P99: m.P99, Max: m.Max, Why: m.Bad, Served: <-served}, nil
}

// loadWarm is offered before requests are counted.
const loadWarm = 2 * time.Second

func (n *newcomers) load(ctx context.Context, url string) (*report.Report, error) {
	c := loadCmd{URL: url, Models: []string{"fast"}, Rate: n.cmd.Rate, Duration: n.cmd.Span, Warmup: loadWarm, Arrivals: "poisson", Popularity: "equal", Seed: 1,
		Outstanding: 20000, Senders: 512, Quiet: true}
	target, asked, end, err := c.target(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return c.offer(ctx, target, asked, nil)
}

// profiled are copies of models with the profiles that a server stores which has only them.
func (n *newcomers) profiled(ctx context.Context, models []string) (dirs []string, err error) {
	repo, err := os.MkdirTemp(n.dir, "profiled-")
	if err != nil {
		return nil, err
	}
	for _, name := range models {
		dir := filepath.Join(repo, name)
		dirs = append(dirs, dir)
		if err := os.CopyFS(dir, os.DirFS(n.model(name))); err != nil {
			return nil, err
		}
	}
	srv, err := n.start(ctx, repo, models...)
	if err != nil {
		return nil, err
	}
	srv.end()
	return dirs, nil
}

// newcomersServer is a server in a process of its own.
type newcomersServer struct {
	cmd  *exec.Cmd
	url  string
	repo string
}

// start starts a server, and waits until it serves models.
func (n *newcomers) start(ctx context.Context, repo string, models ...string) (*newcomersServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at := l.Addr().String()
	l.Close()
	text := fmt.Sprintf("log: {level: warn}\nscheduler: {listen: [\"inproc:s\"]}\nfrontend: {name: n, scheduler: \"inproc:s\", listen: \"inproc:f\", http: %q}\n"+
		"backend:\n  name: n\n  scheduler: \"inproc:s\"\n  repository: %q\n  pools: [{device_type: cpu, kind: cpu, devices: 1, threads: %d}]\n", at, repo, n.cmd.Threads)
	if n.cmd.ONNXRuntime != "" {
		text += fmt.Sprintf("  onnxruntime: %q\n", n.cmd.ONNXRuntime)
	}
	path := filepath.Join(n.dir, "server.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return nil, err
	}
	binary := n.cmd.Binary
	if binary == "" {
		if binary, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	s := &newcomersServer{cmd: exec.Command(binary, "serve", "--config", path), url: "http://" + at, repo: repo}
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = os.Stderr, os.Stderr, endWithParent()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for _, m := range models {
		if !s.await(ctx, m, n.cmd.Most) {
			s.end()
			return nil, fmt.Errorf("model %s is not served after %v", m, n.cmd.Most)
		}
	}
	return s, nil
}

// await reports whether a model is ready in time.
func (s *newcomersServer) await(ctx context.Context, model string, most time.Duration) bool {
	client := http.Client{Timeout: 5 * time.Second}
	for end := time.Now().Add(most); ctx.Err() == nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		resp, err := client.Get(s.url + "/v2/models/" + model + "/ready")
		if err != nil {
			continue // it does not listen yet
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return true
		}
	}
	return false
}

// copyIn copies models into the repository after a while, and says how long each took to be
// served; -1: it was not.
func (s *newcomersServer) copyIn(ctx context.Context, after time.Duration, models, from []string, most time.Duration) (served []float64) {
	served = make([]float64, 0, len(models))
	if len(models) == 0 {
		return served
	}
	time.Sleep(after)
	begin := time.Now()
	for i, name := range models {
		if err := os.CopyFS(filepath.Join(s.repo, name), os.DirFS(from[i])); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	for _, name := range models {
		if s.await(ctx, name, most-time.Since(begin)) {
			served = append(served, time.Since(begin).Seconds())
		} else {
			served = append(served, -1)
		}
	}
	return served
}

func (s *newcomersServer) end() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	kill := time.AfterFunc(endMax, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait() // a status says nothing here
}
