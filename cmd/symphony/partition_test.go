package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/controlcmd"
)

// partitioned runs symphony partition with a short search.
func partitioned(t *testing.T, c partitionCmd) (out, notes string, err error) {
	t.Helper()
	if c.Clusters == "" {
		c.Clusters = "auto"
	}
	if c.Objective == "" {
		c.Objective = "balance"
	}
	if c.Time == 0 {
		c.Time = 200 * time.Millisecond
	}
	c.Seed = 1
	var o, n bytes.Buffer
	err = c.run(t.Context(), &o, &n)
	return o.String(), n.String(), err
}

func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const modelsCSV = `name,rate,static,dynamic,slo,alpha,beta,cost
a,40,400MiB,100MiB,25ms,0.3ms,5ms,1
b,30,300MiB,100MiB,25ms,0.3ms,5ms,1
c,20,200MiB,100MiB,25ms,0.3ms,5ms,1
d,10,100MiB,100MiB,25ms,0.3ms,5ms,1
`

func planOf(t *testing.T, text string) planDoc {
	t.Helper()
	var d planDoc
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return d
}

// The three forms of a file say the same.
func TestPartitionForms(t *testing.T) {
	yaml := "models:\n  - {name: a, rate: 40, static: 400MiB, dynamic: 100MiB, slo: 25ms, alpha: 0.3ms, beta: 5ms, cost: 1}\n" +
		"  - {name: b, rate: 30, static: 300MiB, dynamic: 100MiB, slo: 25ms, alpha: 0.3ms, beta: 5ms, cost: 1}\n" +
		"  - {name: c, rate: 20, static: 200MiB, dynamic: 100MiB, slo: 25ms, alpha: 0.3ms, beta: 5ms, cost: 1}\n" +
		"  - {name: d, rate: 10, static: 100MiB, dynamic: 100MiB, slo: 25ms, alpha: 0.3ms, beta: 5ms, cost: 1}\n"
	list := `[{"name":"a","rate":40,"static":"400MiB","dynamic":"100MiB","slo":"25ms","alpha":"0.3ms","beta":"5ms","cost":1},
{"name":"b","rate":30,"static":314572800,"dynamic":"100MiB","slo":"25ms","alpha":"0.3ms","beta":"5ms","cost":1},
{"name":"c","rate":20,"static":"200MiB","dynamic":"100MiB","slo":"25ms","alpha":"0.3ms","beta":"5ms","cost":1},
{"name":"d","rate":10,"static":"100MiB","dynamic":"100MiB","slo":"25ms","alpha":"0.3ms","beta":"5ms","cost":1}]`
	first := ""
	for name, text := range map[string]string{"m.csv": modelsCSV, "m.yaml": yaml, "m.json": list} {
		out, _, err := partitioned(t, partitionCmd{Models: fileOf(t, name, text), Clusters: "2", JSON: "-"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if first == "" {
			first = out
		}
		if out != first {
			t.Errorf("%s differs:\n%s\n%s", name, out, first)
		}
	}
	d := planOf(t, first)
	if d.Rate != 0 || d.Static != 0 || len(d.SubClusters) != 2 || d.Gap != 0 || d.SubClusters[0].Need <= 0 || d.SubClusters[0].GPUs < 1 {
		t.Errorf("a and d, b and c are equal in both: %+v", d)
	}
}

// An epoch later: rates are others, a model is new, one is gone; the bound on the cost is kept, and what moves is told.
func TestPartitionFrom(t *testing.T) {
	dir := t.TempDir()
	plan, picture := filepath.Join(dir, "plan.json"), filepath.Join(dir, "p.svg")
	if _, _, err := partitioned(t, partitionCmd{Models: fileOf(t, "m.csv", modelsCSV), Clusters: "2", JSON: plan}); err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(strings.Replace(modelsCSV, "a,40", "a,10", 1), "d,10,", "e,10,", 1)
	for _, c := range []struct {
		cost  string
		moves bool
	}{{"1", false}, {"", true}, {"75%", true}} {
		out, _, err := partitioned(t, partitionCmd{Models: fileOf(t, "m.csv", later), Clusters: "2", From: plan, MaxCost: c.cost, JSON: filepath.Join(dir, "next.json"), Picture: picture, Moved: 20})
		if err != nil {
			t.Fatalf("--max-cost %q: %v", c.cost, err)
		}
		text, _ := os.ReadFile(filepath.Join(dir, "next.json"))
		d := planOf(t, string(text))
		if c.cost == "1" && d.Cost != 1 || c.cost == "75%" && d.Cost > 3 || (len(d.Moved) > 0) != c.moves {
			t.Errorf("--max-cost %q: %+v", c.cost, d)
		}
		if !strings.Contains(out, "before, with these rates") || !strings.Contains(out, "1 are new") {
			t.Errorf("the table:\n%s", out)
		}
	}
	for _, name := range []string{"p.svg", "p.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err := partitioned(t, partitionCmd{Models: fileOf(t, "m.csv", later), Clusters: "2", From: plan, MaxCost: "0"})
	if err == nil || !strings.Contains(err.Error(), "a cost bound raised by 1") {
		t.Errorf("a new model costs 1 to load: %v", err)
	}
}

// auto: as few as memory allows; and our objective deals GPUs.
func TestPartitionAuto(t *testing.T) {
	out, _, err := partitioned(t, partitionCmd{Models: fileOf(t, "m.csv", modelsCSV), Memory: "600MiB", Objective: "gpus", JSON: "-"})
	if err != nil {
		t.Fatal(err)
	}
	if d := planOf(t, out); len(d.SubClusters) != 2 || d.Objective != "gpus" || d.Value <= 0 {
		t.Errorf("%+v", d)
	}
	out, _, err = partitioned(t, partitionCmd{Models: "zoo:60:2", Memory: "80GiB", GPUs: 7, JSON: "-"})
	if err != nil {
		t.Fatal(err)
	}
	if d := planOf(t, out); len(d.SubClusters) != 1 || d.SubClusters[0].GPUs != 7 || len(d.SubClusters[0].Models) != 60 {
		t.Errorf("%+v", d)
	}
}

// By steps one seed has one plan; by objective they differ.
func TestPartitionSteps(t *testing.T) {
	of := func(objective string) string {
		out, _, err := partitioned(t, partitionCmd{Models: "zoo:200:5", Clusters: "5", Memory: "16GiB", Objective: objective, Steps: 400_000, JSON: "-"})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if a, b := of("balance"), of("balance"); a != b {
		t.Error("one seed, two plans")
	}
	if a, b := planOf(t, of("balance")), planOf(t, of("gpus")); a.Rate > 0.001 || b.Objective != "gpus" || b.Rate < a.Rate {
		t.Errorf("imbalance of %g by balance, %g by gpus", a.Rate, b.Rate)
	}
}

// Ctrl-C ends the search with what there is.
func TestPartitionInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, notes bytes.Buffer
	c := partitionCmd{Models: "zoo:100", Clusters: "4", Objective: "balance", Time: time.Hour, JSON: "-"}
	if err := c.run(ctx, &out, &notes); err != nil {
		t.Fatal(err)
	}
	if d := planOf(t, out.String()); len(d.SubClusters) != 4 || !strings.Contains(notes.String(), "best so far") {
		t.Errorf("%+v: %s", d, notes.String())
	}
}

// What is wrong is named by line and field, or by flag, with what to do.
func TestPartitionRefuses(t *testing.T) {
	m := fileOf(t, "m.csv", modelsCSV)
	with := func(from, to string) string { return fileOf(t, "m.csv", strings.Replace(modelsCSV, from, to, 1)) }
	for _, c := range []struct {
		cmd  partitionCmd
		want string
	}{
		{partitionCmd{Models: "none.csv"}, "--models: open none.csv"},
		{partitionCmd{Models: fileOf(t, "m.txt", "")}, "must end in .csv"},
		{partitionCmd{Models: fileOf(t, "m.csv", "")}, "no models"},
		{partitionCmd{Models: fileOf(t, "m.csv", "name,speed\n")}, "m.csv:1: speed: no such column"},
		{partitionCmd{Models: with("b,30", "b,many")}, `m.csv:3: rate: "many"`},
		{partitionCmd{Models: with("b,30", "b,-1")}, `m.csv:3: rate: "-1"`},
		{partitionCmd{Models: with("b,30", "a,30")}, `m.csv:3: name: "a" is in line 2`},
		{partitionCmd{Models: with("b,30", "b,")}, "m.csv:3: rate: lacks"},
		{partitionCmd{Models: with("200MiB", "200MB")}, `m.csv:4: static: "200MB"`},
		{partitionCmd{Models: with("25ms", "25")}, `m.csv:2: slo: "25"`},
		{partitionCmd{Models: with("25ms", "3ms")}, "m.csv:2: slo: 3ms, must be at least l(1), 5.3ms"},
		{partitionCmd{Models: with("d,10,100MiB", "d,10")}, "m.csv: record on line 5: wrong number of fields"},
		{partitionCmd{Models: fileOf(t, "m.yaml", "- name: a\n  rate: 1\n  size: 3\n")}, "m.yaml:3: size: no such field"},
		{partitionCmd{Models: fileOf(t, "m.yaml", "a: 1\n")}, "must be a list"},
		{partitionCmd{Models: fileOf(t, "m.yaml", "- name: a\n  rate: [1]\n")}, "m.yaml:2: rate: must be one value"},
		{partitionCmd{Models: fileOf(t, "m.csv", "name,rate,profile\na,1,ResNet\n")}, `m.csv:2: profile: "ResNet" is no model`},
		{partitionCmd{Models: fileOf(t, "m.csv", "name,rate\na,1\n"), Objective: "gpus"}, "model a: its need is not known: give need"},
		{partitionCmd{Models: "zoo:0"}, "write zoo:N"},
		{partitionCmd{Models: m, Clusters: "0"}, "--clusters"},
		{partitionCmd{Models: m, Memory: "80GB"}, "--memory"},
		{partitionCmd{Models: m, MaxCost: "5%"}, "give --from PLAN"},
		{partitionCmd{Models: m, From: m}, "it is no plan: write JSON or YAML with sub_clusters"},
		{partitionCmd{Models: m, From: fileOf(t, "p.json", `{"sub_clusters":[{"name":"a","modles":[]}]}`)}, "sub_clusters[0].modles: there is no such field, the nearest is models"},
		{partitionCmd{Models: m, DeviceType: "a/b"}, "--device-type: \"a/b\" is no device type"},
		{partitionCmd{Models: m, Picture: "x.gif"}, "--picture"},
		{partitionCmd{Models: m, RateMax: -1}, "--rate-max"},
		{partitionCmd{Models: m, Clusters: "2", Memory: "450MiB"}, "model a alone asks for 500.00 MiB"},
		{partitionCmd{Models: m, Clusters: "2", Memory: "550MiB"}, "1 more sub-cluster (3), or 50"},
		{partitionCmd{Models: m, Clusters: "2", RateMax: 45}, "requests/s of a sub-cluster: 100, at most 90; it needs 1 more sub-cluster (3), or "},
	} {
		if _, _, err := partitioned(t, c.cmd); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cmd, err, c.want)
		}
	}
}

// Of a plan of several schedulers one's sub-clusters are divided anew; the others' stay, though they are
// called alike.
func TestPartitionOfOneScheduler(t *testing.T) {
	m := fileOf(t, "m.csv", "name,rate,static,dynamic\nk/1,40,1GiB,1MiB\nl/1,30,1GiB,1MiB\n")
	shown := fileOf(t, "shown.json", `{"state": {}, "plan": {"epoch": 8, "models": 4, "gpus": 6, "need": 1, "moves": 0, "steps": 0, "steps_done": 0, "lost": ["inproc:b"],
"plans": [{"epoch": 8, "scheduler": "inproc:a"}, {"epoch": 7, "scheduler": "inproc:b"}], "sub_clusters": [
{"name": "t-0", "device_type": "t", "scheduler": "inproc:a", "models": ["k/1", "l/1"], "gpus": 2, "need": 1, "seated": 2, "rate": 0, "busy": 0},
{"name": "t-0", "device_type": "t", "scheduler": "inproc:b", "models": ["m/1"], "gpus": 2, "need": 0.25, "seated": 2, "rate": 0, "busy": 0},
{"name": "t-1", "device_type": "t", "scheduler": "inproc:b", "models": ["n/1"], "gpus": 2, "need": 0.25, "seated": 2, "rate": 0, "busy": 0}]}}`)
	if _, _, err := partitioned(t, partitionCmd{Models: m, Clusters: "2", From: shown}); err == nil || !strings.Contains(err.Error(), "are of several schedulers: give --scheduler, one of inproc:a, inproc:b") {
		t.Errorf("%v", err)
	}
	if _, _, err := partitioned(t, partitionCmd{Models: m, Clusters: "2", From: shown, Scheduler: "inproc:b"}); err == nil || !strings.Contains(err.Error(), "model k/1 is in sub-cluster t-0 at inproc:a, which is another scheduler's") {
		t.Errorf("%v", err)
	}
	out, _, err := partitioned(t, partitionCmd{Models: m, Clusters: "2", From: shown, Scheduler: "inproc:a", JSON: "-"})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := controlcmd.ParsePlan([]byte(out))
	if err == nil {
		err = spec.Check()
	}
	if err != nil || len(spec.SubClusters) != 4 {
		t.Fatalf("%v: %s", err, out)
	}
	var got []string
	for _, s := range spec.SubClusters {
		got = append(got, s.Scheduler+" "+s.Name+" "+s.DeviceType)
	}
	if want := []string{"inproc:a t-0 t", "inproc:a t-1 t", "inproc:b t-0 t", "inproc:b t-1 t"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if b := spec.SubClusters[2]; b.GPUs != 2 || b.Need != 0.25 || !slices.Equal(b.Models, []string{"m/1"}) {
		t.Errorf("b's: %+v", b)
	}
}
