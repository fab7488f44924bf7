package simcmd

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// TestOutputsAreOpenedFirst: nothing is simulated when one cannot be written,
// and what is there already stays as it is.
func TestOutputsAreOpenedFirst(t *testing.T) {
	dir := t.TempDir()
	j, kept := filepath.Join(dir, "r.json"), filepath.Join(dir, "kept.jsonl")
	if err := os.WriteFile(j, []byte("older"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := simulated(t, "--rate=900", "--json", j, "--csv", filepath.Join(dir, "no", "r.csv"), "--resume", kept)
	if err == nil || !strings.Contains(err.Error(), "--csv: open") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(kept); err == nil {
		t.Error("the simulation began")
	}
	stopped := func() bool { return true }
	if _, _, err := simulatedUntil(t, stopped, "--rate=900", "--json", j, "--csv", filepath.Join(dir, "r.csv")); err == nil {
		t.Error("a run that was stopped has no error")
	}
	if text, _ := os.ReadFile(j); string(text) != "older" {
		t.Errorf("without a result the file became %q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "r.csv")); err == nil {
		t.Error("without a result there is an empty file")
	}
	if _, _, err := simulated(t, "--rate=900", "--json", j); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(j); !strings.HasPrefix(string(text), "{") || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("the file holds %.40q", text)
	}
}

// TestOutputsAreApart: by path, through a link, and from what is read.
func TestOutputsAreApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	models := "model,alpha_ms,beta_ms,slo_ms\nA,1,5,20\n"
	if err := os.WriteFile(at("m.csv"), []byte(models), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("m.csv"), at("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--json", at("x"), "--csv", at("x")}, "--csv: " + at("x") + " is the file of --json"},
		{[]string{"--json", at("x"), "--csv", dir + "/./x"}, "is the file of --json"},
		{[]string{"--json", at("x"), "--resume", at("x")}, "--json: " + at("x") + " is the file of --resume"},
		{[]string{"--json", at("x.png"), "--timeline", at("x.svg")}, "--timeline: " + at("x.png") + " is the file of --json"},
		{[]string{"--json", at("link"), "--csv", at("m.csv")}, "is the file of --json"},
		{[]string{"--csv", at("link"), "--models", at("m.csv")}, "is the file of --models"},
		{[]string{"--csv", at("link"), "--models", "2x" + at("m.csv")}, "is the file of --models"},
	} {
		if _, _, err := simulated(t, append(c.flags, "--rate=900")...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.flags, err, c.want)
		}
	}
	if text, _ := os.ReadFile(at("m.csv")); string(text) != models {
		t.Errorf("the models are now %q", text)
	}
	if left, _ := filepath.Glob(at("x*")); left != nil {
		t.Errorf("refused runs left %v", left)
	}
	if _, _, err := simulated(t, "--rate=900", "--json=/dev/null", "--csv=/dev/null"); err != nil {
		t.Errorf("a device may be written twice: %v", err)
	}
}

// TestHelpNamesEveryPolicy.
func TestHelpNamesEveryPolicy(t *testing.T) {
	f, _ := reflect.TypeFor[Command]().FieldByName("Policy")
	words := strings.FieldsFunc(f.Tag.Get("help"), func(r rune) bool { return strings.ContainsRune(" ,.()", r) })
	named := map[string]bool{}
	for _, w := range words {
		named[w] = true
	}
	for _, p := range scenario.Policies() {
		if !named[p] {
			t.Errorf("the help of --policy lacks %s", p)
		}
	}
}
