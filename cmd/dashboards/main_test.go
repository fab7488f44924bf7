package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const committed = "../../deploy/monitoring"

// TestCommitted: what is in the repository is what this command makes.
func TestCommitted(t *testing.T) {
	made, err := files(objectiveDefault)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range made {
		there, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil || !bytes.Equal(there, text) {
			t.Errorf("%s is not what go run ./cmd/dashboards makes (%v): run it", name, err)
		}
	}
	for _, bad := range []float64{0, 1, -1, 99} {
		if _, err := files(bad); err == nil || !strings.Contains(err.Error(), "0.99") {
			t.Errorf("objective %g: %v", bad, err)
		}
	}
	if err := run(filepath.Join(t.TempDir(), "new", "folder"), 0.999); err != nil {
		t.Error(err)
	}
}

// TestBurns: an objective's limits are its budget times the factor, and each alert's windows are recorded.
func TestBurns(t *testing.T) {
	recorded := map[string]bool{}
	for _, r := range records() {
		recorded[r.Record] = true
	}
	for i, a := range sloAlerts(0.999) {
		b := burns()[i]
		if want := fmt.Sprintf("> %g and", b.factor/1000); !strings.Contains(a.Expr, want) {
			t.Errorf("%s: no %q", a.Expr, want)
		}
		for _, w := range []string{b.long, b.short} {
			if !recorded["symphony:bad_ratio:rate"+w] || !recorded["symphony:requests_bad:rate"+w] {
				t.Errorf("window %s is not recorded", w)
			}
		}
	}
}

// TestPanels: no two panels lie on each other, each asks for something, and ids are unique.
func TestPanels(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range []dashboard{models(), cluster()} {
		if uids[d.UID] {
			t.Errorf("two dashboards are %s", d.UID)
		}
		uids[d.UID] = true
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" {
				t.Errorf("%s: panel %d %q", d.UID, p.ID, p.Title)
			}
			ids[p.ID] = true
			if p.Type != "row" && (len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "") {
				t.Errorf("%s: %s asks for nothing, or has no unit", d.UID, p.Title)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= columns {
						t.Fatalf("%s: %s lies on %q", d.UID, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

// TestPromtool: Prometheus' own tool takes the rules, finds their tests right, and parses what the
// dashboards ask for. make test-rules fetches it.
func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("SYMPHONY_REQUIRE_PROMTOOL") != "" {
			t.Fatal(err)
		}
		t.Skip("no promtool: make test-rules fetches it")
	}
	asked := ruleFile{}
	for _, d := range []dashboard{models(), cluster()} {
		g := group{Name: d.UID}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				expr := strings.NewReplacer("$__rate_interval", "1m", "$model", "m", "$pool", "p").Replace(q.Expr)
				g.Rules = append(g.Rules, rule{Record: fmt.Sprintf("panel:%d:%s", p.ID, q.RefID), Expr: expr})
			}
		}
		asked.Groups = append(asked.Groups, g)
	}
	text, err := yaml.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	queries := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(queries, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"check", "rules", queries}, {"test", "rules", "rules_test.yaml"}} {
		c := exec.Command(tool, args...)
		c.Dir = committed
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestDashboardJSON: what Grafana reads has no field empty that it takes for something.
func TestDashboardJSON(t *testing.T) {
	made, err := files(objectiveDefault)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range made {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		var d map[string]any
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		if d["uid"] == "" || d["title"] == "" || d["id"] != nil || len(d["panels"].([]any)) < 10 {
			t.Errorf("%s: %v", name, d["title"])
		}
	}
}
