package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/cmd/symphony/controlcmd"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// planBefore is what --from says of what there is. Sub-clusters keep their names: a plan with others
// would have all GPUs drained and all models moved.
type planBefore struct {
	names      []string // of the sub-clusters of this device type; nil: there is no plan before
	deviceType string   // "": not known
	others     []api.PlanPart
}

// name is that of the j-th sub-cluster: the one it had, or a new one, as the controller has them.
func (b *planBefore) name(j int) string {
	if j < len(b.names) {
		return b.names[j]
	}
	prefix := ""
	if b.deviceType != "" {
		prefix = b.deviceType + "-"
	}
	taken := func(name string) bool {
		return slices.Contains(b.names, name) || slices.ContainsFunc(b.others, func(o api.PlanPart) bool { return o.Name == name })
	}
	left := j - len(b.names) // names that are free, before this one
	for n := 0; ; n++ {
		name := prefix + strconv.Itoa(n)
		switch {
		case taken(name):
		case left == 0:
			return name
		default:
			left--
		}
	}
}

// readFrom sets p.From by the plan before. Models that the plan lacks are new; those that only the
// plan has are gone.
func (c partitionCmd) readFrom(p *partition.Problem) (b planBefore, err error) {
	text, err := os.ReadFile(c.From)
	if err != nil {
		return b, fmt.Errorf("--from: %w; give the JSON of an earlier run, or of symphony plan show --json", err)
	}
	spec, err := controlcmd.ParsePlan(text)
	if err != nil {
		return b, fmt.Errorf("--from: %s: %w", c.From, err)
	}
	mine, b, err := c.ofType(spec.SubClusters)
	if err != nil {
		return b, err
	}
	if len(mine) > partition.SubClustersMost {
		return b, fmt.Errorf("--from: %s: %d sub-clusters, at most %d", c.From, len(mine), partition.SubClustersMost)
	}
	was, home := map[string]int{}, map[string]string{}
	for j, s := range append(slices.Clone(mine), b.others...) {
		for _, m := range s.Models {
			if other, ok := home[m]; ok {
				return b, fmt.Errorf("--from: %s: model %s is in sub-clusters %s and %s", c.From, m, other, s.Name)
			}
			if home[m] = s.Name; j < len(mine) {
				was[m] = j
			}
		}
	}
	for _, s := range mine {
		b.names = append(b.names, s.Name)
	}
	p.From = make([]int, len(p.Models))
	for i := range p.Models {
		name := p.Models[i].Name
		p.From[i] = -1
		if j, ok := was[name]; ok {
			p.From[i] = j
		} else if home[name] != "" {
			return b, fmt.Errorf("--from: %s: model %s is in sub-cluster %s, which is of another device type: leave it out of --models, or out of that sub-cluster", c.From, name, home[name])
		}
	}
	return b, nil
}

// ofType takes the sub-clusters of --device-type, or of the only type there is; those of none go
// with them.
func (c partitionCmd) ofType(all []api.PlanPart) (mine []api.PlanPart, b planBefore, err error) {
	var types []string
	for _, s := range all {
		if s.DeviceType != "" && !slices.Contains(types, s.DeviceType) {
			types = append(types, s.DeviceType)
		}
	}
	switch b.deviceType = c.DeviceType; {
	case c.DeviceType == "" && len(types) > 1:
		return nil, b, fmt.Errorf("--from: %s: its sub-clusters are of several device types: give --device-type, one of %s", c.From, strings.Join(types, ", "))
	case c.DeviceType == "" && len(types) == 1:
		b.deviceType = types[0]
	}
	for _, s := range all {
		if s.DeviceType == "" || s.DeviceType == b.deviceType {
			mine = append(mine, s)
		} else {
			b.others = append(b.others, s)
		}
	}
	return mine, b, nil
}
