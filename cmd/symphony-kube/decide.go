package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// group is a StatefulSet or Deployment of backends.
type group struct {
	kind, name string
	ordinals   bool // its pods are NAME-0, NAME-1, ..., and the highest goes first
	deviceType string
	scheduler  string // whose backends they are; empty: of any
	min, max   int
	replicas   int      // that are asked for now
	pods       []string // that there are
	marked     []string // of those that are marked as the first to delete
	ready      []string // of those that are ready
}

// decision is what is to be done with a group.
type decision struct {
	group    *group
	replicas int
	cheap    []string // pods to mark before, as those to delete
	dear     []string // pods that were marked, and stay after all
	why      string
}

// decide turns the advice into what is to be done, in the order of groups; a group that stays as
// it is has no decision. It is a function of its arguments.
func decide(groups []*group, all []advice) []decision {
	type kind struct{ deviceType, scheduler string }
	alike := map[kind][]*group{}
	for _, g := range groups {
		k := kind{g.deviceType, g.scheduler}
		alike[k] = append(alike[k], g)
	}
	kinds := slices.SortedFunc(maps.Keys(alike), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.deviceType, b.deviceType), cmp.Compare(a.scheduler, b.scheduler))
	})
	var out []decision
	for _, k := range kinds {
		if d, advised := sum(k.deviceType, k.scheduler, all); advised {
			out = append(out, share(alike[k], d)...)
		}
	}
	return out
}

// demand is the advice for one type of devices, of one scheduler or of all.
type demand struct {
	size   int
	remove map[string]bool
	why    string
}

func sum(deviceType, scheduler string, all []advice) (d demand, advised bool) {
	d.remove = map[string]bool{}
	for _, a := range all {
		if a.DeviceType != deviceType || scheduler != "" && a.Scheduler != scheduler {
			continue
		}
		advised = true
		d.size += max(0, a.Size)
		for _, name := range a.Remove {
			d.remove[name] = true
		}
		if a.Why != "" && (a.Action != "keep" || d.why == "") {
			d.why = a.Why
		}
	}
	return d, advised
}

// share divides what is wanted of a type among its groups: the first ones by name stay as they are,
// what is more or less is the last ones'.
func share(groups []*group, d demand) []decision {
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.name, b.name) })
	have := 0
	for _, g := range groups {
		have += g.replicas
	}
	var out []decision
	for _, g := range slices.Backward(groups) {
		others := have - g.replicas
		target := min(max(d.size-others, g.min), g.max)
		next, cheap := g.replicas, []string(nil)
		if target > g.replicas {
			next = target
		} else if target < g.replicas {
			next, cheap = g.shrink(target, d.remove)
		}
		var dear []string
		for _, pod := range g.marked {
			if !d.remove[pod] {
				dear = append(dear, pod)
			}
		}
		if next != g.replicas || len(dear) > 0 {
			have += next - g.replicas
			out = append(out, decision{group: g, replicas: next, cheap: cheap, dear: dear, why: d.why})
		}
	}
	return out
}

// shrink is how far a group may, towards target: by pods that may go. Of a StatefulSet those go, too, that
// serve nothing and stand above one that may: the controller cannot name a pod that never came.
func (g *group) shrink(target int, remove map[string]bool) (next int, cheap []string) {
	if g.ordinals {
		next = g.replicas
		for ordinal := g.replicas - 1; ordinal >= target; ordinal-- {
			if pod := fmt.Sprintf("%s-%d", g.name, ordinal); remove[pod] {
				next = ordinal
			} else if len(g.pods) == 0 || slices.Contains(g.ready, pod) { // without pods: nothing is known of them
				break
			}
		}
		return next, nil
	}
	for _, pod := range g.pods {
		if remove[pod] && len(cheap) < g.replicas-target {
			cheap = append(cheap, pod)
		}
	}
	return g.replicas - len(cheap), cheap
}
