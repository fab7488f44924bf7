package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/cmd/symphony/controlcmd"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
)

// command runs a command line of the binary, and returns what it has printed.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, err := newParser().Parse(args)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	err = ctx.Run()
	os.Stdout = stdout
	text, rerr := os.ReadFile(file.Name())
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(text), err
}

// served is a control plane with the models a to e, version 1.
func served(t *testing.T) (*fakecontrol.Control, func(args ...string) (string, error)) {
	f := &fakecontrol.Control{}
	s := httptest.NewServer(api.New(f, api.Options{}))
	t.Cleanup(s.Close)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if _, err := f.PutVersion(t.Context(), name, "1", api.VersionSpec{Source: "file:///m"}); err != nil {
			t.Fatal(err)
		}
	}
	return f, func(args ...string) (string, error) {
		return command(t, append(args, "--control", s.URL, "--patience", "0s")...)
	}
}

// keyed are the models of a file as the control plane calls them.
func keyed() string {
	text := modelsCSV
	for _, name := range []string{"a", "b", "c", "d"} {
		text = strings.Replace(text, "\n"+name+",", "\n"+name+"/1,", 1)
	}
	return text
}

// One format goes round: what partition writes is applied, what plan show prints is applied and is
// where the next partition begins; and sub-clusters keep their names all the way.
func TestPlansGoRound(t *testing.T) {
	f, control := served(t)
	dir := t.TempDir()
	first, shown, next := filepath.Join(dir, "first.json"), filepath.Join(dir, "shown.json"), filepath.Join(dir, "next.json")
	models := fileOf(t, "m.csv", keyed())
	divide := func(args ...string) {
		t.Helper()
		if _, err := command(t, append([]string{"partition", "--models", models, "--clusters", "2", "--steps", "100000", "--solver", "0s"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	divide("--device-type", "emulated", "--json", first)
	if out, err := control("plan", "apply", "--file", first); err != nil || !strings.Contains(out, "4 models") {
		t.Fatalf("what partition wrote: %v\n%s", err, out)
	}
	homes := func() map[string]string {
		t.Helper()
		p, err := f.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]string{}
		for _, c := range p.SubClusters {
			for _, m := range c.Models {
				of[m] = c.Name + " of " + c.DeviceType
			}
		}
		return of
	}
	before := homes()
	if len(before) != 4 || before["a/1"] == before["b/1"] || !strings.HasPrefix(before["a/1"], "emulated-") || !strings.HasSuffix(before["a/1"], " of emulated") {
		t.Fatalf("%v", before)
	}
	out, err := control("plan", "show", "--json")
	if err != nil || os.WriteFile(shown, []byte(out), 0o600) != nil {
		t.Fatal(err)
	}
	if out, err := control("plan", "apply", "--file", shown); err != nil || !strings.Contains(out, "plan 2") {
		t.Fatalf("what plan show printed: %v\n%s", err, out)
	}
	divide("--from", shown, "--max-cost", "0", "--json", next) // nothing may move, and the type is that of the plan
	if out, err := control("plan", "apply", "--file", next); err != nil || !strings.Contains(out, "plan 3") {
		t.Fatalf("what partition made of it: %v\n%s", err, out)
	}
	for m, home := range homes() {
		if home != before[m] {
			t.Errorf("%s was in %s and is in %s", m, before[m], home)
		}
	}
}

// A plan without device types gets that of --device-type, or that of the plan in force.
func TestPlanGetsItsDeviceType(t *testing.T) {
	f, control := served(t)
	untyped := filepath.Join(t.TempDir(), "plan.json")
	if _, err := command(t, "partition", "--models", fileOf(t, "m.csv", keyed()), "--clusters", "2", "--steps", "100000", "--solver", "0s", "--json", untyped); err != nil {
		t.Fatal(err)
	}
	if _, err := control("plan", "apply", "--file", untyped); err == nil || !strings.Contains(err.Error(), `sub-cluster "0" has no device_type: give --device-type TYPE`) {
		t.Fatalf("nobody says which: %v", err)
	}
	for i, args := range [][]string{{"--device-type", "a100"}, nil} {
		if _, err := control(append([]string{"plan", "apply", "--file", untyped}, args...)...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if p, err := f.Plan(t.Context()); err != nil || p.Epoch != uint64(i+1) || len(p.SubClusters) != 2 || p.SubClusters[0].DeviceType != "a100" {
			t.Errorf("%v: %+v, %v", args, p, err)
		}
	}
	bare := strings.ReplaceAll(keyed(), "/1,", ",")
	if _, err := command(t, "partition", "--models", fileOf(t, "m.csv", bare), "--clusters", "2", "--steps", "100000", "--solver", "0s", "--json", untyped); err != nil {
		t.Fatal(err)
	}
	if _, err := control("plan", "apply", "--file", untyped); err == nil || !strings.Contains(err.Error(), "names no version: write NAME/VERSION") {
		t.Errorf("models without versions: %v", err)
	}
	if _, err := control("plan", "apply", "--device-type", "a100"); err == nil || !strings.Contains(err.Error(), "--file") {
		t.Errorf("a device type without a file: %v", err)
	}
}

// Of a plan of several device types one is divided; what is of the others stays in the plan.
func TestPartitionOfOneType(t *testing.T) {
	_, control := served(t)
	from := fileOf(t, "from.yaml", `sub_clusters:
- {name: big, device_type: h100, models: [a/1, b/1], gpus: 2}
- {name: a100-0, device_type: h100, models: [e/1], gpus: 1}
- {name: small, device_type: a100, models: [c/1], gpus: 1}
`)
	divide := func(models string, args ...string) error {
		_, err := command(t, append([]string{"partition", "--models", models, "--steps", "100000", "--solver", "0s", "--from", from}, args...)...)
		return err
	}
	rows := strings.Split(keyed(), "\n")
	two := fileOf(t, "m.csv", strings.Join([]string{rows[0], rows[3], rows[4], ""}, "\n")) // c and d
	if err := divide(two, "--clusters", "2"); err == nil || !strings.Contains(err.Error(), "--device-type, one of h100, a100") {
		t.Errorf("of which type? %v", err)
	}
	next := filepath.Join(t.TempDir(), "next.json")
	if err := divide(two, "--clusters", "2", "--device-type", "a100", "--json", next); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := controlcmd.ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range spec.SubClusters {
		names = append(names, s.Name+" "+s.DeviceType)
	}
	if want := []string{"small a100", "a100-1 a100", "big h100", "a100-0 h100"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if out, err := control("plan", "apply", "--file", next); err != nil || !strings.Contains(out, "5 models") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := divide(fileOf(t, "m.csv", keyed()), "--clusters", "2", "--device-type", "a100"); err == nil || !strings.Contains(err.Error(), "model a/1 is in sub-cluster big, which is of another device type") {
		t.Errorf("a model of the other type: %v", err)
	}
	if err := divide(two, "--clusters", "1", "--device-type", "a100", "--picture", filepath.Join(t.TempDir(), "p.svg")); err != nil {
		t.Error(err)
	}
}
