package scenario

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/transport/mono"
)

// small is a scenario that runs in some milliseconds.
func small() Scenario {
	return Scenario{Models: []zoo.Model{{Name: "r50", Alpha: mono.FromMillis(1.053), Beta: mono.FromMillis(5.072), SLO: 25 * mono.Millisecond}},
		GPUs: 2, Rate: 800, Duration: mono.Second, Warmup: 100 * mono.Millisecond, Seed: 7}
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParseModels(t *testing.T) {
	const table = "model,alpha_ms,beta_ms,slo_ms\nA,1,5,20\nB,2,5,30\n"
	csv, ended := file(t, "m.csv", table), file(t, "blank.csv", table+"\n \r\n")
	for _, c := range []struct {
		texts []string
		names string
	}{
		{[]string{"r50:1.053:5.072:25"}, "r50"},
		{[]string{"zoo:a100/ResNet50", "mine:1:2:20"}, "ResNet50 mine"},
		{[]string{csv}, "A B"},
		{[]string{ended}, "A B"},
		{[]string{"2x" + csv}, "A#1 A#2 B#1 B#2"},
		{[]string{"3xr:1:5:20", "r:1:5:20"}, "r#1 r#2 r#3 r"},
	} {
		models, err := ParseModels(c.texts)
		var names []string
		for _, m := range models {
			names = append(names, m.Name)
		}
		if err != nil || strings.Join(names, " ") != c.names {
			t.Errorf("%q: %v, %v, want %s", c.texts, names, err, c.names)
		}
	}
	if models, err := ParseModels([]string{"zoo:a100"}); err != nil || len(models) != 37 {
		t.Errorf("zoo:a100: %d models, %v", len(models), err)
	}
	if models, err := ParseModels([]string{"8xzoo:1080ti/ResNet50"}); err != nil || len(models) != 8 || models[7].Alpha != models[0].Alpha {
		t.Errorf("8xzoo:1080ti/ResNet50: %v, %v", models, err)
	}
}

func TestParseModelsRefuses(t *testing.T) {
	blank := file(t, "blank.csv", "model,alpha_ms,beta_ms,slo_ms\nA,1,5,20\n\nB,1,5,20\n")
	for _, c := range []struct {
		texts []string
		want  string
	}{
		{nil, "--models: none"},
		{[]string{""}, "must be NAME:ALPHA:BETA:SLO"},
		{[]string{"ResNet50"}, "must be NAME:ALPHA:BETA:SLO"},
		{[]string{"r50:1:5"}, "3 parts, must be 4"},
		{[]string{"r50:1:5:x"}, `slo_ms "x"`},
		{[]string{"zoo:h100"}, "must be zoo:a100 or zoo:1080ti"},
		{[]string{"zoo:a100/GPT"}, `no model "GPT", must be one of DenseNet121`},
		{[]string{"0xr:1:5:20"}, "0 copies, must be 1"},
		{[]string{"99999xr:1:5:20"}, "99999 copies"},
		{[]string{"9999xzoo:a100"}, "at most 10000"},
		{[]string{"r:1:5:20", "r:1:6:20"}, `"r" is there twice`},
		{[]string{"zoo:a100", "zoo:a100/BERT"}, `"BERT" is there twice`},
		{[]string{"nowhere.csv"}, "nowhere.csv: no such file"},
		{[]string{blank}, "blank.csv:3: blank line"},
	} {
		_, err := ParseModels(c.texts)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--models") {
			t.Errorf("%q: error %v, want one of --models with %q", c.texts, err, c.want)
		}
	}
}

// TestEveryPolicyRuns: each name serves a light load.
func TestEveryPolicyRuns(t *testing.T) {
	for _, name := range Policies() {
		s := small()
		s.Rate, s.Policy = 100, strings.NewReplacer(":K", ":0.3", ":H", ":0.25", ":S", ":0.5+shed+cap88").Replace(name)
		p, err := s.Plan()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o, err := p.Simulate(sim.Observer{}, nil)
		if err != nil || o.All.BadRate > 0.02 || o.All.Arrived < 50 {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func TestGoodScenarios(t *testing.T) {
	for name, change := range map[string]func(*Scenario){
		"gamma":           func(s *Scenario) { s.Arrivals = "gamma:0.3" },
		"uniform":         func(s *Scenario) { s.Arrivals = "uniform" },
		"constant":        func(s *Scenario) { s.Arrivals = "constant" },
		"profile":         func(s *Scenario) { s.RateProfile = "step:500ms=2" },
		"rdma":            func(s *Scenario) { s.Network = "rdma" },
		"tcp":             func(s *Scenario) { s.Network, s.Models[0].SLO = "tcp", 200*mono.Millisecond },
		"constant delays": func(s *Scenario) { s.Network, s.Bound = "constant:50us:10us", "80us:10us" },
		"jitter":          func(s *Scenario) { s.Jitter = 0.1 },
		"events":          func(s *Scenario) { s.Events = []string{"join:1@700ms", "fail:1@300ms", "leave:0@800ms", "join:2@10ms"} },
		"joins only":      func(s *Scenario) { s.GPUs, s.Events = 0, []string{"join:0@0s"} },
		"nexus":           func(s *Scenario) { s.Policy, s.Frontends = "nexus/8fe", 8 },
	} {
		s := small()
		change(&s)
		p, err := s.Plan()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o, err := p.Simulate(sim.Observer{}, nil)
		if err != nil || o.All.Goodput == 0 {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func TestBadScenarios(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Scenario)
	}{
		{"--models: none", func(s *Scenario) { s.Models = nil }},
		{"--models: r50: the SLO, 6ms, is below l(1) = 6.125ms", func(s *Scenario) { s.Models[0].SLO = 6 * mono.Millisecond }},
		{"--models: r50: the SLO, 25ms, is below l(1) = 6.125ms and the network's delay, 72.816ms", func(s *Scenario) { s.Network = "tcp" }},
		{"--models: r50: invalid latency profile", func(s *Scenario) { s.Models[0].Alpha, s.Models[0].SLO = 1800*mono.Second, 3600*mono.Second }},
		{"--gpus: 0, must be at least 1", func(s *Scenario) { s.GPUs = 0 }},
		{"--gpus: -1", func(s *Scenario) { s.GPUs = -1 }},
		{"--gpus: 9000", func(s *Scenario) { s.GPUs = 9000 }},
		{`--policy: "fifo", must be one of symphony`, func(s *Scenario) { s.Policy = "fifo" }},
		{`K is "1.5", must be a share`, func(s *Scenario) { s.Policy = "timeout:1.5" }},
		{`K is "-0.1"`, func(s *Scenario) { s.Policy = "timeout:-0.1" }},
		{`K is ""`, func(s *Scenario) { s.Policy = "timeout:" }},
		{"must be nexus/Nfe", func(s *Scenario) { s.Policy = "nexus/8" }},
		{"must be nexus/Nfe", func(s *Scenario) { s.Policy = "nexus/0fe" }},
		{"--frontends: 4, but --policy nexus/8fe has 8", func(s *Scenario) { s.Policy, s.Frontends = "nexus/8fe", 4 }},
		{"--frontends: -1", func(s *Scenario) { s.Frontends = -1 }},
		{"--rate: -5", func(s *Scenario) { s.Rate = -5 }},
		{"--rate: NaN", func(s *Scenario) { s.Rate = math.NaN() }},
		{`--arrivals: "weibull"`, func(s *Scenario) { s.Arrivals = "weibull" }},
		{`--arrivals: "gamma:x"`, func(s *Scenario) { s.Arrivals = "gamma:x" }},
		{`--arrivals: "gamma:0": the shape`, func(s *Scenario) { s.Arrivals = "gamma:0" }},
		{`--popularity: invalid workload: popularity "normal"`, func(s *Scenario) { s.Popularity = "normal" }},
		{`--rate-profile: invalid workload: profile "up"`, func(s *Scenario) { s.RateProfile = "up" }},
		{`--network: "wifi"`, func(s *Scenario) { s.Network = "wifi" }},
		{`--network: "constant:1ms"`, func(s *Scenario) { s.Network = "constant:1ms" }},
		{`--network: "constant:-1ms:0s"`, func(s *Scenario) { s.Network = "constant:-1ms:0s" }},
		{`--network: "rdma:1"`, func(s *Scenario) { s.Network = "rdma:1" }},
		{`--network-bound: "1ms"`, func(s *Scenario) { s.Bound = "1ms" }},
		{"--jitter: 1.5", func(s *Scenario) { s.Jitter = 1.5 }},
		{`--gpu-event: "fail:0"`, func(s *Scenario) { s.Events = []string{"fail:0"} }},
		{`--gpu-event: "stop:0@1ms"`, func(s *Scenario) { s.Events = []string{"stop:0@1ms"} }},
		{`--gpu-event: "fail:x@1ms"`, func(s *Scenario) { s.Events = []string{"fail:x@1ms"} }},
		{`--gpu-event: "fail:0@-1s"`, func(s *Scenario) { s.Events = []string{"fail:0@-1s"} }},
		{"GPU 5 goes at 1ms, but it is not there", func(s *Scenario) { s.Events = []string{"fail:5@1ms"} }},
		{"GPU 0 goes at 2ms, but it is not there", func(s *Scenario) { s.Events = []string{"leave:0@2ms", "fail:0@1ms"} }},
		{"GPU 1 joins at 1ms, but it is there", func(s *Scenario) { s.Events = []string{"join:1@1ms"} }},
		{"GPU 4 joins at 1ms, but the next new id is 2", func(s *Scenario) { s.Events = []string{"join:4@1ms"} }},
		{"the run ends at 1100ms", func(s *Scenario) { s.Events = []string{"fail:0@2s"} }},
		{"--detection: -1ms", func(s *Scenario) { s.Detection = -mono.Millisecond }},
		{"--detection: 5ms has no effect", func(s *Scenario) { s.Events, s.Detection = []string{"leave:0@1ms"}, 5*mono.Millisecond }},
		{"--warmup: -1ms", func(s *Scenario) { s.Warmup = -mono.Millisecond }},
		{"--duration: 0ms", func(s *Scenario) { s.Duration = 0 }},
	} {
		s := small()
		c.change(&s)
		_, err := s.Plan()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// TestRateIsDemanded: a run needs one, a search does not.
func TestRateIsDemanded(t *testing.T) {
	s := small()
	s.Rate = 0
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Simulate(sim.Observer{}, nil); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "--rate: 0") {
		t.Errorf("rate 0 was simulated: %v", err)
	}
}

// TestScenarioIsWholeInJSON: what a record says is read back, has the same
// plan, and the same outcome.
func TestScenarioIsWholeInJSON(t *testing.T) {
	s := small()
	s.Policy, s.Network, s.Events = "nexus/2fe", "rdma", []string{"fail:1@300ms"}
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	var back Scenario
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	q, err := back.Plan()
	if err != nil || !reflect.DeepEqual(p.Scenario, q.Scenario) {
		t.Fatalf("%+v was read back as %+v, %v", p.Scenario, q, err)
	}
	a, err := p.Simulate(sim.Observer{}, nil)
	b, err2 := q.Simulate(sim.Observer{}, nil)
	if err != nil || err2 != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("outcomes differ: %+v, %+v (%v, %v)", a, b, err, err2)
	}
}

func TestRowFitsHeader(t *testing.T) {
	p, err := small().Plan()
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Simulate(sim.Observer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	head, row := Header(), o.Row()
	if len(head) != len(row) {
		t.Fatalf("%d columns, %d values", len(head), len(row))
	}
	for i, name := range head {
		if want := map[string]string{"models": "r50:1.053:5.072:25", "policy": "symphony", "seed": "7", "duration_ns": "1000000000", "mode": "run"}[name]; want != "" && row[i] != want {
			t.Errorf("%s is %q, want %q", name, row[i], want)
		}
	}
}
