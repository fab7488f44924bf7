package simcmd

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/scheduler/invariants"
)

// simulated runs `symphony sim` with these flags, and returns what it wrote on
// standard output and beside it.
func simulated(t *testing.T, flags ...string) (out, notes string, err error) {
	t.Helper()
	return simulatedUntil(t, func() bool { return false }, flags...)
}

func simulatedUntil(t *testing.T, stop func() bool, flags ...string) (out, notes string, err error) {
	t.Helper()
	var c Command
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	quick := []string{"--duration=1s", "--warmup=100ms"}
	if !strings.Contains(strings.Join(flags, " "), "--least-gpus") {
		quick = append(quick, "--gpus=2")
	}
	if !strings.Contains(strings.Join(flags, " "), "--models") { // repeated, it adds models
		quick = append(quick, "--models=r50:1.053:5.072:25")
	}
	if _, err := parser.Parse(append(quick, flags...)); err != nil {
		t.Fatal(err)
	}
	var o, n bytes.Buffer
	err = c.run(&o, &n, progressNone, stop)
	return o.String(), n.String(), err
}

// TestSameSeedSameBytes, whatever runs beside it.
func TestSameSeedSameBytes(t *testing.T) {
	seeds := "--seeds=4"
	if invariants.Enabled { // ten times as slow, and two seeds run beside each other, too
		seeds = "--seeds=2"
	}
	twice := func(flags ...string) string {
		a, _, err := simulated(t, flags...)
		b, _, err2 := simulated(t, flags...)
		if err != nil || err2 != nil || a != b || a == "" {
			t.Errorf("%v: %v, %v, two outputs:\n%s\n%s", flags, err, err2, a, b)
		}
		return a
	}
	a := twice("--rate=900", "--json=-")
	twice("--rate=900", "--csv=-", "--network=rdma", "--jitter=0.1")
	if b, _, _ := simulated(t, "--rate=900", "--json=-", "--seed=2"); a == b {
		t.Error("two seeds have one result")
	}
	a = twice("--goodput", seeds, "--parallel=4", "--tolerance=0.05", "--json=-")
	if b, _, _ := simulated(t, "--goodput", seeds, "--parallel=1", "--tolerance=0.05", "--json=-"); a != b {
		t.Error("the result depends on how many run at a time")
	}
	if !invariants.Enabled { // one at a time has no races
		twice("--goodput", seeds, "--parallel=1", "--tolerance=0.05")
	}
}

func TestJSONAndCSVFiles(t *testing.T) {
	dir := t.TempDir()
	j, c := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.csv")
	table, _, err := simulated(t, "--rate=900", "--seeds=3", "--json", j, "--csv", c)
	if err != nil || !strings.Contains(table, "95 % confidence, 3 seeds") {
		t.Fatalf("%v, table:\n%s", err, table)
	}
	var doc struct {
		Records []scenario.Outcome
		Summary summary
	}
	text, err := os.ReadFile(j)
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.Records) != 3 || doc.Records[2].Scenario.Seed != 3 || doc.Summary.Seeds != 3 || doc.Summary.Half <= 0 {
		t.Errorf("%v: %s", err, text)
	}
	f, err := os.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) != 4 || rows[0][0] != "version" {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestTableNamesWhatMatters(t *testing.T) {
	table, _, err := simulated(t, "--rate=2500", "--models=2xa:1.053:5.072:25")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a#1", "a#2", "ALL", "shed", "queue p99 ms", "mean batch", "2 used of 2", "fluid"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

// TestResumeSkips: what is in the file is not simulated again, and the records
// are the same.
func TestResumeSkips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.jsonl")
	whole, _, err := simulated(t, "--rate=900", "--seeds=3", "--json=-", "--resume", path)
	if err != nil {
		t.Fatal(err)
	}
	never := func() bool { t.Error("simulated again"); return true }
	again, notes, err := simulatedUntil(t, never, "--rate=900", "--seeds=3", "--json=-", "--resume", path)
	if err != nil || again != whole || !strings.Contains(notes, "3 of 3 results") {
		t.Errorf("%v, notes %q, records differ: %v", err, notes, again != whole)
	}
	// Two more seeds, then another scenario: only what lacks is simulated.
	if _, notes, err = simulated(t, "--rate=900", "--seeds=5", "--json=-", "--resume", path); err != nil || !strings.Contains(notes, "3 of 5") {
		t.Errorf("%v, notes %q", err, notes)
	}
	for _, other := range [][]string{{"--rate=901"}, {"--rate=900", "--policy=eager"}, {"--rate=900", "--goodput"}} {
		if _, notes, err = simulated(t, append(other, "--resume", path)...); err != nil || strings.Contains(notes, "results are in") {
			t.Errorf("%v: %v, notes %q", other, err, notes)
		}
	}
	text, err := os.ReadFile(path)
	if n := bytes.Count(text, []byte("\n")); err != nil || n != 8 {
		t.Errorf("%d lines, want 8 (%v)", n, err)
	}
}

// TestResumeMendsTheLastLine: a run that died while it wrote loses that result
// only.
func TestResumeMendsTheLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.jsonl")
	whole, _, err := simulated(t, "--rate=900", "--seeds=2", "--parallel=1", "--json=-", "--resume", path)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if err := os.WriteFile(path, text[:len(text)-20], 0o644); err != nil {
		t.Fatal(err)
	}
	again, notes, err := simulated(t, "--rate=900", "--seeds=2", "--json=-", "--resume", path)
	mended, _ := os.ReadFile(path)
	if err != nil || again != whole || !bytes.Equal(mended, text) || !strings.Contains(notes, "1 of 2 results") {
		t.Errorf("%v, notes %q", err, notes)
	}
}

// TestResumeLeavesOtherFilesAlone: what is not ours is refused, and stays.
func TestResumeLeavesOtherFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.jsonl")
	if _, _, err := simulated(t, "--rate=900", "--resume", path); err != nil {
		t.Fatal(err)
	}
	ours, _ := os.ReadFile(path)
	if !bytes.HasPrefix(ours, []byte(recordBegin)) {
		t.Errorf("a record begins with %.20q", ours)
	}
	for text, want := range map[string]string{
		"model,alpha\n":                      "kept.jsonl:1 is no result",
		"{}\n":                               "kept.jsonl:1 is no result",
		"{\"version\":\"x\"}\n":              "kept.jsonl:1 is no result",
		"one line, no end":                   "kept.jsonl:1 has no end",
		"{\"name\":\"x\"}":                   "kept.jsonl:1 has no end",
		"{":                                  "kept.jsonl:1 has no end",
		string(ours) + "note":                "kept.jsonl:2 has no end",
		string(ours) + "{}\n":                "kept.jsonl:2 is no result",
		string(ours[:len(ours)-1]) + "end\n": "kept.jsonl:1 is no result",
		string(ours) + "x\n{\"sim_core\":":   "kept.jsonl:2 is no result",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := simulated(t, "--rate=900", "--resume", path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want one with %q", text, err, want)
		}
		if now, _ := os.ReadFile(path); string(now) != text {
			t.Errorf("%.40q is now %.40q", text, now)
		}
	}
}

// TestResumeIgnoresOtherCores: the result of another CoreVersion stays, and is
// not taken; the version of the program does not matter.
func TestResumeIgnoresOtherCores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.jsonl")
	if _, _, err := simulated(t, "--rate=900", "--resume", path); err != nil {
		t.Fatal(err)
	}
	ours, _ := os.ReadFile(path)
	core := fmt.Sprintf("%s%d,", recordBegin, sim.CoreVersion)
	for _, c := range []struct {
		text  string
		found bool
		lines int
	}{
		{strings.Replace(string(ours), `"version":"`, `"version":"other`, 1), true, 1},
		{strings.Replace(string(ours), core, recordBegin+"1,", 1), false, 2},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, notes, err := simulated(t, "--rate=900", "--resume", path)
		now, _ := os.ReadFile(path)
		if err != nil || strings.Contains(notes, "1 of 1") != c.found || bytes.Count(now, []byte("\n")) != c.lines || !strings.HasPrefix(string(now), c.text) {
			t.Errorf("%.40q: %v, notes %q, now %.40q", c.text, err, notes, now)
		}
	}
}

// TestStopKeepsWhatIsDone: the signal comes after the first seed.
func TestStopKeepsWhatIsDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.jsonl")
	stop := func() bool {
		text, _ := os.ReadFile(path)
		return bytes.Contains(text, []byte("\n"))
	}
	out, _, err := simulatedUntil(t, stop, "--rate=900", "--seeds=3", "--parallel=1", "--json=-", "--resume", path)
	if err == nil || !strings.Contains(err.Error(), "stopped: 1 of 3 seeds are done; what is written holds these only") || strings.Count(out, `"version"`) != 1 {
		t.Errorf("%v, records:\n%s", err, out)
	}
}

func TestTimeline(t *testing.T) {
	base := filepath.Join(t.TempDir(), "figure4")
	_, notes, err := simulated(t, "--models=m:1:5:12", "--policy=symphony/defer", "--gpus=3", "--rate=1333.3333333333333", "--arrivals=constant", "--warmup=0s", "--timeline", base+".svg", "--timeline-span=60ms")
	if err != nil {
		t.Fatal(err)
	}
	if want := "timeline: " + base + ".svg and " + base + ".png\n"; !strings.HasSuffix(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	svg, err := os.ReadFile(base + ".svg")
	if err != nil || !bytes.Contains(svg, []byte("GPU 2")) {
		t.Errorf("%v, %d bytes of SVG", err, len(svg))
	}
	// Batches of 4 begin every 3 ms from 2.25 ms on: 20 of them.
	if n := bytes.Count(svg, []byte(">4</text>")); n < 18 || n > 20 {
		t.Errorf("%d boxes with a 4, want about 20", n)
	}
	if png, err := os.ReadFile(base + ".png"); err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
		t.Errorf("no PNG: %v", err)
	}
}

// TestDoubtIsSaid: a search over some hundred requests, and one that finds
// nothing because its only GPU is gone.
func TestDoubtIsSaid(t *testing.T) {
	out, _, err := simulated(t, "--models=a:10:30:100", "--goodput", "--tolerance=0.1")
	if err != nil || !strings.Contains(out, "set a longer --duration") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, _, err = simulated(t, "--gpus=1", "--gpu-event=fail:0@50ms", "--goodput", "--tolerance=0.1", "--duration=20s")
	if err != nil || !strings.Contains(out, "r/s passes") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestSimRefuses(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"", "--rate: 0"},
		{"--rate=900 --models=r50", "--models"},
		{"--rate=900 --policy=fifo", "--policy"},
		{"--rate=900 --json=- --csv=-", "only one of them"},
		{"--rate=900 --seeds=0", "--seeds: 0"},
		{"--rate=900 --parallel=-1", "--parallel: -1"},
		{"--rate=900 --frontends=0", "--frontends: 0, must be 1"},
		{"--rate=900 --frontends=5000", "--frontends: 5000, must be 1 to 4096"},
		{"--rate=900 --seed=18446744073709551615 --seeds=2", "--seed:"},
		{"--goodput --tolerance=0", "--tolerance: 0"},
		{"--goodput --rate=1e8", "--rate: the search would begin at 1e+08"},
		{"--trace=x.csv --trace-speed=0", "--trace-speed: 0, must be above 0"},
		{"--rate=900 --trace-loop", "give --trace FILE"},
		{"--trace=nowhere.csv", "--trace: open nowhere.csv"},
		{"--goodput --timeline=x.svg", "leave out --goodput"},
		{"--rate=900 --timeline=x.pdf", "must end with .svg or .png"},
		{"--rate=900 --timeline=x.svg --timeline-span=0s", "--timeline-span"},
		{"--rate=900 --timeline=x.svg --timeline-from=2s", "--timeline-from: 2s"},
		{"--rate=900 --timeline=x.svg --resume=x", "leave out --resume"},
		{"--rate=90000 --timeline=x.svg --timeline-span=1s", "narrow --timeline-span"},
		{"--rate=900 --json=/nowhere/x.json", "--json: open /nowhere/x.json"},
		{"--rate=900 --csv=/nowhere/x.csv", "--csv: open /nowhere/x.csv"},
		{"--rate=900 --timeline=/nowhere/x.svg", "--timeline: open /nowhere/x.svg"},
		{"--rate=900 --json=/nowhere/x.json", "make the folder /nowhere first"},
		{"--rate=900 --timeline=/nowhere/x.svg", "make the folder /nowhere first"},
		{"--rate=900 --resume=/nowhere/x.jsonl", "--resume: open /nowhere/x.jsonl"},
		{"--rate=900 --resume=/nowhere/x.jsonl", "make the folder /nowhere first"},
		{"--rate=900 --resume=/", "--resume: read /: is a directory; give a file in that folder"},
		{"--rate=900 --json=/", "give a file in that folder"},
		{"--rate=900 --tolerance=0.005", "give --goodput"},
		{"--rate=900 --timeline-from=1s", "give --timeline FILE"},
		{"--rate=900 --timeline-span=100ms", "give --timeline FILE"},
		{"--rate=900 --bad-rate=0.1", "give --least-gpus"},
		{"--rate=900 --queue-p99=1ms", "give --least-gpus"},
		{"--rate=900 --latency-p99=1ms", "give --least-gpus"},
		{"--least-gpus", "--rate: 0 requests/s"},
		{"--rate=900 --least-gpus --gpus=3", "--gpus: 3 has no effect"},
		{"--rate=900 --least-gpus --goodput", "--goodput the rate for GPUs"},
		{"--rate=900 --least-gpus --gpu-event=leave:0@50ms", "--gpu-event names GPUs"},
		{"--rate=900 --least-gpus --timeline=x.svg", "leave out --least-gpus"},
		{"--rate=900 --least-gpus --seeds=2", "leave out --seeds"},
		{"--rate=900 --least-gpus --resume=x", "--resume keeps no search"},
		{"--rate=900 --least-gpus --bad-rate=1", "--bad-rate: 1, must be a share"},
		{"--rate=900 --least-gpus --queue-p99=0s", "--queue-p99: 0s, must be above 0"},
		{"--rate=900 --least-gpus --latency-p99=-1s", "--latency-p99: -1"},
	} {
		if _, _, err := simulated(t, strings.Fields(c.flags)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.flags, err, c.want)
		}
	}
}

func TestProgress(t *testing.T) {
	p := newProgress(4)
	p.set(0, 1)
	p.set(1, 0.5)
	if got := p.share(); got < 0.37 || got > 0.38 {
		t.Errorf("share %g of 4 simulations, one near its end and one half done", got)
	}
	if got := progressLine(0.25, 10*time.Second); !strings.Contains(got, "about 30s left") {
		t.Errorf("%q after 10 s", got)
	}
	p.show(io.Discard, progressTerminal, 0)()
}

// TestPlainProgress: where no terminal is, whole lines come, and nothing of a
// terminal's.
func TestPlainProgress(t *testing.T) {
	p := newProgress(1)
	p.set(0, 0.5)
	r, w := io.Pipe()
	end := p.show(w, progressPlain, time.Millisecond)
	lines := bufio.NewReader(r)
	for range 2 {
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "50 % after") || strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("line %q, %v", line, err)
		}
	}
	go io.Copy(io.Discard, lines)
	end()
	w.Close()
	var said bytes.Buffer
	p.show(&said, progressNone, time.Nanosecond)()
	p.show(&said, progressPlain, time.Hour)()
	if said.Len() > 0 {
		t.Errorf("said %q", said.String())
	}
}

// A model that is not known is said before a rate that lacks.
func TestUnknownModelIsSaidFirst(t *testing.T) {
	if _, _, err := simulated(t, "--models=nosuch"); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("error %v", err)
	}
}
