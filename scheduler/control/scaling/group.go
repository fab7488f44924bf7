package scaling

import (
	"math"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/autoscale"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Order asks the scaler for a size. One that is repeated asks for the same: Try counts.
type Order struct {
	Size   int      // replicas that there are to be
	GPUs   int      // that these have
	Remove []string // replicas that may go now: nothing is on them; the highest first
	Try    int      // from 1 on
	Why    string
}

// Effects are to be carried out.
type Effects struct {
	Scale *Order
	// Leave are all replicas whose GPUs are to get nothing new, where Left says that it changed.
	Leave    []string
	Changed  bool
	Notes    []string // for the log
	Warnings []string
}

// Reset empties them.
func (e *Effects) Reset() { *e = Effects{} }

// Group is the replicas of one device type at one scheduler. Not safe for concurrent use.
type Group struct {
	cfg     Config
	now     mono.Time
	begun   mono.Time // when it was first told of anything; Never: not yet
	members []*member // by ordinal, then name
	ordered bool      // they are a StatefulSet's
	most    int       // GPUs of a replica
	parts   []*part   // by name
	ends    mono.Time // of the epoch
	week    mono.Dur

	size     int       // replicas that the scaler is to have
	target   int       // while some drain: the size once they are gone
	changed  mono.Time // when size, or what drains, last changed; Never: not yet
	draining mono.Time // since when what leaves drains; Never: nothing does
	stale    bool      // who leaves is to be told anew

	order   Order     // the last one; Try 0: none
	first   mono.Time // when it was given first
	asked   mono.Time // and last
	awaited bool      // its outcome is
	failed  string    // why it was not carried out; "": it was
	unmet   bool      // the last outcome was a failure
	again   mono.Time // when it is repeated, if it still must be
	said    int       // the try of which it was said that nothing came of it

	want want // of the last epoch
}

// want is what the last epoch calls for, in GPUs.
type want struct {
	known bool
	least int // fewer are too few: what is not there is ordered
	most  int // more are to spare; least <= most
	floor int
	hint  string // whose floor it is; "": Min
}

// part is a sub-cluster's epoch.
type part struct {
	name    string
	scaler  *autoscale.Scaler
	now     Part // as it was told last; of the counts, those of the epoch so far
	need    float64
	excused int // epochs whose bad requests say nothing: GPUs were missing, or came, or went
	gone    bool

	last   autoscale.Epoch
	advice autoscale.Advice
}

// New makes a group of which nothing is known.
func New(cfg Config) *Group {
	cfg.fill()
	return &Group{cfg: cfg, begun: mono.Never, changed: mono.Never, draining: mono.Never, again: mono.Never}
}

// Observe takes what became of the group. What Step decides follows from it.
func (g *Group) Observe(now mono.Time, o *Observation) {
	g.now, g.week = max(g.now, now), o.Week
	if g.begun == mono.Never {
		g.begun, g.ends = g.now, g.now.Add(g.cfg.Interval)
	}
	g.look(o.Replicas)
	g.adopt()
	for _, p := range g.parts {
		p.gone = true
	}
	for i := range o.Parts {
		g.partOf(o.Parts[i].Name).take(&o.Parts[i])
	}
	g.parts = slices.DeleteFunc(g.parts, func(p *part) bool { return p.gone })
}

func (g *Group) partOf(name string) *part {
	i, found := slices.BinarySearchFunc(g.parts, name, func(p *part, name string) int {
		if p.name < name {
			return -1
		} else if p.name > name {
			return 1
		}
		return 0
	})
	if !found {
		p := &part{name: name, excused: excusedFor, scaler: autoscale.New(autoscale.Config{BadRate: g.cfg.BadRate, Hold: g.cfg.hold(), Stays: true})}
		g.parts = slices.Insert(g.parts, i, p)
	}
	return g.parts[i]
}

// excusedFor is how many epochs after GPUs came or went, or were missing, bad requests say nothing
// of how many there should be: those that wait are answered in them.
const excusedFor = 2

func (p *part) take(o *Part) {
	need := o.Need
	if !(need > 0) || math.IsInf(need, 0) {
		need = max(0, min(1, o.Busy)) * float64(max(0, o.GPUs))
	}
	if o.GPUs != p.now.GPUs || need > float64(o.GPUs) {
		p.excused = excusedFor
	}
	answered, bad := p.now.Answered+max(0, o.Answered), p.now.Bad+max(0, o.Bad)
	p.now, p.gone, p.need = *o, false, max(p.need, need)
	p.now.Answered, p.now.Bad = answered, bad
}

// close ends the epoch.
func (p *part) close() {
	e := autoscale.Epoch{GPUs: p.now.GPUs, Answered: p.now.Answered, Bad: p.now.Bad, Need: p.need}
	p.last = e
	if p.excused > 0 {
		e.Bad = 0
		p.excused--
	}
	p.advice = p.scaler.Close(e)
	p.now.Answered, p.now.Bad, p.need = 0, 0, 0
}

// wants is what a sub-cluster calls for. What one has beyond what would call for more may go to
// another, so it is not counted in least; it is not to spare before its time.
func (p *part) wants() (least, most int) {
	n := p.last.GPUs + p.advice.Add - p.advice.Remove
	if p.advice.Add > 0 {
		return n, n
	}
	if need := p.last.Need; need > 0 {
		return min(n, max(1, int(math.Ceil(min(unlimited, need+float64(math.Sqrt(need)/4)))))), n
	}
	if p.last.Answered > 0 { // the need is not known
		return n, n
	}
	return min(n, 1), n
}

// close ends the epoch.
func (g *Group) close() {
	g.ends = g.now.Add(g.cfg.Interval)
	w, gpus, seated := want{known: true}, g.tally().gpus, 0
	for _, p := range g.parts {
		p.close()
		seated += p.now.GPUs
		least, most := p.wants()
		w.least, w.most = w.least+least, w.most+most
	}
	w.floor, w.hint = g.cfg.floor(g.week)
	w.least = min(max(w.least, w.floor), g.cfg.Max)
	w.most = min(max(w.most+max(0, gpus-seated), w.least), g.cfg.Max)
	g.want = w
}
