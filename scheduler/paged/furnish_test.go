package paged

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A look for whom to load passes a number of GPUs that grows with theirs, not with its square, where it finds no GPU beside any that could
// load for those who come next: each of them asks for one.
func TestLooksForLoadsAreLinear(t *testing.T) {
	const gpus, largest = 100, wire.ModelID(0) // the largest model has room nowhere
	p, out := New(Config{}), &Out{}
	p.AddModel(largest, residency.Model{Pages: 20, LoadTime: 8 * ms})
	for id := range wire.GPUID(gpus) {
		p.AddGPU(0, id, 0, 10, nil, out)
	}
	p.fill.loads.Add(0, 10*ms)
	for id := largest + 1; id <= furnishTries; id++ {
		p.AddModel(id, residency.Model{Pages: 2, LoadTime: 8 * ms})
		p.SetWish(0, gaps.Wish{Model: id, Least: 3 * ms})
	}
	expect(t, p, out, 0)
	if n := p.residency.Counts().Walked; len(out.Loads) > 0 || n != gpus {
		t.Errorf("a look passed %d times a GPU, want %d; loads %+v", n, gpus, out.Loads)
	}
	p.RemoveModel(0, largest, out) // by its size loads are reckoned with all the same
	p.AddGPU(0, 0, 0, 20, nil, out)
	expect(t, p, out, 200)
	if n := p.residency.Counts().Walked; len(out.Loads) != furnishTries || n > 2*gpus*(1+furnishTries) {
		t.Errorf("looks passed %d times a GPU; loads %+v, want %d", n, out.Loads, furnishTries)
	}
}
