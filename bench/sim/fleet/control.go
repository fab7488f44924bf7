package fleet

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

const deviceType = "x"

func subName(j int) string { return fmt.Sprintf("s%d", j) }

// add takes a model into the catalogue.
func (d *Day) add(m *model) {
	d.news[m.key()] = len(d.models)
	d.models, d.routed, d.of, d.before = append(d.models, m), append(d.routed, -1), append(d.of, -1), append(d.before, 0)
}

// begin puts the cluster where its first plan has it.
func (d *Day) begin() error {
	for i, m := range d.models {
		d.before[i] = m.rateAt(0)
	}
	p, _, err := d.makePlan()
	if err != nil {
		return err
	}
	at := 0
	for j, s := range p.SubClusters {
		for range s.GPUs {
			g := &d.gpus[at]
			at++
			g.state, g.in = plan.Serving, j
			for _, key := range s.Models {
				g.resident.put(d.news[key])
			}
		}
		for _, key := range s.Models {
			d.routed[d.news[key]] = j
		}
	}
	d.plan = p
	d.epochs.Decide(0, d.signals)
	d.epochs.Planned(0)
	d.first = d.state()
	return d.control()
}

// control starts a controller, which knows the plan and the facts.
func (d *Day) control() error {
	f := plan.Facts{}
	for i := range d.gpus {
		f.GPUs = append(f.GPUs, d.gpuFacts(i))
	}
	for i := range d.models {
		f.Models = append(f.Models, d.modelFacts(i))
	}
	r, err := plan.New(d.plan, f, d.cfg.Limits)
	d.rollout = r
	return err
}

func (d *Day) gpuFacts(i int) plan.GPU {
	g := &d.gpus[i]
	f := plan.GPU{Name: g.name, Host: g.host, DeviceType: deviceType, State: g.state, Memory: d.cfg.Memory}
	if g.in >= 0 && (g.state == plan.Serving || g.state == plan.Draining) {
		f.In = subName(g.in)
	}
	for _, k := range g.resident.list(nil) {
		f.Resident = append(f.Resident, d.models[k].key())
	}
	for _, k := range g.loading.list(nil) {
		f.Loading = append(f.Loading, d.models[k].key())
	}
	return f
}

func (d *Day) modelFacts(i int) plan.Model {
	m := d.models[i]
	f := plan.Model{Key: m.key(), Static: m.static, Dynamic: m.dynamic}
	if d.routed[i] >= 0 {
		f.Routed = subName(d.routed[i])
	}
	if m.measured {
		need := 0.0
		if m.serves {
			need = m.need(m.rateAt(d.now))
		}
		f.Profiles = []plan.Profile{{DeviceType: deviceType, Need: need}}
	}
	return f
}

// expected is a model's rate in a while, by what it was and is: the planner does not know more.
func (d *Day) expected(i int) float64 {
	now := d.models[i].popularity(d.now)
	return max(now, now+float64(planAhead*(now-d.before[i])))
}

// planAhead is for how many ticks the rates are thought to go on rising.
const planAhead = 10

// makePlan partitions, deals the GPUs, and says whose models follow whose.
func (d *Day) makePlan() (plan.Plan, planned, error) {
	var wanted []int // models of the catalogue
	var demands []Demand
	var from []int
	for i, m := range d.models {
		if m.gone || m.heir != nil {
			continue
		}
		home := d.of[i]
		if home < 0 && m.old != nil {
			home = d.of[d.news[m.old.key()]]
		}
		wanted, from = append(wanted, i), append(from, home)
		demands = append(demands, m.demand(d.expected(i)))
	}
	made := planned{models: len(wanted)}
	of, err := d.cfg.Partition.Partition(demands, from, d.cfg.SubClusters, d.cfg.Memory, d.cfg.MovesMax, d.cfg.Seed+d.plan.Epoch)
	if err != nil {
		return plan.Plan{}, made, err
	}
	for k, j := range of {
		if from[k] >= 0 && from[k] != j {
			made.moved++
		}
	}
	p := plan.Plan{Epoch: d.plan.Epoch + 1}
	wants := d.cfg.Partition.Wants(demands, of, d.cfg.SubClusters)
	gpus := d.deal(wants)
	for j := range d.cfg.SubClusters {
		p.SubClusters = append(p.SubClusters, plan.SubCluster{Name: subName(j), DeviceType: deviceType, GPUs: gpus[j], Need: wants[j]})
	}
	made.needs = make([]float64, d.cfg.SubClusters)
	for i := range d.of {
		d.of[i] = -1
	}
	for k, i := range wanted {
		s := &p.SubClusters[of[k]]
		s.Models = append(s.Models, d.models[i].key())
		made.needs[of[k]] += demands[k].Need
		made.need += demands[k].Need
		d.of[i] = of[k]
		if old := d.models[i].old; old != nil && d.routed[d.news[old.key()]] >= 0 {
			p.Successions = append(p.Successions, plan.Succession{Old: old.key(), New: d.models[i].key()})
		}
	}
	return p, made, nil
}

// planned is what is kept of the making of a plan.
type planned struct {
	models, moved int
	need          float64
	needs         []float64
}

// deal gives each sub-cluster what it wants in whole GPUs. One keeps a few that it does not want
// any more, so that needs which go up and down move none; and where there are too few, those
// give that have most beyond.
func (d *Day) deal(wants []float64) []int {
	gpus, sum := make([]int, len(wants)), 0
	for j, w := range wants {
		gpus[j] = int(math.Ceil(w))
		if have := d.dealt(j); gpus[j] < have && float64(have-gpus[j]) <= max(1, float64(keepShare*float64(have))) {
			gpus[j] = have
		}
		sum += gpus[j]
	}
	for alive := d.alive(); sum > alive; sum-- {
		most := 0
		for j, w := range wants {
			if float64(gpus[j])-w > float64(gpus[most])-wants[most] {
				most = j
			}
		}
		gpus[most]--
	}
	return gpus
}

// keepShare is how much more than it wants a sub-cluster keeps.
const keepShare = 0.03

// dealt is a sub-cluster's number by the plan.
func (d *Day) dealt(j int) int {
	if j >= len(d.plan.SubClusters) {
		return 0
	}
	return d.plan.SubClusters[j].GPUs
}

func (d *Day) alive() (n int) {
	for i := range d.gpus {
		if d.gpus[i].state != plan.Out {
			n++
		}
	}
	return n
}

// epoch makes a plan and begins to roll it out.
func (d *Day) epoch(why plan.Why) error {
	was := append([]int(nil), d.of...)
	p, made, err := d.makePlan()
	if err != nil {
		return err
	}
	d.Totals.Plans++
	now, then := 0, 0
	for j := range p.SubClusters {
		now += d.dealt(j)
		then += p.SubClusters[j].GPUs
	}
	if !d.epochs.Worth(why, float64(now), float64(then), made.moved) { // the GPUs are dealt anew, models stay
		d.Totals.Futile++
		copy(d.of, was)
		moves := d.cfg.MovesMax
		d.cfg.MovesMax = 0
		p, made, err = d.makePlan()
		if d.cfg.MovesMax = moves; err != nil {
			return err
		}
	}
	d.close()
	d.plan, d.needs = p, made.needs
	for i := range d.models {
		if err := d.rollout.SetModel(d.modelFacts(i)); err != nil {
			return err
		}
	}
	d.epochs.Planned(d.now)
	sum := 0
	for j := range p.SubClusters {
		sum += p.SubClusters[j].GPUs
	}
	d.Epochs = append(d.Epochs, Epoch{At: d.now, Until: mono.Never, Why: why, GPUs: sum, Need: made.need, Models: made.models, Moved: made.moved, Loads: d.Totals.Loads})
	return d.rollout.Overtake(p)
}

// close notes how the present roll-out stands.
func (d *Day) close() {
	if n := len(d.Epochs); n > 0 {
		e := &d.Epochs[n-1]
		e.Loads = d.Totals.Loads - e.Loads
		e.Phase, e.Problems = d.rollout.Phase(), len(d.rollout.Problems())
	}
}
