package paper

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/acting"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// actingJob is figure 15's run with GPUs that come and go as advised.
type actingJob struct {
	changingJob
	Interval, CoolUp, CoolDown, Lead float64 // s
	Start                            int     // GPUs
}

// actingRun is the result: by figure 15's epochs, of all and outside of jumps.
type actingRun struct {
	Arrived, Bad         []int64
	Calm, CalmBad        []int64
	Paid, Need           float64 // GPU seconds
	Changes, ChangesMost int
	Most                 int // GPUs at a time
}

// actingRequests holds the fluid against requests.
func actingRequests(s *Session) error {
	j, _, err := changingWorkload(600)
	if err != nil {
		return err
	}
	load, err := j.load()
	if err != nil {
		return err
	}
	first, _ := load(0)
	a := actingJob{changingJob: j, Interval: 0.5, CoolUp: 0.5, CoolDown: 5, Lead: 1, Start: int(first+math.Sqrt(first)) + 1}
	if s.Quick {
		a.Seconds = 60 // the first tenth of the day
	}
	found, err := Each(s, []Job[actingRun]{{Kind: "acting", About: a, Weight: 280000 * a.Seconds, Run: a.run}})
	if err != nil {
		return err
	}
	r := &found[0]
	d := actDay{cost: r.Paid / r.Need}
	var n, bad, calm, calmBad []float64
	all, allBad := 0.0, 0.0
	for k := range r.Arrived {
		n, bad = append(n, float64(r.Arrived[k])), append(bad, float64(r.Bad[k]))
		calm, calmBad = append(calm, float64(r.Calm[k])), append(calmBad, float64(r.CalmBad[k]))
		all, allBad = all+n[k], allBad+bad[k]
	}
	d.badAll = allBad / max(1, all)
	d.count(n, bad, calm, calmBad)
	d.claim(s, fmt.Sprintf("with requests, %.0f s for as much of the day", a.Seconds))
	s.Claim(Claim{What: "with requests: changes, at most one up and one down in a cool-down", Paper: "not compared: ours", Ours: fmt.Sprintf("%d; up to %d GPUs at a time", r.Changes, r.Most), Holds: r.Changes <= r.ChangesMost})
	return nil
}

// steered is a run under way.
type steered struct {
	job     *actingJob
	group   *scaling.Group
	set     acting.Set
	effects scaling.Effects
	joined  []bool // by ordinal: the scheduler has it
	need    float64
	part    scaling.Part
	slo     []mono.Dur
	result  actingRun
	last    mono.Time
}

// run simulates.
func (j actingJob) run(stop func() bool) (actingRun, error) {
	sys, err := SystemOf(j.System)
	if err != nil {
		return actingRun{}, err
	}
	of := mono.FromSeconds
	cfg := scaling.Config{Interval: of(j.Interval), CoolUp: of(j.CoolUp), CoolDown: of(j.CoolDown), Lead: of(j.Lead), Max: 2 * j.GPUs}
	epochs := int(j.Seconds/j.Epoch + 0.5)
	d := &steered{job: &j, group: scaling.New(cfg), part: scaling.Part{Name: "one"}}
	d.set = acting.Set{Unit: 1, Lead: cfg.Lead, Scatter: actingScatter, Rand: rand.New(rand.NewPCG(j.Seed, 0x616374))}
	d.set.Start(j.Start)
	for range j.Start {
		d.joined = append(d.joined, true)
	}
	r := &d.result
	r.Arrived, r.Bad, r.Calm, r.CalmBad = make([]int64, epochs), make([]int64, epochs), make([]int64, epochs), make([]int64, epochs)
	r.ChangesMost = 2*int(j.Seconds/j.CoolDown) + 2
	c, err := j.config(sys)
	if err != nil {
		return actingRun{}, err
	}
	c.GPUs, c.NeedSpan, c.Steer = j.Start, cfg.Interval, d.steer
	for i := range c.Models {
		d.slo = append(d.slo, c.Models[i].SLO)
	}
	c.Observer = sim.Observer{Executed: d.executed, Need: func(_, _ mono.Time, gpus float64) { d.need = gpus }, Drop: func(_ mono.Time, k *batching.Drop) { d.count(k.Request.Arrival, true) }}
	_, err = sim.Run(c, stop)
	return d.result, err
}

// executed counts a batch's requests.
func (d *steered) executed(e *sim.Execution) {
	if !e.Kept {
		return
	}
	for i := range e.Requests {
		arrival := e.Requests[i].Arrival
		d.count(arrival, e.Answered > arrival.Add(d.slo[e.Model]))
	}
}

func (d *steered) count(arrival mono.Time, bad bool) {
	n := int64(0)
	if bad {
		n = 1
	}
	d.part.Answered, d.part.Bad = d.part.Answered+1, d.part.Bad+n
	j := d.job
	at := mono.Dur(arrival).Seconds()
	k := int(at / j.Epoch)
	if k >= len(d.result.Arrived) {
		return
	}
	d.result.Arrived[k]++
	d.result.Bad[k] += n
	if !inJump(at, float64(j.Lead*(1+actingScatter))+j.CoolUp+2*j.Interval, fig15Epochs*j.Epoch) {
		d.result.Calm[k]++
		d.result.CalmBad[k] += n
	}
}

// steer has the group look, and does what it decides.
func (d *steered) steer(now mono.Time) (events []sim.GPUEvent) {
	span := now.Sub(d.last).Seconds()
	d.last = now
	d.part.GPUs, d.part.Need = d.set.GPUs(now), d.need
	d.result.Paid += float64(d.set.Size()) * span
	d.result.Need += d.need * span
	d.result.Most = max(d.result.Most, d.set.Size())
	d.group.Observe(now, &scaling.Observation{Replicas: d.set.Seen(now), Parts: []scaling.Part{d.part}})
	d.part.Answered, d.part.Bad = 0, 0
	d.group.Step(now, &d.effects)
	if d.effects.Changed {
		d.set.Leave(now, d.effects.Leave)
	}
	if o := d.effects.Scale; o != nil {
		if o.Try == 1 {
			d.result.Changes++
		}
		d.set.Scale(now, o.Size)
		d.group.Asked(now, *o, 0, "")
	}
	d.effects.Reset()
	for i := range max(d.set.Size(), len(d.joined)) {
		if i == len(d.joined) {
			d.joined = append(d.joined, false)
		}
		switch serves := d.set.Serves(now, i); {
		case serves && !d.joined[i]:
			events = append(events, sim.GPUEvent{At: now, GPU: wire.GPUID(i), Kind: sim.Join})
		case !serves && d.joined[i]:
			events = append(events, sim.GPUEvent{At: now, GPU: wire.GPUID(i), Kind: sim.Leave})
		}
		d.joined[i] = d.set.Serves(now, i)
	}
	return events
}
