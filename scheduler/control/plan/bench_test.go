package plan

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// large is a cluster of 4,096 GPUs and 10,000 models in 64 sub-clusters, and a plan for it.
// seated: it is as the plan has it already.
func large(seated bool) (p Plan, f Facts) {
	const gpus, models, subs = 4096, 10_000, 64
	for i := range subs {
		p.SubClusters = append(p.SubClusters, SubCluster{Name: fmt.Sprintf("s%d", i), DeviceType: "x", GPUs: gpus / subs})
	}
	for i := range models {
		s := &p.SubClusters[i%subs]
		m := Model{Key: fmt.Sprintf("m%d/1", i), Static: gib / 4, Dynamic: gib / 4, Profiles: []Profile{{"x", 0.3}}}
		s.Models = append(s.Models, m.Key)
		if seated {
			m.Routed = s.Name
		}
		f.Models = append(f.Models, m)
	}
	for i := range gpus {
		g := GPU{Name: fmt.Sprintf("h%d/x/%d", i/8, i%8), DeviceType: "x", Memory: 80 * gib}
		if seated {
			s := &p.SubClusters[i/subs]
			g.State, g.In, g.Resident = Serving, s.Name, s.Models
		}
		f.GPUs = append(f.GPUs, g)
	}
	return p, f
}

// runAll ends a roll-out in which every step is done at once, one by one.
func runAll(b testing.TB, p Plan, f Facts) (steps int) {
	r, err := New(p, f, Limits{Loads: 512, Drained: 64})
	if err != nil {
		b.Fatal(err)
	}
	var open []Step
	now := mono.Time(0)
	for at := 0; ; at++ {
		open = r.Next(now, open)
		if at == len(open) {
			break
		}
		r.Done(now, open[at].ID)
	}
	if r.Phase() != Done {
		b.Fatalf("%v: %v", r.Phase(), r.Problems()[0])
	}
	return len(open)
}

// BenchmarkRollout/first fills an empty cluster, BenchmarkRollout/epoch moves 500 models and 64
// GPUs; both to the end, with a Next for each step.
func BenchmarkRollout(b *testing.B) {
	b.Run("first", func(b *testing.B) {
		p, f := large(false)
		for b.Loop() {
			b.ReportMetric(float64(runAll(b, p, f)), "steps/op")
		}
	})
	b.Run("epoch", func(b *testing.B) {
		p, f := large(true)
		p = shifted(p)
		for b.Loop() {
			b.ReportMetric(float64(runAll(b, p, f)), "steps/op")
		}
	})
	b.Run("new", func(b *testing.B) { // a controller that begins anew and finds nothing to do
		p, f := large(true)
		for b.Loop() {
			if n := runAll(b, p, f); n != 0 {
				b.Fatalf("%d steps", n)
			}
		}
	})
}

// shifted moves eight models of each sub-cluster to the next one, and a GPU of every other.
func shifted(p Plan) Plan {
	q := Plan{Epoch: p.Epoch + 1}
	for i, s := range p.SubClusters {
		from := p.SubClusters[(i+1)%len(p.SubClusters)]
		s.Models = append(append([]string(nil), s.Models[8:]...), from.Models[:8]...)
		s.GPUs += 1 - 2*(i%2)
		q.SubClusters = append(q.SubClusters, s)
	}
	return q
}

// TestLarge: an epoch of a large cluster comes to its end.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	p, f := large(true)
	if n := runAll(t, shifted(p), f); n < 500*64 {
		t.Errorf("%d steps, want 500 models on 64 GPUs each, at least", n)
	}
}
