package parts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

const monitoring = "../../../deploy/monitoring/"

// exposedMetrics are those that the parts of a system register, with their labels.
func exposedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	p := process(t, config.Set{Key: "scheduler.listen", Value: "inproc:monitored"}, config.Set{Key: "frontend.scheduler", Value: "inproc:monitored"},
		config.Set{Key: "backend.scheduler", Value: "inproc:monitored"}, config.Set{Key: "frontend.listen", Value: "inproc:monitored-data"},
		config.Set{Key: "control.ephemeral", Value: "true"}, config.Set{Key: "control.http", Value: "127.0.0.1:0"},
		config.Set{Key: "frontend.access_log", Value: filepath.Join(t.TempDir(), "access.log")})
	p.cfg.Backend.Pools = []config.Pool{{DeviceType: "emulated", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv", Models: []string{"ResNet50"}}}}}
	s, err := p.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Drain(); err != nil {
			t.Error(err)
		}
	}()
	described := make(chan *prometheus.Desc)
	go func() {
		p.registry.Describe(described)
		close(described)
	}()
	name, labels := regexp.MustCompile(`fqName: "([^"]*)"`), regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
	constant := regexp.MustCompile(`(\w+)=`)
	out := map[string][]string{}
	for d := range described {
		text := d.String()
		all := strings.FieldsFunc(labels.FindStringSubmatch(text)[1], func(r rune) bool { return r == ',' || r == ' ' })
		_, rest, _ := strings.Cut(text, "constLabels: {")
		rest, _, _ = strings.Cut(rest, "}")
		for _, c := range constant.FindAllStringSubmatch(rest, -1) {
			all = append(all, c[1])
		}
		out[name.FindStringSubmatch(text)[1]] = all
	}
	return out
}

// queries are the expressions of rules and dashboards, with what stands for a label in legends.
func queries(t *testing.T) (exprs, legends []string) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	text, err := os.ReadFile(monitoring + "rules.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			exprs, legends = append(exprs, r.Expr), append(legends, "")
		}
	}
	files, err := filepath.Glob(monitoring + "grafana-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var d struct {
			Panels []struct {
				Targets []struct{ Expr, LegendFormat string }
			}
			Templating struct{ List []struct{ Query any } }
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatal(file, err)
		}
		for _, v := range d.Templating.List {
			if metric, label, ok := labelValues(v.Query); ok {
				exprs, legends = append(exprs, "count by ("+label+") ("+metric+")"), append(legends, "")
			} else if v.Query != "prometheus" {
				t.Errorf("%s: a variable of %v", file, v.Query)
			}
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				exprs, legends = append(exprs, q.Expr), append(legends, q.LegendFormat)
			}
		}
	}
	return exprs, legends
}

// labelValues is what a dashboard's variable asks for: the values that a label of a metric has.
func labelValues(query any) (metric, label string, ok bool) {
	q, isQuery := query.(map[string]any)
	text, _ := q["query"].(string)
	m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(text)
	if !isQuery || m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// TestMonitoringAsksForWhatIsThere: each metric of rules and dashboards is one that the processes
// expose, and has the labels that it is selected, summed and told by.
func TestMonitoringAsksForWhatIsThere(t *testing.T) {
	there := exposedMetrics(t)
	metric := regexp.MustCompile(`\bsymphony_[a-z0-9_]+`)
	selected := regexp.MustCompile(`\b(symphony_[a-z0-9_]+)\{([^}]*)\}`)
	matcher := regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)"`)
	by := regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	legend := regexp.MustCompile(`\{\{(\w+)\}\}`)
	target := []string{"namespace", "job", "instance"} // given by whoever scrapes
	exprs, legends := queries(t)
	if len(exprs) < 50 {
		t.Fatalf("only %d expressions", len(exprs))
	}
	for i, expr := range exprs {
		labels := slices.Clone(target)
		for _, name := range metric.FindAllString(expr, -1) {
			base, found := name, there[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if b, cut := strings.CutSuffix(name, suffix); cut && there[name] == nil {
					base, found = b, append(slices.Clone(there[b]), "le")
				}
			}
			if _, ok := there[base]; !ok {
				t.Errorf("nobody exposes %s: %s", name, expr)
			}
			labels = append(labels, found...)
		}
		if strings.Contains(expr, "symphony:") {
			labels = append(labels, "model") // of what the rules record
		}
		for _, s := range selected.FindAllStringSubmatch(expr, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s has no label %s: %s", s[1], m[1], expr)
				}
			}
		}
		kept := labels
		for _, s := range by.FindAllStringSubmatch(expr, -1) {
			kept = nil
			for l := range strings.SplitSeq(s[1], ",") {
				kept = append(kept, strings.TrimSpace(l))
				if !slices.Contains(labels, strings.TrimSpace(l)) {
					t.Errorf("no label %q: %s", strings.TrimSpace(l), expr)
				}
			}
		}
		for _, l := range legend.FindAllStringSubmatch(legends[i], -1) {
			if !slices.Contains(kept, l[1]) {
				t.Errorf("the legend %q of %s: %q is not there any more", legends[i], expr, l[1])
			}
		}
	}
}
