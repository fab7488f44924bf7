package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/schedbench"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

func TestSchedulerRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--gpus=7":              "--gpus: 7",
		"--gpus=5000":           "--gpus: 5000",
		"--loops=65":            "--loops: 65",
		"--models=1001":         "--models: 1001",
		"--rate=-5":             "--rate: -5",
		"--duration=1ms":        "--duration: 1ms",
		"--disturb=1.5":         "--disturb: 1.5",
		"--heap=big":            "--heap: ",
		"--profile=nobody":      "--profile: ",
		"--slo=10us --rate=100": "--slo: 10µs, must be between 1ms and 1m0s",

		"--loops=0":                         "--loops: 0, must be between 1 and 64",
		"--gpus=0":                          "--gpus: 0, must be between 8 and 4096",
		"--models=0":                        "--models: 0, must be between 1 and 1000",
		"--slo=0s":                          "--slo: 0s",
		"--quantum=0s":                      "--quantum: 0s",
		"--spin=-1s":                        "--spin: -1s",
		"--doze=1s":                         "--doze: 1s",
		"--arrivals=gamma --shape=0":        "--shape: 0, must be between 0.01 and 100",
		"--rate=0":                          "--rate: 0, must be between 1 and",
		"--rate=NaN":                        "--rate: NaN",
		"--disturb=0":                       "--disturb: 0, must be between 0.01 and 1",
		"--disturb=NaN":                     "--disturb: NaN",
		"--arrivals=gamma --shape=NaN":      "--shape: NaN",
		"--heap=512":                        `--heap: "512" has no unit: B, KiB, MiB or GiB`,
		"--heap=0B":                         "--heap: 0B, must be between 1MiB and 64GiB",
		"--heap=1GiB --garbage=5":           `--garbage: "5" has no unit: B, KiB, MiB or GiB`,
		"--garbage=1MiB":                    "--garbage is about a heap: give --heap SIZE, too",
		"--disturb=0.5 --cores":             "give one of --cores, --scaling, --disturb, --heap, --replay, --compare-tuner",
		"--scaling --replay":                "give one of --cores, --scaling, --disturb, --heap, --replay, --compare-tuner",
		"--replay --compare-tuner":          "give one of --cores, --scaling, --disturb, --heap, --replay, --compare-tuner",
		"--compare-tuner --tuner=0":         "--compare-tuner compares with one",
		"--tuner=0.6":                       "--tuner: 0.6, must be between 0 and 0.5",
		"--tuner=NaN":                       "--tuner: NaN",
		"--scaling --loops=2":               "--scaling chooses",
		"--shape=0.5":                       "--shape is of gamma",
		"--cores --duration=7s":             "--cores has no loops and no clock",
		"--cores --wait=spin":               "--cores has no loops and no clock",
		"--cores --profile=BERT":            "give the --rate",
		"--scaling --profile=BERT":          "--scaling makes the profile",
		"--profile=BERT --slo=1s":           "--profile brings its own SLO",
		"--pin=9999":                        "--pin: 9999: this machine has processor",
		"--rate=1000 --out=pic":             "--out: nothing is drawn of this run",
		"--heap=1GiB --out=pic":             "--out: nothing is drawn of this run",
		"--gpus=8 --profile=BERT --out=pic": "--out: nothing is drawn of this run",
	} {
		if _, err := parsed[schedulerCmd](t, strings.Fields(flags)...).plan(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", flags, err, want)
		}
	}
}

// What is measured follows from the flags.
func TestSchedulerPlan(t *testing.T) {
	for flags, want := range map[string]func(schedbench.Plan) bool{
		"":                               func(p schedbench.Plan) bool { return p.Suite && p.Duration == 2*mono.Second },
		"--duration=7s":                  func(p schedbench.Plan) bool { return p.Suite && p.Duration == 7*mono.Second },
		"--slo=30ms --rate=100":          func(p schedbench.Plan) bool { return p.SLO == 30*mono.Millisecond && p.Duration == 5*mono.Second },
		"--gpus=64":                      func(p schedbench.Plan) bool { return p.Search && p.GPUs == 64 },
		"--rate=1000 --profile=ResNet50": func(p schedbench.Plan) bool { return p.Point && p.Zoo != nil },
		"--rate=1000 --replay":           func(p schedbench.Plan) bool { return p.Replay && !p.Point },
		"--cores":                        func(p schedbench.Plan) bool { return p.Cores && !p.Suite },
		"--rate=1000":                    func(p schedbench.Plan) bool { return p.Point && p.Tuner == 0.02 },
		"--rate=1000 --tuner=0":          func(p schedbench.Plan) bool { return p.Point && p.Tuner == 0 },
		"--compare-tuner": func(p schedbench.Plan) bool {
			return p.Compare && !p.Suite && p.Rate == 0 && p.Duration == 2*mono.Second
		},
		"--heap=2GiB --garbage=1MiB": func(p schedbench.Plan) bool { return p.Heap == 2<<30 && p.Garbage == 1<<20 && !p.Suite },
		"--heap=1MiB":                func(p schedbench.Plan) bool { return p.Garbage == 1<<30 },
		"--disturb=0.5":              func(p schedbench.Plan) bool { return p.Disturb == 0.5 && !p.Suite },
		"--scaling --out=pic":        func(p schedbench.Plan) bool { return p.Scaling },
	} {
		if p, err := parsed[schedulerCmd](t, strings.Fields(flags)...).plan(); err != nil || !want(p) {
			t.Errorf("%q: %+v, %v", flags, p, err)
		}
	}
}

func TestPinNamesTheProcessors(t *testing.T) {
	for _, c := range []struct {
		pin, cores []int
		want       string
	}{
		{[]int{0, 99}, []int{0, 1}, "--pin: 99: this machine has processors 0 to 1"},
		{[]int{-1}, []int{0}, "--pin: -1: this machine has processor 0 alone"},
		{[]int{1}, []int{0, 2, 5}, "--pin: 1: this machine has processors 0, 2, 5"},
	} {
		if err := checkPin(c.pin, c.cores); err == nil || err.Error() != c.want {
			t.Errorf("%v of %v: error %v, want %q", c.pin, c.cores, err, c.want)
		}
	}
	if err := checkPin([]int{1, 1}, []int{0, 1}); err != nil {
		t.Error(err)
	}
}

// A run beside the disturbing process, which ends with it, and its files.
func TestSchedulerDisturbed(t *testing.T) {
	if c := ring.Cores(); !slices.Contains(c, 0) || !slices.Contains(c, 1) {
		t.Skipf("processors 0 and 1 are wanted, there are %v", c)
	}
	t.Setenv(beMain, "1")
	file := filepath.Join(t.TempDir(), "r.json")
	c := parsed[schedulerCmd](t, "--disturb=0.3", "--rate=2000", "--duration=200ms", "--json="+file, "--quiet")
	plan, err := c.plan()
	if err != nil {
		t.Fatal(err)
	}
	r, err := schedbench.Measure(context.Background(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lateness.Without == nil || r.Lateness.With == nil {
		t.Fatalf("%+v", r.Lateness)
	}
	if err := c.report(r).show(io.Discard, c.JSON, c.Out); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), `"Lateness"`) {
		t.Errorf("%v\n%s", err, b)
	}
}

// The files are tried before the run, leave nothing behind, and are named as the user did.
func TestSchedulerTriesFiles(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	for flag, want := range map[string]string{
		"--json=" + dir: "give a file in that folder",
		"--json=" + filepath.Join(none, "r.json"):    "make the folder " + none + " first",
		"--out=" + filepath.Join(none, "pic"):        "make the folder " + none + " first",
		"--out=" + filepath.Join(dir, "a", "b", "c"): filepath.Join(dir, "a", "b", "c"),
	} {
		if err := parsed[schedulerCmd](t, flag).tryFiles(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", flag, err, want)
		}
	}
	if err := parsed[schedulerCmd](t, "--out=/proc/pic").tryFiles(); err == nil || !strings.Contains(err.Error(), "/proc/pic") || strings.Contains(err.Error(), "make the folder") {
		t.Errorf("--out=/proc/pic: error %v", err)
	}
	if err := parsed[schedulerCmd](t, "--json="+filepath.Join(dir, "r.json"), "--out="+filepath.Join(dir, "pic")).tryFiles(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// --json - puts JSON, and nothing else, on standard output.
func TestSchedulerJSONOnStandardOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	c := parsed[schedulerCmd](t, "--json=-")
	r := &schedbench.Result{Searches: []*schedbench.Found{{Loops: 1, GPUs: 64}}}
	var out bytes.Buffer
	if err := c.report(r).show(&out, c.JSON, c.Out); err != nil {
		t.Fatal(err)
	}
	var back schedulerReport
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back.Searches) != 1 {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("a file named - was made")
	}
}
