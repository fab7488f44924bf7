package tuner

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// flow is the arrivals of one model: Gamma gaps of a shape, 1 for Poisson.
type flow struct {
	model       policy.Model
	rate, shape float64
}

// line is a flow of a model l(b) = alpha*b + beta, all in milliseconds.
func line(t testing.TB, alpha, beta, slo, rate float64) flow {
	return flow{policy.Model{Profile: policytest.Linear(t, alpha, beta, 64), SLO: mono.FromMillis(slo)}, rate, 1}
}

// drive hands a Tuner arrivals, as package tuned does, and changes what it is told.
type drive struct {
	*Tuner
	rng   *rand.Rand
	flows []flow
	next  []mono.Time // by flow
	now   mono.Time
	turn  mono.Time
	chose func()  // after each change
	each  float64 // seconds that a replay takes
	spent float64 // in all
	turns int
}

func newDrive(cfg Config, seed uint64, gpus int, flows ...flow) *drive {
	cfg.Scheduler.RequestsMax = 1 << 16
	d := &drive{Tuner: New(cfg), rng: rand.New(rand.NewPCG(seed, 8)), flows: flows, now: mono.Time(100 * mono.Second), each: 1.0 / ReplaysPerSecond}
	d.next = make([]mono.Time, len(flows))
	for i := range flows {
		d.AddModel(wire.ModelID(i), flows[i].model)
		d.next[i] = d.after(i)
	}
	d.SetGPUs(gpus)
	return d
}

// gamma draws a Gamma variate of mean 1 (Marsaglia and Tsang).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return r.ExpFloat64()
	}
	scale := 1 / shape
	if shape < 1 {
		scale *= math.Pow(r.Float64(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	for {
		x := r.NormFloat64()
		v := math.Pow(max(0, 1+x/math.Sqrt(9*d)), 3)
		if v > 0 && math.Log(r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v * scale
		}
	}
}

func (d *drive) after(i int) mono.Time {
	if d.flows[i].rate == 0 {
		return mono.Never
	}
	return d.now.Add(mono.FromSeconds(gamma(d.rng, d.flows[i].shape) / d.flows[i].rate))
}

// setRate changes a flow's rate from now on.
func (d *drive) setRate(i int, rate float64) {
	d.flows[i].rate = rate
	d.next[i] = d.after(i)
}

// arrival moves on to the next one, and says whose it is and when it is due.
func (d *drive) arrival() (id wire.ModelID, deadline mono.Time) {
	first := 0
	for i := range d.next {
		if d.next[i] < d.next[first] {
			first = i
		}
	}
	d.now = d.next[first]
	d.next[first] = d.after(first)
	return wire.ModelID(first), d.now.Add(d.flows[first].model.SLO)
}

// run hands in the arrivals of some seconds.
func (d *drive) run(seconds float64) {
	for end := d.now.Add(mono.FromSeconds(seconds)); d.now < end; {
		id, deadline := d.arrival()
		if d.now >= d.turn {
			d.tune()
		}
		d.Arrive(d.now, id, deadline)
	}
}

func (d *drive) tune() {
	d.turn = d.now.Add(Turn)
	d.turns++
	took := float64(d.Work(d.now, ReplaysPerSecond)) * d.each
	d.Spent(took)
	d.spent += took
	if d.Choose(d.now) && d.chose != nil {
		d.chose()
	}
}

// haste is that of the choice, 0 to HasteAll.
func (d *drive) haste() int { return int(d.Choice().Setting.Haste) }

// meanHaste is the choice's over some seconds.
func (d *drive) meanHaste(seconds float64) float64 {
	sum := 0
	const parts = 100
	for range parts {
		d.run(seconds / parts)
		sum += d.haste()
	}
	return float64(sum) / parts / batching.HasteAll
}
