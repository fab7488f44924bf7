package partition

import (
	"fmt"
	"math"
)

// Paged is the problem where weights come to GPUs and go as requests need them: of a model only what is Resident is on every GPU of
// its sub-cluster, and of the others there is room for each of them. An *Infeasible names a model that is too large for a GPU by
// itself.
func (p *Problem) Paged() (*Problem, error) {
	q := *p
	q.Models = make([]Model, len(p.Models))
	for i, m := range p.Models {
		if p.MemoryMax > 0 && m.Static+m.Dynamic > p.MemoryMax {
			return nil, &Infeasible{What: MemoryCap, Model: p.name(i), Is: float64(m.Static + m.Dynamic), Most: float64(p.MemoryMax), Proven: true}
		}
		if !m.Resident {
			m.Static, m.Dynamic = 0, m.Static+m.Dynamic
		}
		q.Models[i] = m
	}
	return &q, nil
}

// Overfull says in words that the models do not fit into so many sub-clusters of one GPU or more each, however they are divided; "":
// they may fit.
func (p *Problem) Overfull(subClusters int) string {
	static, dynamic := int64(0), int64(0)
	for i := range p.Models {
		static, dynamic = static+p.Models[i].Static, max(dynamic, p.Models[i].Dynamic)
	}
	most := int64(math.MaxInt64)
	if subClusters > 0 && p.MemoryMax <= most/int64(subClusters) {
		most = p.MemoryMax * int64(subClusters)
	}
	if p.MemoryMax == 0 || subClusters <= 0 || static+dynamic <= most {
		return ""
	}
	return fmt.Sprintf("%d models take %s, and %d sub-cluster%s of GPUs with %s each can hold %s of models", len(p.Models), bytes(float64(static+dynamic)), subClusters, plural(float64(subClusters)),
		bytes(float64(p.MemoryMax)), bytes(float64(most)))
}
