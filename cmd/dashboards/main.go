// Command dashboards writes deploy/monitoring: Prometheus' recording rules and alerts, and Grafana's
// dashboards. (The rules' tests, rules_test.yaml, are written by people.)
//
//	go run ./cmd/dashboards                       # as they are committed
//	go run ./cmd/dashboards -objective 0.999 -o /etc/prometheus/symphony
//
// They are made, so that windows, outcomes and names stand in one place. That what they ask for is
// what the processes expose is a test of cmd/symphony/parts.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"
)

func main() {
	out := flag.String("o", "deploy/monitoring", "folder to write to")
	objective := flag.Float64("objective", objectiveDefault, "share of each model's requests that is to be served in time")
	flag.Parse()
	if err := run(*out, *objective); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func run(out string, objective float64) error {
	files, err := files(objective)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files are all that is written, by name.
func files(objective float64) (map[string][]byte, error) {
	if !(objective > 0 && objective < 1) {
		return nil, fmt.Errorf("-objective %g must be between 0 and 1, for example 0.99", objective)
	}
	out := map[string][]byte{}
	var err error
	if out["rules.yaml"], err = yamlText("Made by go run ./cmd/dashboards: change that, not this.", rules(objective)); err != nil {
		return nil, err
	}
	for _, d := range []dashboard{models(), cluster()} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := e.Encode(d); err != nil {
			return nil, err
		}
		out["grafana-"+d.UID+".json"] = b.Bytes()
	}
	return out, nil
}

func yamlText(head string, v any) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", head)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}
