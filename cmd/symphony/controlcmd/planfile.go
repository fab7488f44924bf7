package controlcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// readPlan reads a plan's file; typ is the device type of sub-clusters that have none.
func (s *session) readPlan(path, typ string) (spec api.PlanSpec, err error) {
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
		spec, err = ParsePlan(data)
	}
	if err == nil {
		err = s.setTypes(&spec, typ)
	}
	if err == nil {
		err = spec.Check()
	}
	if err != nil {
		return spec, fmt.Errorf("--file: %s: %w", name, err)
	}
	return spec, nil
}

// setTypes gives sub-clusters without a device type that one, or the one of the plan in force.
func (s *session) setTypes(spec *api.PlanSpec, typ string) error {
	none := func(p api.PlanPart) bool { return p.DeviceType == "" }
	first := slices.IndexFunc(spec.SubClusters, none)
	if first < 0 {
		return nil
	}
	if typ == "" {
		now, err := s.Plan(s.ctx)
		if err != nil {
			return err
		}
		var types []string
		for _, c := range now.SubClusters {
			if !slices.Contains(types, c.DeviceType) {
				types = append(types, c.DeviceType)
			}
		}
		if len(types) != 1 {
			there := ""
			if len(types) > 0 {
				there = ": one of " + strings.Join(types, ", ")
			}
			return fmt.Errorf("sub-cluster %q has no device_type: give --device-type TYPE%s", spec.SubClusters[first].Name, there)
		}
		typ = types[0]
	}
	for i := range spec.SubClusters {
		if p := &spec.SubClusters[i]; none(*p) {
			p.DeviceType = typ
		}
	}
	return nil
}

// toldOfPlan and toldOfPart are what commands write into a plan beside what it wants: what
// symphony plan show tells of it, and what symphony partition has found.
func toldOfPlan() []string {
	return append(others(reflect.TypeFor[api.Plan](), reflect.TypeFor[api.PlanSpec]()), "objective", "imbalance_rate", "imbalance_static", "value", "bound", "gap", "cost", "found_by", "moved")
}

func toldOfPart() []string {
	return append(others(reflect.TypeFor[api.SubCluster](), reflect.TypeFor[api.PlanPart]()), "static_bytes", "dynamic_bytes", "paged")
}

// others are the fields of a document that another one has not.
func others(of, not reflect.Type) (names []string) {
	have := map[string]bool{}
	for f := range not.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		have[name] = true
	}
	for f := range of.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !have[name] {
			names = append(names, name)
		}
	}
	return names
}

// ParsePlan reads a plan, JSON or YAML: what symphony partition --json or symphony plan show --json
// wrote, or a document with sub_clusters of people's own. Unknown fields are refused. The plan is
// not checked: sub-clusters may lack a device type.
func ParsePlan(data []byte) (spec api.PlanSpec, err error) {
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil { // JSON is YAML
		return spec, fmt.Errorf("it is no plan, neither in JSON nor in YAML: %w", err)
	}
	tree, ok := doc.(map[string]any)
	if !ok {
		return spec, errors.New("it is no plan: write JSON or YAML with sub_clusters, as symphony plan show --json and symphony partition --json do")
	}
	if inner, shown := tree["plan"].(map[string]any); shown {
		tree = inner
	}
	_, shown := tree["epoch"]
	_, found := tree["found_by"]
	if shown || found {
		for _, name := range toldOfPlan() {
			delete(tree, name)
		}
	}
	parts, _ := tree["sub_clusters"].([]any)
	if len(parts) == 0 {
		return spec, errors.New("it has no sub_clusters: list them with name, device_type, models and gpus; symphony plan show --json prints those in force, and symphony partition --json writes some")
	}
	for _, p := range parts {
		if part, ok := p.(map[string]any); ok {
			for _, name := range toldOfPart() {
				delete(part, name)
			}
		}
	}
	b, err := json.Marshal(tree)
	if err == nil {
		err = api.Decode(b, &spec)
	}
	return spec, err
}
