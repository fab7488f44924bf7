package telemetry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Ours is told from others, also where ids are of another namespace.
func TestOthers(t *testing.T) {
	p := processes{own: 10, name: func(pid int) (string, bool) { return "job", pid < 100 }} // from 100 on we see none
	for _, c := range []struct {
		all  []int
		want string
	}{
		{nil, "[]"},
		{[]int{10}, "[]"},
		{[]int{10, 20}, "[20]"},
		{[]int{10, 500}, "[500]"},  // ours is told: the other is a stranger in a container
		{[]int{500}, "[]"},         // may be ours
		{[]int{500, 600}, "[600]"}, // one of them may be
		{[]int{20, 500}, "[20]"},   // the one that we do not see may be
		{[]int{20}, "[20]"},        // we have no context yet: it is not ours
		{[]int{20, 30, 500}, "[20 30]"},
	} {
		var all []Process
		for _, pid := range c.all {
			all = append(all, Process{PID: pid})
		}
		pids := []int{}
		for _, q := range p.others(all) {
			pids = append(pids, q.PID)
		}
		if got := fmt.Sprint(pids); got != c.want {
			t.Errorf("%v: %s, want %s", c.all, got, c.want)
		}
	}
	text := p.describe([]Process{{PID: 1}, {PID: 200, Memory: Known[uint64](5 << 20)}, {PID: 300}, {PID: 4}, {PID: 5}})
	if want := "process 1 (job), process 200 (5 MiB), process 300, and 2 more"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// What is unknown speaks for nothing, and is null in JSON.
func TestUnknown(t *testing.T) {
	p := processes{own: 1, name: func(int) (string, bool) { return "", false }}
	f := factsOf(&Sample{}, &Device{}, p)
	if f.Gone != "" || f.Throttle != 0 || f.Uncorrected != -1 || f.RemapFailed || f.Others != "" || f.Detail != "" {
		t.Errorf("%+v", f)
	}
	s := Sample{Temperature: Known(40)}
	b, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(b), `"temperature":40`) || !strings.Contains(string(b), `"power":null`) {
		t.Error(string(b), err)
	}
}
