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
	names      []string // of the sub-clusters of this device type and scheduler; nil: there is no plan before
	deviceType string   // "": not known
	scheduler  string   // "": the only one
	others     []api.PlanPart
	paged      string // why weights come and go in the plan that is made; "": they do not
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
		return slices.Contains(b.names, name) || slices.ContainsFunc(b.others, func(o api.PlanPart) bool { return o.Name == name && o.Scheduler == b.scheduler })
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
	mine, b, err := c.chosen(spec.SubClusters)
	if err != nil {
		return b, err
	}
	if len(mine) > partition.SubClustersMost {
		return b, fmt.Errorf("--from: %s: %d sub-clusters, at most %d", c.From, len(mine), partition.SubClustersMost)
	}
	was, home := map[string]int{}, map[string]api.PlanPart{}
	for j, s := range append(slices.Clone(mine), b.others...) {
		for _, m := range s.Models {
			if other, ok := home[m]; ok {
				return b, fmt.Errorf("--from: %s: model %s is in sub-clusters %s and %s", c.From, m, placeOf(other), placeOf(s))
			}
			if home[m] = s; j < len(mine) {
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
		} else if other, ok := home[name]; ok {
			what := "of another device type"
			if other.Scheduler != b.scheduler {
				what = "another scheduler's"
			}
			return b, fmt.Errorf("--from: %s: model %s is in sub-cluster %s, which is %s: leave it out of --models, or out of that sub-cluster", c.From, name, placeOf(other), what)
		}
	}
	return b, nil
}

// placeOf names a sub-cluster, with its scheduler where there are several.
func placeOf(s api.PlanPart) string {
	if s.Scheduler == "" {
		return s.Name
	}
	return s.Name + " at " + s.Scheduler
}

// chosen takes the sub-clusters of --scheduler and --device-type, or of the only ones there are; those
// that name none go with them.
func (c partitionCmd) chosen(all []api.PlanPart) (mine []api.PlanPart, b planBefore, err error) {
	if b.scheduler, err = c.only(all, c.Scheduler, "scheduler", "of several schedulers", func(s *api.PlanPart) string { return s.Scheduler }); err != nil {
		return nil, b, err
	}
	var here []api.PlanPart
	for _, s := range all {
		if s.Scheduler == "" || s.Scheduler == b.scheduler {
			here = append(here, s)
		} else {
			b.others = append(b.others, s)
		}
	}
	if b.deviceType, err = c.only(here, c.DeviceType, "device-type", "of several device types", func(s *api.PlanPart) string { return s.DeviceType }); err != nil {
		return nil, b, err
	}
	for _, s := range here {
		if s.DeviceType == "" || s.DeviceType == b.deviceType {
			mine = append(mine, s)
		} else {
			b.others = append(b.others, s)
		}
	}
	return mine, b, nil
}

// only is what a flag says of --from's sub-clusters, or what all of them have that have any.
func (c partitionCmd) only(all []api.PlanPart, said, flag, what string, of func(*api.PlanPart) string) (string, error) {
	if said != "" {
		return said, nil
	}
	var there []string
	for i := range all {
		if x := of(&all[i]); x != "" && !slices.Contains(there, x) {
			there = append(there, x)
		}
	}
	switch len(there) {
	case 0:
		return "", nil
	case 1:
		return there[0], nil
	}
	return "", fmt.Errorf("--from: %s: its sub-clusters are %s: give --%s, one of %s", c.From, what, flag, strings.Join(there, ", "))
}
