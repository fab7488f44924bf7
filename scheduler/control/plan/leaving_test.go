package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// GPUs that are to go are those that a smaller number lets go, whatever is idle; none of them joins
// anything; and while the number needs them they stay.
func TestLeavingGPUs(t *testing.T) {
	facts := func(states ...string) (f Facts) {
		f.Models = []Model{{Key: "m/1", Routed: Unplanned("t"), Profiles: []Profile{{DeviceType: "t", Need: 1.5}}}}
		for i, s := range states {
			g := GPU{Name: fmt.Sprintf("b%d/t/0", i), DeviceType: "t", Resident: []string{"m/1"}}
			for _, c := range s {
				switch c {
				case 's':
					g.State, g.In = Serving, Unplanned("t")
				case 'i':
					g.Idle = true
				case 'l':
					g.Leaving = true
				}
			}
			f.GPUs = append(f.GPUs, g)
		}
		return f
	}
	for _, c := range []struct {
		name   string
		gpus   int
		states []string
		drain  []string
		seat   []string
	}{
		{"those that are to go do, not those that are idle", 3, []string{"si", "sl", "s", "si", "sl"}, []string{"b1/t/0", "b4/t/0"}, nil},
		{"as long as the plan has them they stay", 5, []string{"s", "sl", "s", "s", "sl"}, nil, nil},
		{"one that is free joins nothing", 3, []string{"s", "s", "l", ""}, nil, []string{"b3/t/0"}},
		{"the need is kept", 1, []string{"s", "sl", "sl"}, []string{"b2/t/0"}, nil},
	} {
		p := Plan{Epoch: 1, SubClusters: []SubCluster{{Name: Unplanned("t"), DeviceType: "t", Models: []string{"m/1"}, GPUs: c.gpus}}}
		r, err := New(p, facts(c.states...), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var drain, seat []string
		for _, s := range r.Next(mono.Time(mono.Second), nil) {
			switch s.Kind {
			case Drain:
				drain = append(drain, s.GPU)
			case Seat:
				seat = append(seat, s.GPU)
			}
		}
		slices.Sort(drain)
		if !slices.Equal(drain, c.drain) || !slices.Equal(seat, c.seat) {
			t.Errorf("%s: %v drain, %v are seated; want %v, %v", c.name, drain, seat, c.drain, c.seat)
		}
	}
}

// A GPU that is told to go, and later to stay, serves all the while, or again.
func TestLeavingGPUsThatStay(t *testing.T) {
	p := Plan{Epoch: 1, SubClusters: []SubCluster{{Name: Unplanned("t"), DeviceType: "t", Models: []string{"m/1"}, GPUs: 1}}}
	g := GPU{Name: "b/t/0", DeviceType: "t", State: Free, Resident: []string{"m/1"}, Leaving: true}
	f := Facts{GPUs: []GPU{g, {Name: "a/t/0", DeviceType: "t", State: Serving, In: Unplanned("t"), Resident: []string{"m/1"}}},
		Models: []Model{{Key: "m/1", Routed: Unplanned("t"), Profiles: []Profile{{DeviceType: "t", Need: 0.5}}}}}
	r, err := New(p, f, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if steps := r.Next(0, nil); len(steps) > 0 && steps[0].Kind == Seat {
		t.Fatalf("%v", steps)
	}
	p.SubClusters[0].GPUs = 2
	if err := r.Overtake(p); err != nil {
		t.Fatal(err)
	}
	if steps := r.Next(mono.Time(mono.Second), nil); slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == Seat }) {
		t.Fatalf("seated, and it is to go: %v", steps)
	}
	g.Leaving = false
	if err := r.SetGPU(g); err != nil {
		t.Fatal(err)
	}
	if steps := r.Next(mono.Time(2*mono.Second), nil); !slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == Seat && s.GPU == "b/t/0" }) {
		t.Errorf("not seated: %v; its models were to stay there", steps)
	}
}
