package partition

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// Where weights come and go only resident models take memory for good, and any other one has room beside them; one that is too
// large for a GPU is named.
func TestPaged(t *testing.T) {
	p := &Problem{SubClusters: 1, MemoryMax: 10 << 20, Models: []Model{
		{Name: "a", Rate: 1, Static: 6 << 20, Dynamic: 1 << 20, Resident: true}, {Name: "b", Rate: 1, Static: 2 << 20, Dynamic: 1 << 20}, {Name: "c", Rate: 1, Static: 3 << 20}}}
	if why := p.Overfull(1); why != "3 models take 12.00 MiB, and 1 sub-cluster of GPUs with 10.00 MiB each can hold 10.00 MiB of models" {
		t.Errorf("it is overfull for %q", why)
	}
	if why := p.Overfull(2); why != "" {
		t.Errorf("two are overfull: %q", why)
	}
	if why := p.Overfull(math.MaxInt); why != "" {
		t.Errorf("more memory than can be counted is overfull: %q", why)
	}
	if _, _, err := Solve(p, Effort{Seed: 1, More: func(steps int64) bool { return steps < 1e4 }}); err == nil {
		t.Error("twelve fit into ten")
	}
	q, err := p.Paged()
	if err != nil {
		t.Fatal(err)
	}
	if r, _, err := Solve(q, Effort{Seed: 1, More: func(steps int64) bool { return steps < 1e4 }}); err != nil || r.Loads[0].Models != 3 || r.Loads[0].Static != 6<<20 || r.Loads[0].Dynamic != 3<<20 {
		t.Errorf("%+v, %v", r, err)
	}
	if p.Models[1].Static != 2<<20 {
		t.Error("the problem was changed")
	}
	p.Models[2].Resident, p.Models[2].Static = true, 4<<20 // with the other one that stays there is no room for a batch of any
	q, _ = p.Paged()
	if _, _, err := Solve(q, Effort{Seed: 1, More: func(steps int64) bool { return steps < 1e4 }}); err == nil {
		t.Error("the models that stay fit beside what they need")
	}
	p.Models[2].Static = 11 << 20
	var none *Infeasible
	if _, err := p.Paged(); !errors.As(err, &none) || none.Model != "c" || !strings.Contains(err.Error(), "alone asks for 11.00 MiB") {
		t.Errorf("too large for a GPU: %v", err)
	}
}
