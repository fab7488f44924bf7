package lead

import (
	"maps"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
)

// Device types are planned apart: where the models of one cannot be divided, its part of the last
// plan goes on, and the others get their plan.

// lasting is what goes on of a type that no plan could be made of: the last plan's sub-clusters, or
// those that there are, with the models that are still wanted there and as many GPUs as are left.
func (l *Lead) lasting(p *Part) (out []plan.SubCluster) {
	wanted := map[string]bool{}
	for _, key := range slices.Concat(p.keys, p.local) {
		wanted[key] = true
	}
	find := func(name string, gpus int) *plan.SubCluster {
		i := slices.IndexFunc(out, func(s plan.SubCluster) bool { return s.Name == name })
		if i < 0 {
			i, out = len(out), append(out, plan.SubCluster{Name: name, DeviceType: p.DeviceType, GPUs: gpus})
		}
		return &out[i]
	}
	for i := range l.plan.SubClusters {
		s := &l.plan.SubClusters[i]
		if s.DeviceType != p.DeviceType {
			continue
		}
		find(s.Name, s.GPUs).Need = s.Need
		for _, key := range s.Models {
			if wanted[key] {
				delete(wanted, key)
				to := find(s.Name, 0)
				to.Models = append(to.Models, key)
			}
		}
	}
	for _, key := range names(wanted) { // which no plan knows of, but for those that only wait
		if m, routed := l.world.models[key]; routed && m.DeviceType == p.DeviceType {
			name := subCluster(m.DeviceType, m.In)
			to := find(name, l.world.subs[name].GPUs)
			to.Models = append(to.Models, key)
		} else if slices.Contains(p.local, key) {
			to := find(plan.Unplanned(p.DeviceType), 0)
			to.Models = append(to.Models, key)
		}
	}
	if whole := plan.Unplanned(p.DeviceType); p.kept > 0 {
		s := find(whole, p.kept)
		s.GPUs = max(s.GPUs, p.kept)
	}
	for i := range out {
		slices.Sort(out[i].Models)
	}
	l.lessGPUs(out, p.gpus+p.kept)
	return out
}

// lessGPUs takes GPUs that are not there any more from the largest sub-clusters.
func (l *Lead) lessGPUs(all []plan.SubCluster, there int) {
	for i := range all {
		there -= all[i].GPUs
	}
	for ; there < 0; there++ {
		largest := 0
		for i := range all {
			if all[i].GPUs > all[largest].GPUs {
				largest = i
			}
		}
		all[largest].GPUs--
	}
}

// unplanned are the reasons why no plan could be made of device types.
func unplanned(parts []Part) map[string]string {
	why := map[string]string{}
	for i := range parts {
		if err := parts[i].Err; err != nil {
			why[parts[i].DeviceType] = "no plan: " + err.Error()
			if over := parts[i].over; over != "" {
				why[parts[i].DeviceType] = "no plan: " + over
			}
		}
	}
	return why
}

// unplannable tells versions that wait on such types about it.
func (l *Lead) unplannable(why map[string]string, out *Effects) {
	if maps.Equal(l.noPlan, why) {
		return
	}
	noteNews(l.noPlan, why, "its part of the last one holds", out)
	l.noPlan = why
	for _, name := range names(l.known) {
		l.look(name)
	}
}
