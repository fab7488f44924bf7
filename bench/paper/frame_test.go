package paper

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/results"
)

// newSession is a session in an empty folder, as Run makes one.
func newSession(t *testing.T, ctx context.Context, out string) *Session {
	t.Helper()
	for _, dir := range []string{"data", "plots"} {
		if err := os.MkdirAll(filepath.Join(out, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	st, err := results.Open(filepath.Join(out, "results.jsonl"), resultsOf, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return &Session{ctx: ctx, opts: Options{Out: out, Parallel: 2}, store: st, progress: newProgress(nil, false), section: &section{ID: "fig1"}}
}

// counted makes n jobs that count how often they run; job i calls at(i).
func counted(n int, runs *atomic.Int64, at func(i int) error) []Job[int] {
	var jobs []Job[int]
	for i := range n {
		jobs = append(jobs, Job[int]{Kind: "square", About: i, Run: func(func() bool) (int, error) {
			runs.Add(1)
			return i * i, at(i)
		}})
	}
	return jobs
}

func never(int) error { return nil }

func TestResultsAreKept(t *testing.T) {
	out := t.TempDir()
	var runs atomic.Int64
	for range 2 {
		s := newSession(t, context.Background(), out)
		got, err := Each(s, append(counted(10, &runs, never), counted(3, &runs, never)...))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 13 || got[9] != 81 || got[12] != 4 {
			t.Fatalf("results %v", got)
		}
	}
	if runs.Load() != 10 {
		t.Errorf("%d runs of 10 descriptions, each wanted twice by two sessions", runs.Load())
	}
}

func TestInterruptedRunResumes(t *testing.T) {
	out := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	var runs atomic.Int64
	s := newSession(t, ctx, out)
	s.opts.Parallel = 1
	jobs := counted(10, &runs, func(i int) error {
		if i == 5 {
			cancel()
			return errors.New("told to give up")
		}
		return nil
	})
	if _, err := Each(s, jobs); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v of a session that was interrupted", err)
	}
	// A process that is killed leaves half a line.
	f, err := os.OpenFile(s.store.Path(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"key":{"ki`)
	f.Close()

	runs.Store(0)
	again := newSession(t, context.Background(), out)
	if got, err := Each(again, counted(10, &runs, never)); err != nil || got[5] != 25 {
		t.Fatalf("%v, %v", got, err)
	}
	if n := runs.Load(); n != 5 {
		t.Errorf("%d jobs ran again, want the 5 that were not done", n)
	}
	runs.Store(0)
	if _, err := Each(newSession(t, context.Background(), out), counted(10, &runs, never)); err != nil || runs.Load() != 0 {
		t.Errorf("%v; %d jobs ran after all were done", err, runs.Load())
	}
}

// TestFresh: what has a result is computed again, and counts from then on; the
// results of others stay.
func TestFresh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	for i, round := range []struct {
		fresh bool
		found string
		add   map[string]string
	}{
		{false, "", map[string]string{"1": "10", "2": "20"}},
		{true, "", map[string]string{"1": "11"}},
		{false, "11 20", nil},
	} {
		st, err := results.Open(path, resultsOf, round.fresh, nil)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := st.Find("1")
		two, _ := st.Find("2")
		if got := strings.TrimSpace(string(one) + " " + string(two)); got != round.found {
			t.Errorf("round %d: found %q, want %q", i, got, round.found)
		}
		for key, result := range round.add {
			if err := st.Add(key, []byte(result)); err != nil {
				t.Fatal(err)
			}
		}
		st.Close()
	}
}

func TestFailedJobIsNotKept(t *testing.T) {
	s := newSession(t, context.Background(), t.TempDir())
	var runs atomic.Int64
	broken := errors.New("broken")
	jobs := counted(3, &runs, func(i int) error {
		if i == 1 {
			return broken
		}
		return nil
	})
	if _, err := Each(s, jobs); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	key, _ := jobs[1].key()
	if _, ok := s.store.Find(key); ok {
		t.Error("the result of a job that failed was kept")
	}
}

func TestClaimsReachTheReport(t *testing.T) {
	out := t.TempDir()
	s := newSession(t, context.Background(), out)
	s.section = &section{ID: "fig2", Title: "Figure 2", Command: "symphony bench paper fig2"}
	s.Claim(Claim{What: "served at 2x", Paper: "p", Ours: "0.97 p", Ratio: 0.97, Holds: false, Why: "a reason | with a bar"})
	s.Setting("seed 1")
	s.Setting("seed 1")
	s.Note("a choice of %d", 24)
	if err := s.Table("fig2", []string{"a", "b"}, [][]string{{"1", "x,y"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Plot("fig2", plot.Lines{Series: []plot.Series{{Name: Symphony, X: []float64{0, 1}, Y: []float64{0, 1}}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.section.save(out); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(out, symphony()); err != nil {
		t.Fatal(err)
	}
	report := read(t, out, "REPORT.md")
	for _, want := range []string{"| served at 2x | p | 0.97 p | 0.97 | no | a reason \\| with a bar |", "`symphony bench paper fig2`",
		"- seed 1\n", "![fig2](plots/fig2.svg)", "a choice of 24", "| 1 | x,y |", "0 of 1"} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is missing in\n%s", want, report)
		}
	}
	if strings.Count(report, "seed 1") != 1 {
		t.Error("a setting stands there twice")
	}
	if got := read(t, out, "data/fig2.csv"); got != "a,b\n1,\"x,y\"\n" {
		t.Errorf("table %q", got)
	}
	if len(read(t, out, "plots/fig2.png")) == 0 {
		t.Error("empty picture")
	}
}

func read(t *testing.T, out, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestChoose(t *testing.T) {
	if _, err := Choose([]string{"fig3"}); err == nil || !strings.Contains(err.Error(), "fig2, fig4") || !strings.Contains(err.Error(), "table2") {
		t.Errorf("error %v does not list the figures", err)
	}
	if got, err := Choose([]string{"table2", "fig1"}); err != nil || len(got) != 2 || got[0].ID != "fig1" {
		t.Errorf("%v, %v", got, err)
	}
	for _, c := range []struct {
		names []string
		want  int
	}{{nil, 16}, {[]string{"all"}, 16}, {[]string{"all", "surges"}, 17}, {[]string{"peaks7"}, 1}} {
		if got, err := Choose(c.names); err != nil || len(got) != c.want {
			t.Errorf("%v: %d figures, %v; want %d", c.names, len(got), err, c.want)
		}
	}
}

// TestRun: a figure that fails does not keep the next from its place in the
// report, and progress is told where nobody watches.
func TestRun(t *testing.T) {
	out := t.TempDir()
	var runs atomic.Int64
	var said bytes.Buffer
	figures := []Figure{
		{"fig1", "fails", func(*Session) error { return errors.New("no such luck") }, false},
		{"fig2", "works", func(s *Session) error {
			_, err := Each(s, counted(2, &runs, never))
			s.Claim(Claim{What: "works", Holds: true})
			return err
		}, false},
	}
	err := Run(context.Background(), figures, Options{Out: out, Command: "go", Progress: &said})
	if err == nil || !strings.Contains(err.Error(), "fig1: no such luck") {
		t.Errorf("error %v", err)
	}
	if report := read(t, out, "REPORT.md"); !strings.Contains(report, "## fig2") || !strings.Contains(report, "1 of 1") || !strings.Contains(report, "`go fig2`") {
		t.Errorf("report\n%s", report)
	}
	if !strings.Contains(said.String(), "fig2: 2 of 2 jobs") || !strings.HasSuffix(said.String(), "the report is in "+filepath.Join(out, "REPORT.md")+"\n") {
		t.Errorf("progress %q", said.String())
	}
}

// TestOutIsNamed where it is a file, or lies in one.
func TestOutIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "results.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{file, filepath.Join(file, "below"), taken} {
		err := Run(context.Background(), nil, Options{Out: out})
		if err == nil || !strings.HasPrefix(err.Error(), "--out: ") || !strings.Contains(err.Error(), "give a folder that can be written") {
			t.Errorf("%s: error %v", out, err)
		}
	}
}
