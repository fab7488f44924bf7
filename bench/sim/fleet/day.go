package fleet

import (
	"fmt"

	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Day is a cluster's control plane through a day, and what it did.
type Day struct {
	cfg    Config
	r      *rand.Rand
	now    mono.Time
	models []*model
	gpus   []gpu
	routed []int          // model -> sub-cluster that its requests go to, -1: none
	news   map[string]int // model by key

	plan    plan.Plan
	of      []int // model -> sub-cluster by the plan, -1: not in it
	rollout *plan.Rollout
	begun   mono.Time // the present roll-out
	epochs  *plan.Epochs
	signals plan.Signals
	needs   []float64 // of the sub-clusters when their GPUs were dealt; nil: of the first plan
	before  []float64 // rates at the tick before, by model

	agenda pq.Heap // slot -> instant
	slots  []event
	free   []uint32
	steps  []plan.Step

	first  state    // of the beginning, for windows
	Log    []Change // what requests could notice
	Epochs []Epoch
	Ticks  []Tick
	Totals Totals
}

// gpu is one, as it is.
type gpu struct {
	name, host string
	life       int // how often it died
	state      plan.State
	in         int // sub-cluster, -1: none
	resident   bitset
	loading    bitset
}

// Epoch is a plan that was rolled out.
type Epoch struct {
	At, Until     mono.Time
	Why           plan.Why
	GPUs          int     // of the plan
	Need          float64 // of all models
	Models, Moved int     // of the plan; of them in another sub-cluster than before
	Loads         int     // onto single GPUs, while it was the plan
	Phase         plan.Phase
	Problems      int
}

// Tick is the state of the day at an instant.
type Tick struct {
	At      mono.Time
	Rate    float64 // requests/s
	Need    float64 // GPUs of one undivided cluster: the fluid bound
	Wants   float64 // GPUs that the sub-clusters want for what comes now, in whole ones each
	Planned int     // GPUs of the plan
	Serving int
	Alive   int
	Short   int // sub-clusters with fewer GPUs than their need
}

// Totals of the day.
type Totals struct {
	Steps, Failed, Lost      int // of roll-outs; of them failed; of them never heard of
	Loads, Unloads           int
	Routes, Drains, Seats    int
	Measures                 int
	Why                      int // steps that undercut a need, and said so
	GPUsDied, Restarts       int
	Plans, Futile, Catalogue int      // plans made; of them not worth moving models for; changes of the catalogue
	Unserved                 mono.Dur // of models that were to be served, from their coming to their first route
	Served                   int      // models that were routed for the first time after the beginning
}

// event is what happens at an instant.
type event struct {
	kind eventKind
	step plan.Step
	gpu  int
	life int
	how  outcome
}

type eventKind uint8

const (
	ticks eventKind = iota
	wakes
	ends
	found
	dies
	returns
	changes
	restarts
)

// outcome of a step.
type outcome uint8

const (
	done outcome = iota
	fails
	unheard
)

const (
	tickEvery = 30 * mono.Second
	wakeSlot  = 0
)

// NewDay makes a cluster that is as its first plan has it.
func NewDay(c Config) (*Day, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	d := &Day{cfg: c, r: rand.New(rand.NewPCG(c.Seed, 0x666c656574)), epochs: plan.NewEpochs(c.Epochs), news: map[string]int{}}
	models, err := newCatalogue(&c, d.r)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		d.add(m)
	}
	for i := range c.GPUs {
		host := fmt.Sprintf("host%d", i/c.PerHost)
		d.gpus = append(d.gpus, gpu{name: fmt.Sprintf("%s/x/%d", host, i%c.PerHost), host: host, in: -1})
	}
	d.slots = make([]event, 1)
	d.slots[wakeSlot].kind = wakes
	for _, m := range d.models {
		m.serves, m.measured = true, true
	}
	if err := d.begin(); err != nil {
		return nil, err
	}
	d.at(0, event{kind: ticks})
	for kind, n := range c.chances() {
		for range n {
			d.at(mono.Time(d.r.Int64N(int64(c.Length))), event{kind: eventKind(kind)})
		}
	}
	return d, nil
}

// chances is how often what happens at random instants does, by kind.
func (c *Config) chances() []int {
	n := make([]int, restarts+1)
	n[dies], n[changes], n[restarts] = c.Failures, c.Changes, c.Restarts
	return n
}
