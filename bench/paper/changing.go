package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// changingJob is a run in which rates change, counted by epoch.
type changingJob struct {
	System  string
	Models  []changingModel
	GPUs    int
	Seconds float64
	Epoch   float64 // seconds
	Seed    uint64

	Arrivals string  `json:",omitempty"` // "" means poisson
	Shape    float64 `json:",omitempty"` // of gamma
}

// changingModel is one model with its rate over time.
type changingModel struct {
	Model
	Rate    float64 // requests/s, that Profile multiplies
	Profile string  `json:",omitempty"` // "": the rate does not change
}

// epochs is the result: what arrived and was served by epoch of arrival and by
// model, and the GPUs' time.
type epochs struct {
	Arrived, Served [][]int64 // [epoch][model]
	Busy            []float64 // GPUs busy on average
	Used            []int     // GPUs that ran anything
	Need            []float64 // GPUs that deferral alone would keep busy, when they were most
}

// recorder fills epochs while the simulation runs.
type recorder struct {
	epoch  mono.Dur
	slo    []mono.Dur
	result epochs
	busy   [][]mono.Dur // [epoch][GPU]
}

func newRecorder(n, models, gpus int, epoch mono.Dur) *recorder {
	r := &recorder{epoch: epoch, busy: make([][]mono.Dur, n)}
	r.result = epochs{Arrived: make([][]int64, n), Served: make([][]int64, n), Busy: make([]float64, n), Used: make([]int, n), Need: make([]float64, n)}
	for i := range n {
		r.result.Arrived[i], r.result.Served[i] = make([]int64, models), make([]int64, models)
		r.busy[i] = make([]mono.Dur, gpus)
	}
	return r
}

// of is the epoch of an instant; false behind the last.
func (r *recorder) of(t mono.Time) (int, bool) {
	i := int(mono.Dur(t) / r.epoch)
	return i, i < len(r.busy)
}

func (r *recorder) arrive(now mono.Time, m wire.ModelID) {
	if i, ok := r.of(now); ok {
		r.result.Arrived[i][m]++
	}
}

// needsEpoch is how many times an epoch the need is reckoned.
const needsEpoch = 5

func (r *recorder) need(from, _ mono.Time, gpus float64) {
	if k, ok := r.of(from); ok {
		r.result.Need[k] = max(r.result.Need[k], gpus)
	}
}

func (r *recorder) executed(e *sim.Execution) {
	for i := range e.Requests {
		q := &e.Requests[i]
		if k, ok := r.of(q.Arrival); ok && e.Kept && e.End <= q.Arrival.Add(r.slo[e.Model]) {
			r.result.Served[k][e.Model]++
		}
	}
	for at := e.Start; at < e.End; {
		k, ok := r.of(at)
		if !ok {
			return
		}
		until := min(e.End, mono.Time(r.epoch)*mono.Time(k+1))
		r.busy[k][e.GPU] += until.Sub(at)
		at = until
	}
}

func (r *recorder) finish() epochs {
	for k, gpus := range r.busy {
		for _, d := range gpus {
			r.result.Busy[k] += float64(d) / float64(r.epoch)
			if d > 0 {
				r.result.Used[k]++
			}
		}
	}
	return r.result
}

// run simulates from an idle cluster on; all of it counts.
func (j changingJob) run(stop func() bool) (epochs, error) {
	sys, err := SystemOf(j.System)
	if err != nil {
		return epochs{}, err
	}
	epoch := mono.FromSeconds(j.Epoch)
	r := newRecorder(int(j.Seconds/j.Epoch+0.5), len(j.Models), j.GPUs, epoch)
	c, err := j.config(sys)
	if err != nil {
		return epochs{}, err
	}
	c.NeedSpan = epoch / needsEpoch
	c.Observer = sim.Observer{Arrive: r.arrive, Executed: r.executed, Need: r.need}
	for i := range c.Models {
		r.slo = append(r.slo, c.Models[i].SLO)
	}
	if _, err := sim.Run(c, stop); err != nil {
		return epochs{}, err
	}
	return r.finish(), nil
}

// config is the simulation under a system.
func (j *changingJob) config(sys scenario.Policy) (*sim.Config, error) {
	c := &sim.Config{GPUs: j.GPUs, Seed: j.Seed, Duration: mono.FromSeconds(j.Seconds), NewPolicy: sys.New, Frontends: sys.Frontends}
	arrivals := workload.Poisson
	if j.Arrivals != "" {
		arrivals = workload.Process(j.Arrivals)
	}
	for i := range j.Models {
		m := &j.Models[i]
		p, err := profile.Linear(mono.FromMillis(m.Alpha), mono.FromMillis(m.Beta), batchMax)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
		var over *workload.Profile
		if m.Profile != "" {
			if over, err = workload.ParseProfile(m.Profile); err != nil {
				return nil, fmt.Errorf("model %s: %w", m.Name, err)
			}
		}
		c.Models = append(c.Models, sim.Model{Name: m.Name, Profile: p, SLO: mono.FromMillis(m.SLO),
			Stream: workload.Stream{Process: arrivals, Shape: j.Shape, Rate: m.Rate, Profile: over}})
	}
	return c, nil
}
