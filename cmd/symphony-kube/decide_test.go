package main

import (
	"fmt"
	"slices"
	"testing"
)

// What the advice makes of a cluster, a line each.
func TestDecide(t *testing.T) {
	set := func(name string, replicas, low, high int) *group {
		return &group{kind: "StatefulSet", name: name, ordinals: true, deviceType: "h100", min: low, max: high, replicas: replicas}
	}
	seen := func(g *group, ready ...int) *group { // its other pods wait, or crash; the highest is not there
		for i := range g.replicas - 1 {
			g.pods = append(g.pods, fmt.Sprintf("%s-%d", g.name, i))
		}
		for _, i := range ready {
			g.ready = append(g.ready, fmt.Sprintf("%s-%d", g.name, i))
		}
		return g
	}
	deployment := func(replicas int, pods ...string) *group {
		return &group{kind: "Deployment", name: "d", deviceType: "h100", max: 9, replicas: replicas, pods: pods}
	}
	want := func(n int, remove ...string) []advice {
		return []advice{{DeviceType: "h100", Action: "add", Size: n, Why: "because", Remove: remove}}
	}
	for _, c := range []struct {
		name   string
		groups []*group
		advice []advice
		out    string
	}{
		{"no advice changes nothing", []*group{set("b", 3, 0, 9)}, nil, ""},
		{"advice for others changes nothing", []*group{set("b", 3, 0, 9)}, []advice{{DeviceType: "t4", Size: 9}}, ""},
		{"what is wanted is there", []*group{set("b", 3, 0, 9)}, want(3), ""},
		{"more is wanted", []*group{set("b", 3, 0, 9)}, want(5), "b=5"},
		{"not above max", []*group{set("b", 3, 0, 4)}, want(50), "b=4"},
		{"not below min", []*group{set("b", 3, 2, 4)}, want(0, "b-0", "b-1", "b-2"), "b=2"},
		{"below min it grows", []*group{set("b", 1, 2, 4)}, want(0), "b=2"},
		{"fewer are wanted, none may go yet", []*group{set("b", 3, 0, 9)}, want(1), ""},
		{"the highest may go", []*group{set("b", 3, 0, 9)}, want(1, "b-2"), "b=2"},
		{"one below the highest may not", []*group{set("b", 3, 0, 9)}, want(1, "b-1"), ""},
		{"no more than the advice says", []*group{set("b", 3, 0, 9)}, want(2, "b-0", "b-1", "b-2"), "b=2"},
		{"what never came goes with one below it", []*group{seen(set("b", 5, 0, 9), 0, 1, 2, 3)}, want(3, "b-3"), "b=3"},
		{"and what is not ready", []*group{seen(set("b", 6, 0, 9), 0, 1, 2, 3)}, want(3, "b-3"), "b=3"},
		{"what is ready and not named stays", []*group{seen(set("b", 6, 0, 9), 0, 1, 2, 3, 4)}, want(3, "b-3"), ""},
		{"what loads stays where none is named", []*group{seen(set("b", 6, 0, 9), 0, 1)}, want(2), ""},
		{"what loads below the named one stays", []*group{seen(set("b", 5, 0, 9), 0, 1, 3)}, want(1, "b-3"), "b=3"},
		{"no more than the advice says of those", []*group{seen(set("b", 5, 0, 9), 0, 1, 2, 3)}, want(4, "b-3"), ""},
		{"tens come after nines", []*group{set("b", 11, 0, 20)}, want(9, "b-9", "b-10"), "b=9"},
		{"schedulers are added up", []*group{set("b", 3, 0, 9)}, []advice{{DeviceType: "h100", Scheduler: "1", Size: 3}, {DeviceType: "h100", Scheduler: "2", Size: 4}}, "b=7"},
		{"those of one scheduler are its own", []*group{{kind: "StatefulSet", name: "b", ordinals: true, deviceType: "h100", scheduler: "2", max: 9, replicas: 3}}, []advice{{DeviceType: "h100", Scheduler: "1", Size: 3}, {DeviceType: "h100", Scheduler: "2", Size: 4}}, "b=4"},
		{"of several the last grows first", []*group{set("a", 2, 0, 4), set("b", 2, 0, 3)}, want(6), "a=3 b=3"},
		{"and shrinks first", []*group{set("a", 2, 0, 4), set("b", 2, 0, 3)}, want(3, "a-1", "b-1"), "b=1"},
		{"a deployment is told which", []*group{deployment(3, "p", "q", "r")}, want(2, "q"), "d=2 cheap=[q]"},
		{"of more only as many as go", []*group{deployment(3, "p", "q", "r")}, want(2, "q", "r"), "d=2 cheap=[q]"},
		{"a pod that is not there does not count", []*group{deployment(3, "p", "q", "r")}, want(2, "z"), ""},
		{"a mark is taken back", []*group{{kind: "Deployment", name: "d", deviceType: "h100", max: 9, replicas: 2, pods: []string{"p", "q"}, marked: []string{"q"}}}, want(2), "d=2 dear=[q]"},
		{"nonsense is not carried out", []*group{set("b", 3, 0, 9)}, want(-5, ""), ""},
	} {
		var got []string
		for _, d := range decide(c.groups, c.advice) {
			line := fmt.Sprintf("%s=%d", d.group.name, d.replicas)
			if len(d.cheap) > 0 {
				line += fmt.Sprintf(" cheap=%v", d.cheap)
			}
			if len(d.dear) > 0 {
				line += fmt.Sprintf(" dear=%v", d.dear)
			}
			got = append(got, line)
		}
		slices.Sort(got)
		if text := fmt.Sprint(got); text != "["+c.out+"]" {
			t.Errorf("%s: %s, want [%s]", c.name, text, c.out)
		}
	}
}
