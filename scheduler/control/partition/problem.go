package partition

import (
	"errors"
	"fmt"
	"math"
)

// ErrInvalid is the cause of every refused problem and assignment.
var ErrInvalid = errors.New("invalid partition")

// Objective says what is minimised.
type Objective uint8

const (
	// Balance is (3): the largest distance of a sub-cluster's rate from the mean, and w times that of its static memory.
	Balance Objective = iota
	// GPUs is the sum of what the sub-clusters need (GPUsFor).
	GPUs
)

func (o Objective) String() string {
	if o == GPUs {
		return "gpus"
	}
	return "balance"
}

// Model is i of appendix A.
type Model struct {
	Name     string    // for messages, and to tell apart models that are alike
	Rate     float64   // r_i, requests/s
	Need     float64   // GPUs that its requests keep busy (batching.Need)
	Batch    float64   // requests in a batch then, on average; 0: not known, counts as 1
	Slack    float64   // seconds that a request may wait before a batch of its own would be late: SLO - l(1); 0: not known
	Static   int64     // s_i, bytes: weights, and whatever stays in a GPU's memory
	Resident bool      // where weights come and go (Paged): it stays on every GPU of its sub-cluster
	Dynamic  int64     // d_i, bytes: what a batch takes while it runs; batches of a GPU run one after the other
	Cost     float64   // c_ij for all j: of loading it in a sub-cluster, or unloading it there
	Costs    []float64 // c_ij by j, instead of Cost; nil: Cost (of a sub-cluster that is given up it is Cost, too)
}

// Problem is appendix A's. Its Models and From belong to the caller and are not changed.
type Problem struct {
	Models      []Model
	SubClusters int     // l
	RateMax     float64 // R_max of (4), requests/s of a sub-cluster; 0: no cap
	MemoryMax   int64   // S_max of (5), bytes of one GPU; 0: no cap
	ModelsMax   int     // models of a sub-cluster; 0: no cap
	Weight      float64 // w of (3), requests/s for a byte; 0: mean rate / mean memory, so both imbalances weigh the same
	Objective   Objective

	// From is x': the sub-cluster of each model now, -1 for one that is new. nil: nothing is anywhere, and nothing costs. A number
	// from SubClusters on is a sub-cluster that is given up: its models must move.
	From []int
	// CostMax is C_max of (10); used with From only. 0: nothing may move. math.Inf(1): no bound.
	CostMax float64
}

// What a problem may hold. A cluster has 10,000 models.
const (
	ModelsMost      = 1 << 17
	SubClustersMost = 1 << 12
	// valueMost keeps sums far from overflow, and differences from rounding.
	valueMost = 1e15
	// BytesMost is of one model, or one GPU: 32 TiB, so that no sum overflows.
	BytesMost = 1 << 45
)

// Validate says what is wrong with the problem as it was put: a number that is none, or out of range. Whether it has a
// solution is another question.
func (p *Problem) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case len(p.Models) == 0 || len(p.Models) > ModelsMost:
		return bad("%d models, must be 1 to %d", len(p.Models), ModelsMost)
	case p.SubClusters < 1 || p.SubClusters > SubClustersMost:
		return bad("%d sub-clusters, must be 1 to %d", p.SubClusters, SubClustersMost)
	case !within(p.RateMax) || !within(p.Weight) || p.MemoryMax < 0 || p.MemoryMax > BytesMost || p.ModelsMax < 0:
		return bad("cap of %g requests/s, %d bytes, %d models, weight %g: must be 0 (none) to %g", p.RateMax, p.MemoryMax, p.ModelsMax, p.Weight, valueMost)
	case p.From != nil && len(p.From) != len(p.Models):
		return bad("the assignment before is of %d models, there are %d", len(p.From), len(p.Models))
	case p.From != nil && !(p.CostMax >= 0):
		return bad("cost bound %g, must be 0 or more", p.CostMax)
	}
	for i := range p.Models {
		if err := p.validateModel(i); err != nil {
			return err
		}
	}
	return nil
}

func (p *Problem) validateModel(i int) error {
	m := &p.Models[i]
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: model %s: %s", ErrInvalid, p.name(i), fmt.Sprintf(format, args...))
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"rate", m.Rate}, {"need", m.Need}, {"batch", m.Batch}, {"slack", m.Slack}, {"cost", m.Cost}} {
		if !within(f.v) {
			return bad("%s %g, must be 0 to %g", f.name, f.v, valueMost)
		}
	}
	if min(m.Static, m.Dynamic) < 0 || max(m.Static, m.Dynamic) > BytesMost {
		return bad("static memory of %d bytes, dynamic of %d, must be 0 to %d", m.Static, m.Dynamic, int64(BytesMost))
	}
	if m.Costs != nil && len(m.Costs) != p.SubClusters {
		return bad("%d costs, must be one for each of %d sub-clusters", len(m.Costs), p.SubClusters)
	}
	for _, c := range m.Costs {
		if !within(c) {
			return bad("cost %g, must be 0 to %g", c, valueMost)
		}
	}
	if p.From != nil && (p.From[i] < -1 || p.From[i] >= SubClustersMost) {
		return bad("was in sub-cluster %d, must be -1 (none) to %d", p.From[i], SubClustersMost-1)
	}
	return nil
}

func within(v float64) bool { return v >= 0 && v <= valueMost }

// name is how messages call model i.
func (p *Problem) name(i int) string {
	if n := p.Models[i].Name; n != "" {
		return n
	}
	return fmt.Sprintf("number %d", i)
}

// costIn is c_ij.
func (p *Problem) costIn(i, j int) float64 {
	if c := p.Models[i].Costs; j < len(c) {
		return c[j]
	}
	return p.Models[i].Cost
}

// costOf is what (10) counts of model i in sub-cluster j: its loading there, and its unloading where it was.
func (p *Problem) costOf(i, j int) float64 {
	if p.From == nil || p.From[i] == j {
		return 0
	}
	c := p.costIn(i, j)
	if p.From[i] >= 0 {
		c += p.costIn(i, p.From[i])
	}
	return c
}

// costBound is C_max; infinite where nothing was anywhere.
func (p *Problem) costBound() float64 {
	if p.From == nil {
		return math.Inf(1)
	}
	return p.CostMax
}

// means are R and S of appendix A: rate and static memory of a sub-cluster on average.
func (p *Problem) means() (rate, static float64) {
	for i := range p.Models {
		rate += p.Models[i].Rate
		static += float64(p.Models[i].Static)
	}
	l := float64(p.SubClusters)
	return rate / l, static / l
}

// weight is w of (3).
func (p *Problem) weight() float64 {
	return p.weightOf(p.means())
}

func (p *Problem) weightOf(rate, static float64) float64 {
	if p.Weight > 0 {
		return p.Weight
	}
	if rate <= 0 || static <= 0 {
		return 1
	}
	return rate / static
}
