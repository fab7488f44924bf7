package peers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/plot"
)

func TestLargest(t *testing.T) {
	m := Model{Alpha: 0.5, Beta: 5}
	for longest, want := range map[float64]int{0: 64, 3: 1, 5.5: 1, 6: 2, 25: 40, 1000: 64} {
		if got := m.Largest(longest); got != want {
			t.Errorf("batches of at most %g ms: %d, want %d", longest, got, want)
		}
	}
}

func TestParseArrivals(t *testing.T) {
	for _, text := range []string{"poisson", "gamma:0.2", "constant"} {
		if a, err := ParseArrivals(text); err != nil || a.String() != text {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "gamma", "gamma:x", "gamma:-1", "often"} {
		if _, err := ParseArrivals(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// A trial that serves most at each rate has score 1, whatever the rates are.
func TestChoose(t *testing.T) {
	set := func(delay float64) Setting { return Setting{Delay: delay} }
	all := []Trial{
		{Setting: set(0), InTime: []float64{100, 800, 500}, P50: []float64{6, 20, 30}},
		{Setting: set(1), InTime: []float64{100, 980, 900}, P50: []float64{16, 22, 35}},
		{Setting: set(2), InTime: []float64{90, 700, 1000}, P50: []float64{5, 22, 35}},
		{Setting: set(3), InTime: []float64{0, 0, 0}, P50: []float64{0, 0, 0}, Failed: "no"},
	}
	want := []choice{{bestOverall, set(1)}, {bestLow, set(0)}, {bestOverload, set(2)}}
	if got := choose(all); !reflect.DeepEqual(got, want) {
		t.Errorf("chosen %v, want %v", got, want)
	}
	score(all)
	if got := all[1].Score; got < 0.966 || got > 0.967 { // (1 + 1 + 0.9) / 3
		t.Errorf("score %g", got)
	}
	if got := choose(all[:1]); !reflect.DeepEqual(got, []choice{{bestOverall, set(0)}}) {
		t.Errorf("of one: %v", got)
	}
	// Quick by too little to be measured for that, and yet the one for overload.
	both := []Trial{{Setting: set(0), InTime: []float64{100, 1000, 900}, P50: []float64{10, 20, 30}}, {Setting: set(1), InTime: []float64{100, 800, 1000}, P50: []float64{9.8, 20, 30}}}
	if got := choose(both); !reflect.DeepEqual(got, []choice{{bestOverall, set(0)}, {bestOverload, set(1)}}) {
		t.Errorf("quicker by 2 %%, more at overload: %v", got)
	}
	both[1].P50[0] = 5
	if got := choose(both); !reflect.DeepEqual(got, []choice{{bestOverall, set(0)}, {bestLow, set(1)}}) {
		t.Errorf("one setting for both is measured once: %v", got)
	}
	if got := choose(all[3:]); got != nil {
		t.Errorf("of none that serves: %v", got)
	}
}

// A quick run's setting comes from the same stages.
func TestStages(t *testing.T) {
	for _, c := range Cases() {
		for _, s := range []system{triton{}, rayServe{}, bentoML{}} {
			now, n := Setting{}, 0
			for _, next := range s.stages(c) {
				all := next(now)
				if len(all) == 0 {
					t.Fatalf("%s, %s: an empty stage", c.Name, s.name())
				}
				now, n = all[len(all)-1], n+len(all)
			}
			if n > 24 {
				t.Errorf("%s, %s: %d settings take too long", c.Name, s.name(), n)
			}
		}
	}
}

func TestTritonConfig(t *testing.T) {
	c := Cases()[1]
	text := tritonConfig(c, c.Models[1], Setting{Delay: 0.1, Timeout: 0.5, Longest: 12, Mode: byPriority}, "/tmp/lock")
	for _, want := range []string{"max_batch_size: 14\n", "max_queue_delay_microseconds: 5000 ", "timeout_action: REJECT, default_timeout_microseconds: 25000}", "priority: 3}", `key: "lock", value: {string_value: "none"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if text := tritonConfig(c, c.Models[1], Setting{}, "/tmp/lock"); strings.Contains(text, "REJECT") || !strings.Contains(text, `"/tmp/lock"`) || strings.Contains(text, "rate_limiter") {
		t.Errorf("without a timeout, by a lock:\n%s", text)
	}
}

func sample() *Result {
	c := Case{Name: "one", Title: "One model", Models: []Model{{"m", 0.5, 5, 50}}}
	return &Result{Date: "D", Command: "C", Cases: []Case{c}, Arrivals: []string{"poisson", "gamma:0.2"},
		Systems: []Measured{{Name: "Symphony"}, {Name: "Ray Serve", Missing: map[string]string{"": "not installable: no | wheel"}}},
		Sweep:   []Trial{{Case: "one", System: "Triton", Rates: []float64{100}, InTime: []float64{99}, P50: []float64{7}, Score: 1}},
		Points: []Point{
			{Case: "one", System: "Symphony", Arrivals: "poisson", Rate: 100, InTime: 99.6, P50: 7.04, P99: 12},
			{Case: "one", System: "Symphony", Arrivals: "poisson", Rate: 3000, InTime: 1543, BadRate: 0.48, P50: 30, P99: 49, Note: "late"},
			{Case: "one", System: "Triton", Choice: bestOverall, Arrivals: "poisson", Rate: 100, BadRate: 1},
			{Case: "one", System: "Triton", Choice: bestLow, Arrivals: "poisson", Rate: 100, InTime: 100, BadRate: 0.004, P50: 6, P99: 11},
		}}
}

func TestMarkdown(t *testing.T) {
	text := sample().Markdown()
	for _, want := range []string{
		"| Ray Serve |  | not installable: no / wheel |",
		"| offered | Symphony | Triton | Triton, tuned for low load |\n|---|---|---|---|",
		"| 100 | 100 (0 %), 7.0 / 12.0 | 0 (100 %) | 100 (0.4 %), 6.0 / 11.0 |",
		"| 3000 | 1543 (48 %), 30.0 / 49.0\\* | - | - |",
		"- Symphony: as it comes\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "gamma") {
		t.Errorf("a table of nothing:\n%s", text)
	}
}

// What is written can be read, drawn, and put into a README twice.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "README.md")
	if err := sample().Keep(dir); err == nil {
		t.Error("no README, no error")
	}
	if err := os.WriteFile(path, []byte("before\n"+tableBegin+"\nold\n"+tableEnd+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sample().Keep(dir); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(path)
	if s := string(text); !strings.HasPrefix(s, "before\n") || !strings.HasSuffix(s, "\nafter\n") || strings.Contains(s, "old") || strings.Count(s, "48 %") != 1 {
		t.Errorf("README:\n%s", s)
	}
	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadResult(bytes.NewReader(data)); err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("read %+v, %v", got, err)
	}
	rows, _ := os.ReadFile(filepath.Join(dir, "results.csv"))
	if n := bytes.Count(rows, []byte("\n")); n != 5 {
		t.Errorf("%d rows:\n%s", n, rows)
	}
	for _, name := range []string{"one-poisson.svg", "one-poisson.png", "sweep.md", "results.md"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestPicture(t *testing.T) {
	r := sample()
	p, ok := r.Picture(r.Cases[0], "poisson")
	if !ok {
		t.Fatal("no picture")
	}
	if _, _, err := plot.Render(plot.Size{}, p); err != nil {
		t.Error(err)
	}
	if _, ok := r.Picture(r.Cases[0], "gamma:0.2"); ok {
		t.Error("a picture of nothing")
	}
}

func TestMedian(t *testing.T) {
	var points []Point
	for _, v := range []float64{5, 1, 3} {
		points = append(points, Point{System: "a", Rate: 1, InTime: v}, Point{System: "a", Rate: 2, InTime: 2 * v})
	}
	out := median(points)
	if len(out) != 2 || out[0].InTime != 3 || out[1].InTime != 6 {
		t.Errorf("%+v", out)
	}
}

func TestLastLine(t *testing.T) {
	if got := lastLine("a\n b\n\n"); got != "b" {
		t.Errorf("%q", got)
	}
	if got := lastLine(""); got != "" {
		t.Errorf("%q", got)
	}
}

// What a server starts ends with it, though it ignores the request to.
func TestStop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	p, err := launch(t.TempDir(), 10*time.Millisecond, os.Environ(), shell, "-c", `trap "" TERM; (trap "" TERM; sleep 600) & echo here; sleep 600`)
	if err != nil {
		t.Fatal(err)
	}
	for text := ""; !strings.Contains(text, "here"); time.Sleep(time.Millisecond) {
		b, _ := os.ReadFile(p.log)
		text = string(b)
	}
	p.stop()
	if why, ended := p.ended(); !ended || !strings.Contains(why, "here") {
		t.Errorf("%q, %v", why, ended)
	}
}
