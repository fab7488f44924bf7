package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/bench/cold"
	"github.com/symphony-serving/symphony/bench/load"
)

func coldSmall() coldCmd {
	return coldCmd{Room: 4, Rounds: 4, Model: "digits-wide", Models: 41, Seconds: 2, SLO: 100 * time.Millisecond, GPUs: 2, Pages: 28, Spans: 2, Seed: 1, Links: "tcp", Quiet: true}
}

// runCold is a run of the command up to its report.
func runCold(t *testing.T, ctx context.Context, c coldCmd, progress func(*load.Counts)) *cold.Result {
	t.Helper()
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	cfg := c.measured()
	w, err := cfg.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	s, end, err := c.start(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	r, err := cold.Run(ctx, cfg, s, w, progress)
	if err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	return r
}

// Forty models where eight have room: every request has one answer, some waited for loads, others had to go for
// them, and what is there at the end is what the pages hold.
func TestBenchCold(t *testing.T) {
	r := runCold(t, t.Context(), coldSmall(), nil)
	k := &r.Live
	if r.Sent == 0 || r.Lost != 0 || r.Duplicates != 0 || r.NotSent != 0 || r.Interrupted {
		t.Errorf("%d sent, %d lost, %d twice, %d not sent", r.Sent, r.Lost, r.Duplicates, r.NotSent)
	}
	refused := int64(0)
	for _, n := range k.Refused {
		refused += n
	}
	if k.Offered != k.Outputs()+refused || k.Outputs() == 0 || k.Cold == 0 || k.Cold >= k.Outputs() || k.Hit() <= 0 || k.Hit() >= 1 {
		t.Errorf("%+v", k)
	}
	if k.Unloads == 0 || k.Loads < k.Unloads || k.Links <= 0 || k.Links > 1 || r.Load.N < k.Loads || r.Infer.N == 0 {
		t.Errorf("%d loads, %d evictions, %d failed, links busy %g; %+v", k.Loads, k.Unloads, r.LoadsFailed, k.Links, r.Load)
	}
	if r.Simulated == nil || r.Simulated.Offered != k.Offered || len(r.Spans) != 2 || len(r.SpansBound) != 2 || r.Bound.All <= 0 {
		t.Fatalf("simulated %+v beside %d offered, %d spans", r.Simulated, k.Offered, len(r.Spans))
	}
	var out bytes.Buffer
	(&coldReport{Result: r}).print(&out)
	if text, err := json.Marshal(r); err != nil || len(text) == 0 || !bytes.Contains(out.Bytes(), []byte("hit share")) {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Logf("%s", out.String())
}

// Ctrl-C keeps what was measured by then, without a simulation.
func TestBenchColdInterrupted(t *testing.T) {
	c := coldSmall()
	c.Seconds = 30
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seconds := 0
	r := runCold(t, ctx, c, func(*load.Counts) {
		if seconds++; seconds == 4 { // two of them are not counted
			cancel()
		}
	})
	if !r.Interrupted || r.Simulated != nil || r.Live.Offered == 0 || r.Live.To <= 0 || r.Live.To > 29 || r.Failed() == "" || r.Lost != 0 {
		t.Errorf("%+v, %q", r.Live, r.Failed())
	}
}

func TestBenchColdRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"--real"}} {
		if err := parsed[coldCmd](t, args...).filled().check(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, args := range [][]string{{"--room=3"}, {"--rounds=2"}, {"--model=digits-cnn"}, {"--onnxruntime=x.so"}, {"--real", "--gpus=2"}, {"--real", "--pages=100"}, {"--real", "--share=0.5"}, {"--real", "--spans=3"}} {
		if err := parsed[coldCmd](t, args...).filled().check(); err == nil || !strings.Contains(err.Error(), "--real") {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, args := range [][]string{{"--room=12"}, {"--room=1"}, {"--models=2"}, {"--rounds=0"}, {"--seconds=3"}, {"--slo=10ms"}} {
		name, _, _ := strings.Cut(args[0], "=")
		if err := parsed[coldCmd](t, append(args, "--real")...).filled().check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", args, err)
		}
	}
	for name, spoil := range map[string]func(*coldCmd){
		"models": func(c *coldCmd) { c.Models = 1 }, "seconds": func(c *coldCmd) { c.Seconds = 0 }, "gpus": func(c *coldCmd) { c.GPUs = 0 },
		"pages": func(c *coldCmd) { c.Pages = 7 }, "spans": func(c *coldCmd) { c.Spans = 0 }, "share": func(c *coldCmd) { c.Share = -1 }, "slo": func(c *coldCmd) { c.SLO = time.Millisecond },
	} {
		c := coldSmall()
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		spoil(&c)
		if err := c.check(); err == nil || !bytes.Contains([]byte(err.Error()), []byte("--"+name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// realSmall is a short real run: copies of digits-wide, half of which fit. `make models` has made it.
func realSmall(t *testing.T) (coldCmd, *repository.Model) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	c := parsed[coldCmd](t, "--real", "--models=4", "--room=2", "--rounds=1", "--seconds=1.5", "--slo=2s", "--quiet").filled()
	c.Repository, c.ONNX = filepath.Join(root, "examples/digits/models"), os.Getenv("SYMPHONY_ONNXRUNTIME")
	if c.ONNX == "" {
		c.ONNX = filepath.Join(root, "build/onnxruntime/libonnxruntime.so")
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	err = onnx.Load(c.ONNX)
	var m *repository.Model
	if err == nil {
		m, err = c.realModel()
	}
	switch {
	case err != nil && os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	return c, m
}

// Sessions come and go while others answer, and none without loads; Ctrl-C keeps the turns that were measured by then.
func TestBenchColdReal(t *testing.T) {
	c, m := realSmall(t)
	cfg := c.realConfig(m)
	cfg.Hot, cfg.Seldom = 20, 5 // also on a machine that is slow just now
	s, end, err := c.startReal(t.Context(), m, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := cold.RunReal(t.Context(), cfg, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Interrupted || r.Sent == 0 || r.Lost != 0 || r.Duplicates != 0 || r.NotSent != 0 || r.Weights < 34e6 || r.LoadTime <= 0 || r.Hot != 1 {
		t.Errorf("%+v", r)
	}
	if r.With.Offered != r.Without.Offered || r.With.Warm.N == 0 || r.Without.Warm.N == 0 || r.With.WarmRuns.P50 <= 0 || r.Without.Loaded.Loads != 0 || r.Without.Cold != 0 {
		t.Errorf("with %+v, without %+v", r.With, r.Without)
	}
	if k := r.With.Loaded; k.Loads == 0 || k.Unloads == 0 || k.Mean() <= 0 || r.With.Cold == 0 {
		t.Errorf("with %+v", r.With)
	}
	var out bytes.Buffer
	(&coldRealReport{RealResult: r}).print(&out)
	if text, err := json.Marshal(r); err != nil || len(text) == 0 || !bytes.Contains(out.Bytes(), []byte("room for 2")) {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Logf("%s", out.String())

	ctx, cancel := context.WithCancel(t.Context())
	turns := 0
	r, err = cold.RunReal(ctx, cfg, s, func(string) {
		if turns++; turns == 2 {
			cancel()
		}
	})
	if err != nil || !r.Interrupted || r.Failed() == "" || r.Without.Offered == 0 || r.With.Offered != 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// What is missing is named, with what makes it.
func TestBenchColdRealMissing(t *testing.T) {
	c := parsed[coldCmd](t, "--real").filled()
	c.ONNX = filepath.Join(t.TempDir(), "none.so")
	if _, err := c.realModel(); err == nil || !strings.Contains(err.Error(), "make models") {
		t.Errorf("without a library: %v", err)
	}
	c.ONNX = t.TempDir() // there is something
	c.Repository = filepath.Join(t.TempDir(), "none")
	if _, err := c.realModel(); err == nil || !strings.Contains(err.Error(), "--repository") {
		t.Errorf("without a repository: %v", err)
	}
	c.Repository = "../../../examples/digits/models"
	c.Model = "nothing"
	if _, err := c.realModel(); err == nil || !strings.Contains(err.Error(), "nothing") || !strings.Contains(err.Error(), "make models") {
		t.Errorf("without the model: %v", err)
	}
}
