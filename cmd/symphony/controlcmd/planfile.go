package controlcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"gopkg.in/yaml.v3"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// readPlan reads a plan of people's own, JSON or YAML: what `symphony plan show --json` prints
// is one, and so is its part "plan", or a document with sub_clusters alone.
func (s *session) readPlan(path string) (spec api.PlanSpec, err error) {
	in, name := s.in, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return spec, fmt.Errorf("--file: %w", err)
		}
		defer f.Close()
		in, name = f, path
	}
	data, err := io.ReadAll(io.LimitReader(in, api.PlanBodyMax+1))
	if err == nil && len(data) > api.PlanBodyMax {
		err = fmt.Errorf("has more than %d bytes", api.PlanBodyMax)
	}
	if err == nil {
		spec, err = parsePlan(data)
	}
	if err != nil {
		return spec, fmt.Errorf("--file: %s: %w", name, err)
	}
	return spec, nil
}

// parsePlan takes JSON for YAML, which it is. What a plan shows beside what it wants (its
// state, what is in service) is left out.
func parsePlan(data []byte) (spec api.PlanSpec, err error) {
	var tree map[string]any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return spec, err
	}
	if inner, shown := tree["plan"].(map[string]any); shown {
		tree = inner
	}
	if _, planned := tree["epoch"]; planned {
		tree = map[string]any{"sub_clusters": tree["sub_clusters"]}
	}
	parts, _ := tree["sub_clusters"].([]any)
	if len(parts) == 0 {
		return spec, errors.New("it has no sub_clusters: list them with name, device_type, models and gpus; symphony plan show --json prints those in force")
	}
	for _, p := range parts {
		if part, ok := p.(map[string]any); ok {
			for _, shown := range []string{"seated", "rate", "busy"} {
				delete(part, shown)
			}
		}
	}
	b, err := json.Marshal(tree)
	if err == nil {
		err = api.Decode(b, &spec)
	}
	if err == nil {
		err = spec.Check()
	}
	return spec, err
}
