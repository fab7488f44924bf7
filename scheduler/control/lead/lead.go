package lead

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Lead. Zero values mean the defaults in brackets.
type Config struct {
	SubClusters int                 // of each device type; 0: as few as memory and one rank loop carry
	ModelsMax   int                 // of a sub-cluster [4096]
	RateMax     float64             // requests/s of a sub-cluster; 0: no cap
	Objective   partition.Objective // [balance]
	MovesMax    float64             // share of all models' bytes that an epoch may move [0.05]
	Interval    mono.Dur            // between epochs that nothing else calls for [5 minutes]
	Settle      mono.Dur            // how long wishes are gathered before they make a plan [200 ms]
	SettleGPUs  mono.Dur            // how long GPUs that come or go may come back or go again before they do [3 s]
	RetryMin    mono.Dur            // before what failed is tried again; doubles to RetryMax [30 s]
	RetryMax    mono.Dur            // [10 minutes]
	Limits      plan.Limits
}

func (c *Config) fill() {
	if c.ModelsMax <= 0 {
		c.ModelsMax = schema.SubClusterMax
	}
	if c.MovesMax <= 0 {
		c.MovesMax = 0.05
	}
	if c.Limits.Tries <= 0 {
		c.Limits.Tries = 3 // as roll-outs have it
	}
	for _, d := range []struct {
		v   *mono.Dur
		def mono.Dur
	}{{&c.Interval, 300 * mono.Second}, {&c.Settle, 200 * mono.Millisecond}, {&c.SettleGPUs, 3 * mono.Second}, {&c.RetryMin, 30 * mono.Second}, {&c.RetryMax, 600 * mono.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
}

// Lead is the state. Not safe for concurrent use.
type Lead struct {
	cfg   Config
	known map[string]*known // what people want, by name
	world world

	plan    plan.Plan // the last one; Epoch 0: none yet
	head    schema.Plan
	rollout *plan.Rollout // nil: the scheduler is away, or there is no plan
	own     []ownLoad     // loads that backends carry out by themselves
	phase   plan.Phase    // that was told
	flown   int           // orders of this roll-out
	done    int           // of them
	byHand  bool          // the plan was applied by hand: it holds until people resume the epochs
	paused  bool
	locals  locals // that the plan knows
	unaware bool   // there are others
	current bool   // the plan is the last one, or was found to be as good: see outdated

	orders  map[uint64]flight // under way, by the order's id
	lapses  mono.Time         // before which none of them is given up
	waiting []uint64          // of them: loads that are done, whose profiles are not known yet
	orderID uint64
	taskID  uint64
	task    *draft            // being computed aside
	over    map[string]string // device types whose models do not fit, as told last
	noPlan  map[string]string // why none could be made, by device type

	sketched uint64 // plans that were begun
	finished uint64 // the last of them that came to an end

	due     mono.Time // of the next plan; Never: not before Interval
	cause   string    // of it
	gather  mono.Time // until when it waits for the GPUs of the last plan, which come one by one
	planned mono.Time // when the last plan was made
	floor   uint64    // the last epoch of others' plans
	looked  mono.Time // when needs were last looked at
	epochs  *plan.Epochs
	failed  failures
	before  map[string]string // device types of models by the plan that was taken over, by key

	inForce map[string]plan.Settings
	told    map[string]schema.Observation
	files   map[string]files // that backends have, by key
	renew   map[string]bool  // versions whose files are other ones now, until those of before are unloaded
	dirty   map[string]bool  // versions to be looked at
	named   map[string]catalog.Name
	unnamed map[string]bool // names to be looked at
	doubted map[string]bool // names of which the scheduler may have been told something before
	naming  bool            // an order of names is under way
	nameAt  mono.Time       // not before
}

// New makes one that knows nothing: the wishes, the last plan and the facts are handed in.
func New(cfg Config) *Lead {
	cfg.fill()
	l := &Lead{cfg: cfg, epochs: plan.NewEpochs(plan.EpochConfig{Every: cfg.Interval}), known: map[string]*known{}, due: mono.Never, gather: mono.Never, failed: newFailures(), before: map[string]string{},
		files: map[string]files{}, renew: map[string]bool{}, told: map[string]schema.Observation{}, dirty: map[string]bool{}}
	l.forget()
	return l
}

// forget what belongs to one life of the scheduler. What was set, too: one that was started
// again has what the models' own files say.
func (l *Lead) forget() {
	l.world, l.rollout, l.orders, l.naming = l.world.anew(), nil, map[uint64]flight{}, false
	l.lapses, l.waiting = mono.Never, nil
	l.named, l.unnamed, l.doubted, l.inForce = map[string]catalog.Name{}, map[string]bool{}, map[string]bool{}, map[string]plan.Settings{}
	if l.nameAt = 0; l.task != nil { // it was made of what is void now
		l.task, l.due = nil, min(l.due, l.planned)
	}
	for _, name := range names(l.known) {
		l.doubted[name] = true
		l.look(name)
	}
	for _, key := range names(l.told) {
		l.dirty[key] = true
	}
}

// look has all that is told of a model looked at.
func (l *Lead) look(name string) {
	l.unnamed[name] = true
	if k := l.known[name]; k != nil {
		for i := range k.versions {
			l.dirty[k.versions[i].key] = true
		}
	}
}

// SetModel takes what people want of a model.
func (l *Lead) SetModel(now mono.Time, doc schema.Model) {
	before := l.known[doc.Name]
	l.RemoveModel(now, doc.Name)
	l.known[doc.Name] = know(doc)
	l.changed(before, l.known[doc.Name])
	l.learn(now)
	l.tell() // what was known of files of before may be forgotten: the roll-out would have all measure the others
	l.look(doc.Name)
	l.want(now, causeCatalogue)
}

// changed draws the conclusions of other wishes: a version that is wanted in another way, or all
// that failed where the same is said again, is tried at once.
func (l *Lead) changed(before, after *known) {
	for i := range after.versions {
		l.renewed(&after.versions[i])
	}
	if before == nil {
		return
	}
	again := reflect.DeepEqual(before.doc, after.doc)
	for i := range after.versions {
		v := &after.versions[i]
		old := before.find(v.key)
		if again || old == nil || !old.wanted && v.wanted || old.source != v.source || !slices.Equal(old.settings.DeviceTypes, v.settings.DeviceTypes) {
			l.forgive(v.key)
			delete(l.before, v.key)
			if old != nil && !l.routed(v.key) && (old.source.URL != v.source.URL || old.source.Digest != v.source.Digest) {
				delete(l.world.about, v.key) // what they take is told anew
			}
		}
	}
}

// RemoveModel: people want nothing of it any more.
func (l *Lead) RemoveModel(now mono.Time, name string) {
	if l.known[name] == nil {
		return
	}
	l.look(name)
	delete(l.known, name)
	l.want(now, causeCatalogue)
}

// Profile takes what was measured of a version on a device type before.
func (l *Lead) Profile(m schema.Measured) {
	key := m.Model + "/" + m.Version
	if a := l.world.aboutOf(key, m.DeviceType); a.spec == nil {
		a.stores(&m)
		l.world.learn(key, m.DeviceType, a)
		l.dirty[key] = true // nobody may want it any more
	}
}

// Restore takes over the plan that held last.
func (l *Lead) Restore(head schema.Plan, parts []schema.SubCluster) {
	l.plan, l.head = plan.Plan{Epoch: head.Epoch}, head
	for _, p := range parts {
		l.plan.SubClusters = append(l.plan.SubClusters, plan.SubCluster{Name: p.Name, DeviceType: p.DeviceType, Models: p.Models, GPUs: p.GPUs, Need: p.Need})
		for _, key := range p.Models {
			l.before[key] = p.DeviceType
		}
	}
	l.byHand = head.Cause == ByHand
	l.epochs.Planned(l.planned)
}

// Told takes over what was told of a version before, by the controller that led.
func (l *Lead) Told(o schema.Observation) {
	o.Since, o.Next = 0, 0
	key := o.Model + "/" + o.Version
	l.told[key], l.dirty[key] = o, true
	l.learnt(key, &o)
}

// ByHand is the cause of a plan that people applied. It holds, with what the catalogue becomes
// meanwhile, until epochs are resumed or people have a plan made (Now).
const ByHand = "by hand"

// want has a plan made soon: when the catalogue has settled, or GPUs have, which takes longer,
// so that a backend that is restarted moves nothing.
func (l *Lead) want(now mono.Time, cause string) {
	at := now.Add(l.settle(cause))
	if l.due == mono.Never || at < l.due && cause == causeCatalogue {
		l.due, l.cause = at, cause
	}
	if cause == causeCatalogue { // which is carried out also while epochs are paused
		l.cause = cause
	}
}

// settle is how long one waits for more of what calls for a plan.
func (l *Lead) settle(cause string) mono.Dur {
	if cause == causeGPUs && len(l.plan.SubClusters) > 0 {
		return l.cfg.SettleGPUs
	}
	return l.cfg.Settle
}

// Causes of plans, beside ByHand.
const (
	causeCatalogue = "catalogue"
	causeGPUs      = "GPUs"
	causeResumed   = "resumed"
)

// Facts takes what became of the scheduler's world.
func (l *Lead) Facts(now mono.Time, f *catalog.Facts) {
	before, measuring := l.world.count(), l.world.measuring
	anew := l.world.epoch != f.Epoch || f.Whole
	if anew {
		l.forget()
	}
	whole := l.world.whole
	l.world.take(f)
	l.takeSettings(f)
	l.learn(now)
	if len(before) == 0 && len(l.world.types()) > 0 && l.due != mono.Never {
		l.due = max(l.due, now.Add(l.settle(causeGPUs))) // where one backend has come, others may follow
	}
	if !whole {
		l.greet(now, f)
	}
	for _, key := range names(l.world.moved) {
		l.dirty[key] = true
		name, _ := splitKey(key)
		l.unnamed[name] = true
	}
	if len(f.GPUs)+len(f.GoneGPUs) > 0 && !maps.Equal(before, l.world.count()) {
		l.want(now, causeGPUs)
		if len(before) == 0 {
			l.await(now)
		}
	}
	if anew || len(f.GPUs)+len(f.GoneGPUs) > 0 {
		l.recount(now)
	}
	if !l.world.whole {
		return
	}
	l.succeeded()
	l.typesChanged(before, measuring)
	l.resettle(now)
	if l.rollout == nil {
		l.begin()
		l.want(now, causeGPUs)
		if l.outdated() {
			l.want(now, causeCatalogue)
		}
	}
	l.tell()
}

// resettle has a plan made where what people want of a model changed while it was loaded: its
// order had other settings, and no plan has any of a model that is not known.
func (l *Lead) resettle(now mono.Time) {
	for _, key := range names(l.world.learned) {
		spec := l.world.aboutOf(key, l.world.learned[key]).spec
		v := l.version(key)
		if v != nil && v.wanted && spec != nil && l.world.wished(v, l.world.learned[key]) != filled(plan.Settings{}, spec) {
			l.want(now, causeCatalogue)
		}
	}
	clear(l.world.learned)
}

// greet takes facts of a new link beside the world.
func (l *Lead) greet(now mono.Time, f *catalog.Facts) {
	for i := range f.Models {
		name, _ := splitKey(f.Models[i].Key)
		l.doubted[name] = true
	}
	l.await(now)
}

// await has a plan wait for the GPUs of the last one.
func (l *Lead) await(now mono.Time) {
	if l.plan.Epoch > 0 {
		l.gather = now.Add(l.cfg.SettleGPUs)
	}
}

// planAt is when the plan that is due may be made: a system that starts as a whole has its GPUs
// one by one, and what is planned for the first of them is not what is wanted.
func (l *Lead) planAt() mono.Time {
	if l.gather == mono.Never || l.due == mono.Never || l.complete() {
		return l.due
	}
	return max(l.due, l.gather)
}

// complete reports whether there are as many GPUs as the last plan has.
func (l *Lead) complete() bool {
	count := maps.Clone(l.world.count())
	for i := range l.plan.SubClusters {
		s := &l.plan.SubClusters[i]
		if count[s.DeviceType] -= s.GPUs; count[s.DeviceType] < 0 {
			return false
		}
	}
	return true
}

// Lost: the scheduler's link is gone, and with it what was known and ordered.
func (l *Lead) Lost() { l.forget() }

// ErrNoScheduler is why nothing can be applied or previewed.
var ErrNoScheduler = errors.New("no scheduler is connected: nothing is known of the cluster yet")

// MayApply is why a plan of people's own would be refused. Nothing of the Lead changes. given are
// models by name that it is to be given (SetModel) before the plan.
func (l *Lead) MayApply(p *plan.Plan, given map[string]schema.Model) error {
	if !l.world.whole {
		return ErrNoScheduler
	}
	if err := p.Check(); err != nil {
		return err
	}
	for _, s := range p.SubClusters {
		for _, key := range s.Models {
			wanted, renew := l.wanted(key), l.renew[key]
			name, _ := splitKey(key)
			if doc, there := given[name]; there {
				wanted, renew = l.wouldWant(key, doc)
			}
			switch {
			case renew:
				return fmt.Errorf("%w: the files of model %s are being replaced: try again when it is served", plan.ErrInvalid, key)
			case !wanted && !l.localOnly(key):
				return fmt.Errorf("%w: model %s is not in the catalogue, or not to be served: add it or load it first", plan.ErrInvalid, key)
			}
		}
	}
	return nil
}

// Apply takes a plan of people's own. Its epoch is given here. One that is refused (MayApply)
// changes nothing.
func (l *Lead) Apply(now mono.Time, p plan.Plan, out *Effects) error {
	if err := l.MayApply(&p, nil); err != nil {
		return err
	}
	homes := map[string]string{}
	for _, s := range p.SubClusters {
		for _, key := range s.Models {
			homes[key] = s.DeviceType
		}
	}
	l.byHand, l.task, p.Settings = true, nil, l.settings(homes)
	l.locals, l.unaware = l.localsNow(), false // what it does not have is to go
	l.adopt(now, p, ByHand, out)
	l.want(now, causeCatalogue) // which may want more than people's plan has
	return nil
}

// Pause stops epochs, or lets them go on. What is under way is finished.
func (l *Lead) Pause(now mono.Time, paused bool) {
	if l.paused = paused; !paused {
		l.byHand = false
		l.want(now, causeResumed)
	}
}

// Step does what is due.
func (l *Lead) Step(now mono.Time, out *Effects) {
	if !l.world.whole {
		l.observe(out)
		return
	}
	l.regular(now)
	if l.mayPlan() && now >= l.planAt() {
		l.due, l.gather = mono.Never, mono.Never
		l.replan(now, out)
	}
	if now >= l.failed.at {
		l.retry(now)
	}
	l.unloadOthers(now, out)
	l.said(now, out)
	l.lapse(now, out)
	l.roll(now, out)
	l.name(now, out)
	l.observe(out)
}

// Wake is when Step is due though nothing happens.
func (l *Lead) Wake() mono.Time {
	if !l.world.whole {
		return mono.Never
	}
	at := min(l.nextLook(), l.lapses)
	if l.mayPlan() {
		at = min(at, l.planAt())
	}
	if l.rollout != nil {
		at = min(at, l.failed.at, l.rollout.Wake())
	}
	if len(l.unnamed) > 0 && !l.naming {
		at = min(at, l.nameAt)
	}
	return at
}

// mayPlan reports whether a plan that is due may be made now: while epochs are paused only the
// catalogue calls for one. Without GPUs there is nothing to plan: the last plan holds, or what
// comes back when a scheduler was started again would be taken out of service first.
func (l *Lead) mayPlan() bool {
	return l.task == nil && len(l.world.types()) > 0 && (!l.paused || l.cause == causeCatalogue)
}

// replan makes a plan of the wishes and the facts, or has it computed.
func (l *Lead) replan(now mono.Time, out *Effects) {
	l.planned = now
	d := l.sketch()
	l.task = &d
	l.sketched++
	if !slices.ContainsFunc(d.parts, func(p Part) bool { return p.Problem != nil }) {
		l.finish(now, out)
		return
	}
	l.taskID++
	out.Task = &Task{ID: l.taskID, Parts: d.parts}
}

// Partitioned takes the results of a Task.
func (l *Lead) Partitioned(now mono.Time, t *Task, out *Effects) {
	if l.task == nil || t.ID != l.taskID {
		return // of before the scheduler was lost, or a plan was applied by hand
	}
	l.task.parts = t.Parts
	l.finish(now, out)
}

// finish adopts the plan that is made from the task's results.
func (l *Lead) finish(now mono.Time, out *Effects) {
	l.finished = l.sketched
	l.unplannable(unplanned(l.task.parts), out)
	l.tellOverfull(overfull(l.task.parts), out)
	p := l.target(l.task)
	cause := l.cause
	if l.byHand { // people's plan holds; the catalogue goes on
		p, cause = l.amended(l.task, &p), ByHand
	}
	d := l.task
	outdated := l.outdated()
	l.locals, l.task, l.current = d.locals, nil, true
	l.epochs.Planned(now)
	l.recount(now) // there may be more since it was sketched
	if l.rollout != nil && l.plan.Epoch > 0 && (same(&p, &l.plan) || !outdated && !l.worth(d, &p)) {
		return
	}
	l.adopt(now, p, cause, out)
}
