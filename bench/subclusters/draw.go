package subclusters

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Model is one of a draw: what the partitioner sees of it, and what the simulator does.
type Model struct {
	Name  string
	Kind  zoo.Model
	Rate  float64 // requests/s
	Bytes zoo.Memory
}

// batchMax bounds batches, as in the paper's figures.
const batchMax = 256

// Profile is its l(b).
func (m *Model) Profile() (*profile.Profile, error) {
	return profile.Linear(m.Kind.Alpha, m.Kind.Beta, batchMax)
}

// Need is what the scheduler reckons of it (batching.Need): GPUs, and the batch that gathers.
func (m *Model) Need() (gpus, batch float64, err error) {
	p, err := m.Profile()
	if err != nil {
		return 0, 0, err
	}
	perNano := m.Rate / float64(mono.Second)
	return batching.Need(p, m.Kind.SLO, perNano), batching.Gathered(p, m.Kind.SLO, perNano), nil
}

// Draw is n models as appendix A's evaluation draws them: variants of models of the A100 zoo, each as likely, with
// exponential rates of that mean.
func Draw(n int, seed uint64, mean float64) []Model {
	rng := rand.New(rand.NewPCG(seed, 16))
	kinds := zoo.A100()
	models := make([]Model, n)
	for i := range models {
		k := kinds[rng.IntN(len(kinds))]
		memory, _ := zoo.MemoryOf(k)
		models[i] = Model{Name: fmt.Sprintf("%s-%04d", k.Name, i), Kind: k, Rate: -math.Log(1-rng.Float64()) * mean, Bytes: memory}
	}
	return models
}

// Problem puts a draw to the partitioner. Loading a model costs what its weights are, in bytes.
func Problem(models []Model, subClusters int) (*partition.Problem, error) {
	p := &partition.Problem{SubClusters: subClusters}
	for i := range models {
		m := &models[i]
		need, batch, err := m.Need()
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
		p.Models = append(p.Models, partition.Model{Name: m.Name, Rate: m.Rate, Need: need, Batch: batch, Slack: (m.Kind.SLO - m.Kind.Alpha - m.Kind.Beta).Seconds(),
			Static: m.Bytes.Static, Dynamic: m.Bytes.Dynamic, Cost: float64(m.Bytes.Static)})
	}
	return p, nil
}
