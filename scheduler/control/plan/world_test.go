package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// earth is a model of the world that a roll-out works on: it carries out steps one by one, in
// whatever order, and holds each against what must be true then.
type earth struct {
	fatal   func(format string, args ...any)
	now     mono.Time
	devices []*device
	things  []*thing
	orders  []*errand
	rollout *Rollout
	limits  Limits
	plan    Plan
	steps   int
	shorts  int // steps that say what they cost
	taken   []Step
	tell    func(format string, args ...any) // a story is told; nil: it is not
}

// device is a GPU of the world.
type device struct {
	name, host, deviceType string
	state                  State
	in                     string
	idle                   bool
	memory                 int64
	resident, loading      map[string]bool
}

// thing is a model of the world.
type thing struct {
	key, routed     string
	static, dynamic int64
	needs           map[string]float64 // by device type, measured or not
	measured        map[string]bool
	settings        Settings
	broken          string // why it never loads
	badOn           string // GPU on which it does not load
	unmeasurable    bool
	failed          map[string]int // by GPU
}

// errand is a step under way.
type errand struct {
	Step
	due   mono.Time
	begun bool
}

func (e *earth) device(name string) *device {
	i := slices.IndexFunc(e.devices, func(d *device) bool { return d.name == name })
	if i < 0 {
		e.fatal("no GPU is called %s", name)
	}
	return e.devices[i]
}

func (e *earth) thing(key string) *thing {
	i := slices.IndexFunc(e.things, func(t *thing) bool { return t.key == key })
	if i < 0 {
		e.fatal("no model is called %s", key)
	}
	return e.things[i]
}

func (d *device) facts() GPU {
	return GPU{Name: d.name, Host: d.host, DeviceType: d.deviceType, State: d.state, In: d.in, Idle: d.idle, Memory: d.memory, Resident: sortedKeys(d.resident), Loading: sortedKeys(d.loading)}
}

func sortedKeys(m map[string]bool) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (t *thing) facts() Model {
	m := Model{Key: t.key, Routed: t.routed, Static: t.static, Dynamic: t.dynamic, Settings: t.settings}
	for _, deviceType := range sortedKeys(t.measured) {
		m.Profiles = append(m.Profiles, Profile{deviceType, t.needs[deviceType]})
	}
	for _, g := range slices.Sorted(mapKeys(t.failed)) {
		m.Failed = append(m.Failed, Failure{GPU: g, Reason: "it failed", Tries: t.failed[g]})
	}
	return m
}

func mapKeys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (e *earth) facts() (f Facts) {
	for _, d := range e.devices {
		f.GPUs = append(f.GPUs, d.facts())
	}
	for _, t := range e.things {
		f.Models = append(f.Models, t.facts())
	}
	return f
}

// begin starts a controller on the plan, with nothing but the facts.
func (e *earth) begin() {
	r, err := New(e.plan, e.facts(), e.limits)
	if err != nil {
		e.fatal("%v", err)
	}
	e.rollout = r
	if e.tell != nil {
		e.tell("    a controller begins: %v", e.plan)
	}
}

// next takes the steps that the roll-out wants.
func (e *earth) next() {
	e.taken = e.rollout.Next(e.now, e.taken[:0])
	for _, s := range e.taken {
		e.steps++
		e.issue(s)
	}
	e.limitsKept()
}

// issue checks a step and begins it.
func (e *earth) issue(s Step) {
	if e.tell != nil {
		e.tell("%v", s)
	}
	if s.Why != "" {
		e.shorts++
	}
	o := &errand{Step: s, due: e.now.Add(s.Within)}
	switch s.Kind {
	case Load:
		d := e.device(s.GPU)
		d.loading[s.Models[0]] = !d.resident[s.Models[0]]
		if !d.loading[s.Models[0]] {
			delete(d.loading, s.Models[0])
		}
		e.fitsIn(d)
	case Route:
		if s.To != "" && s.Why == "" {
			if have, need := e.serving(s.To), e.required(s.To, s.Models[0]); have < need {
				e.fatal("%v: %d GPUs serve, %d are needed", s, have, need)
			}
		}
	case Drain:
		d := e.device(s.GPU)
		if have, need := e.serving(d.in)-1, e.required(d.in, ""); d.state == Serving && !e.draining(d.name) && have < need && s.Why == "" {
			e.fatal("%v: %d GPUs would serve, %d are needed", s, have, need)
		}
	}
	e.orders = append(e.orders, o)
}

// fitsIn checks a GPU's memory.
func (e *earth) fitsIn(d *device) {
	if d.memory == 0 {
		return
	}
	static, dynamic := int64(0), int64(0)
	for _, t := range e.things {
		if d.resident[t.key] || d.loading[t.key] {
			static += t.static
			dynamic = max(dynamic, t.dynamic)
		}
	}
	if static+dynamic > d.memory {
		e.fatal("GPU %s has %d bytes and %v, %v in them: %d and %d", d.name, d.memory, sortedKeys(d.resident), sortedKeys(d.loading), static, dynamic)
	}
}

func (e *earth) draining(gpu string) bool {
	return slices.ContainsFunc(e.orders, func(o *errand) bool { return o.Kind == Drain && o.GPU == gpu })
}

// serving are the GPUs that a sub-cluster can count on.
func (e *earth) serving(in string) (n int) {
	for _, d := range e.devices {
		if d.in == in && d.state == Serving && !e.draining(d.name) {
			n++
		}
	}
	return n
}

// required is the GPUs that it needs, with what is on its way there.
func (e *earth) required(in, more string) int {
	deviceType := ""
	for _, s := range e.plan.SubClusters {
		if s.Name == in {
			deviceType = s.DeviceType
		}
	}
	for _, d := range e.devices {
		if d.in == in {
			deviceType = d.deviceType
		}
	}
	sum, n := 0.0, 0
	for _, t := range e.things {
		to := slices.ContainsFunc(e.orders, func(o *errand) bool { return o.Kind == Route && o.To == in && o.Models[0] == t.key })
		if t.routed == in || to || t.key == more {
			n++
			if t.measured[deviceType] {
				sum += t.needs[deviceType]
			}
		}
	}
	if n == 0 {
		return 0
	}
	return max(1, int(math.Ceil(sum-1e-9)))
}

// carryOut ends a step; why is "" unless it fails by chance.
func (e *earth) carryOut(o *errand, why string) (failed string) {
	if why == "" {
		why = e.obstacle(o)
	}
	if o.Kind == Load {
		delete(e.device(o.GPU).loading, o.Models[0])
	}
	if why != "" {
		if o.Kind == Load || o.Kind == Measure {
			e.thing(o.Models[0]).failed[o.GPU]++
		}
		return why
	}
	switch o.Kind {
	case Load:
		d := e.device(o.GPU)
		d.resident[o.Models[0]] = true
		delete(e.thing(o.Models[0]).failed, o.GPU)
	case Unload:
		d := e.device(o.GPU)
		for _, key := range o.Models {
			if routed := e.thing(key).routed; d.in != "" && routed == d.in {
				e.fatal("%v: it is served in %s", o.Step, d.in)
			}
			delete(d.resident, key)
		}
	case Route:
		e.routes(o)
	case Drain:
		d := e.device(o.GPU)
		d.state, d.in, d.idle = Free, "", false
	case Seat:
		e.seats(o)
	case Measure:
		e.measures(o)
	case Set:
		e.thing(o.Models[0]).settings = *o.Settings
	}
	return ""
}

// obstacle is why the world cannot do it.
func (e *earth) obstacle(o *errand) string {
	switch o.Kind {
	case Load:
		if t := e.thing(o.Models[0]); t.broken != "" {
			return t.broken
		} else if t.badOn == o.GPU {
			return "it does not load on this GPU"
		}
	case Measure:
		if e.thing(o.Models[0]).unmeasurable {
			return "it cannot be measured"
		}
	}
	return ""
}

func (e *earth) routes(o *errand) {
	t := e.thing(o.Models[0])
	t.routed = o.To
	for _, d := range e.devices {
		if o.To != "" && d.in == o.To && d.state == Serving && !d.resident[t.key] {
			e.fatal("%v: GPU %s does not have it", o.Step, d.name)
		}
	}
}

func (e *earth) seats(o *errand) {
	d := e.device(o.GPU)
	if d.state == Out || d.state != Free && d.in != o.To {
		e.fatal("%v: it is %s in %q", o.Step, d.state, d.in)
	}
	for _, t := range e.things {
		if t.routed == o.To && !d.resident[t.key] {
			e.fatal("%v: it does not have %s", o.Step, t.key)
		}
	}
	d.state, d.in = Serving, o.To
}

func (e *earth) measures(o *errand) {
	d, t := e.device(o.GPU), e.thing(o.Models[0])
	if !d.resident[t.key] || d.state != Free && !d.idle && o.Why == "" {
		e.fatal("%v: it is %s, idle %v, and has %v", o.Step, d.state, d.idle, sortedKeys(d.resident))
	}
	t.measured[d.deviceType] = true
}

// check is what is true at every moment.
func (e *earth) check() {
	for _, d := range e.devices {
		if d.state == Out {
			continue
		}
		e.fitsIn(d)
		for _, t := range e.things {
			if d.state == Serving && t.routed == d.in && !d.resident[t.key] {
				e.fatal("%s is served in %s, and GPU %s does not have it", t.key, d.in, d.name)
			}
		}
	}
}

// limitsKept: no more is under way than may be.
func (e *earth) limitsKept() {
	l := e.rollout.limits
	memory, routes := 0, 0
	byHost, byGPU := map[string]int{}, map[string]int{}
	for _, o := range e.orders {
		switch o.Kind {
		case Load, Unload:
			memory++
			byGPU[o.GPU]++
			byHost[e.device(o.GPU).host]++
		case Route:
			routes++
		}
	}
	if memory > l.Loads || routes > l.Others {
		e.fatal("%d steps of memory and %d routes are under way, at most %d and %d", memory, routes, l.Loads, l.Others)
	}
	for gpu, n := range byGPU {
		if n > l.LoadsGPU {
			e.fatal("%d steps of memory are under way on GPU %s", n, gpu)
		}
	}
	for host, n := range byHost {
		if n > l.LoadsHost {
			e.fatal("%d steps of memory are under way on host %s", n, host)
		}
	}
}

// finish hands a step's end in.
func (e *earth) finish(o *errand, why string) {
	e.orders = slices.DeleteFunc(e.orders, func(p *errand) bool { return p == o })
	if why = e.carryOut(o, why); why != "" {
		if e.tell != nil {
			e.tell("    failed: %s: %s", brief(o.Step), why)
		}
		e.rollout.Failed(e.now, o.ID, why)
	} else {
		if e.tell != nil {
			e.tell("    done: %s", brief(o.Step))
		}
		e.rollout.Done(e.now, o.ID)
		if o.Kind == Measure { // with its need
			e.sync(e.thing(o.Models[0]))
		}
	}
	e.check()
}

func brief(s Step) string {
	s.Why = ""
	return s.String()
}

// learn hands in a GPU's facts.
func (e *earth) learn(d *device) {
	if err := e.rollout.SetGPU(d.facts()); err != nil {
		e.fatal("%v", err)
	}
}

// sync hands in a model's facts.
func (e *earth) sync(t *thing) {
	if err := e.rollout.SetModel(t.facts()); err != nil {
		e.fatal("%v", err)
	}
}

// quiet lets everything end, whatever is picked first. After a time-out all is found out.
func (e *earth) quiet(pick func(n int) int, findOut func()) {
	for i := 0; ; i++ {
		e.next()
		if e.rollout.Phase() != Running && len(e.orders) == 0 {
			return
		}
		if i > 5000 {
			e.fatal("it does not end: %v under way, %v", e.orders, e.rollout.Problems())
		}
		switch {
		case len(e.orders) > 0:
			e.finish(e.orders[pick(len(e.orders))], "")
		case e.rollout.Wake() == mono.Never:
			e.fatal("nothing is under way, and nothing is waited for: %v", e.rollout.Problems())
		default:
			e.now = max(e.now, e.rollout.Wake())
			e.next()
			findOut()
		}
	}
}

// asPlanned tells what is not as the plan has it; "": nothing.
func (e *earth) asPlanned() string {
	var wrong []string
	for _, t := range e.things {
		want := ""
		for _, s := range e.plan.SubClusters {
			if slices.Contains(s.Models, t.key) {
				want = s.Name
			}
		}
		if t.routed != want {
			wrong = append(wrong, fmt.Sprintf("%s is routed to %q, not %q", t.key, t.routed, want))
		}
	}
	for _, want := range e.plan.Settings {
		if have := e.thing(want.Key).settings; have != want.Settings {
			wrong = append(wrong, fmt.Sprintf("%s has settings %v, not %v", want.Key, have, want.Settings))
		}
	}
	for _, s := range e.plan.SubClusters {
		if n := e.serving(s.Name); n != s.GPUs {
			wrong = append(wrong, fmt.Sprintf("%s has %d GPUs, not %d", s.Name, n, s.GPUs))
		}
	}
	for _, d := range e.devices {
		var want []string
		if s := e.plan.Find(d.in); s == nil && d.in != "" {
			wrong = append(wrong, fmt.Sprintf("GPU %s is in %s", d.name, d.in))
		} else if s != nil {
			want = slices.Sorted(slices.Values(s.Models))
		}
		if have := sortedKeys(d.resident); d.state != Out && !slices.Equal(have, want) {
			wrong = append(wrong, fmt.Sprintf("GPU %s has %v, not %v", d.name, have, want))
		}
	}
	return strings.Join(wrong, "; ")
}
