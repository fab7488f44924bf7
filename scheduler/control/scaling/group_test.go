package scaling

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// bench is a group with replicas that the test moves.
type bench struct {
	t        *testing.T
	g        *Group
	now      mono.Time
	replicas []Replica
	need     float64
	bad      float64 // share of a thousand requests a second
	notes    []string
	warnings []string
	orders   []Order
	leave    []string
}

const unit = mono.Second

func newBench(t *testing.T, cfg Config, names ...string) *bench {
	b := &bench{t: t, g: New(cfg)}
	for _, n := range names {
		b.replicas = append(b.replicas, Replica{Name: n, There: 1, Serving: 1, Left: 1})
	}
	return b
}

func pods(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("gpu-%d", i))
	}
	return names
}

// find is a replica, made if it is not there.
func (b *bench) find(name string) *Replica {
	i := slices.IndexFunc(b.replicas, func(r Replica) bool { return r.Name == name })
	if i < 0 {
		b.replicas = append(b.replicas, Replica{Name: name})
		i = len(b.replicas) - 1
	}
	return &b.replicas[i]
}

func (b *bench) set(name string, there, serving, left int) {
	*b.find(name) = Replica{Name: name, There: there, Serving: serving, Left: left}
}

func (b *bench) drop(name string) {
	b.replicas = slices.DeleteFunc(b.replicas, func(r Replica) bool { return r.Name == name })
}

// run lets time pass.
func (b *bench) run(d mono.Dur) {
	for end := b.now.Add(d); b.now < end; b.now = b.now.Add(unit) {
		gpus := 0
		for _, r := range b.replicas {
			gpus += r.Serving
		}
		o := Observation{Replicas: b.replicas, Parts: []Part{{Name: "one", GPUs: gpus, Need: b.need, Answered: 1000, Bad: int64(1000 * b.bad)}}}
		b.g.Observe(b.now, &o)
		b.step()
	}
}

func (b *bench) step() {
	var e Effects
	b.g.Step(b.now, &e)
	b.notes, b.warnings = append(b.notes, e.Notes...), append(b.warnings, e.Warnings...)
	if e.Changed {
		b.leave = e.Leave
	}
	if e.Scale != nil {
		b.orders = append(b.orders, *e.Scale)
		b.g.Asked(b.now, *e.Scale, 0, "")
	}
}

// last is the last order, and forgets all.
func (b *bench) last() Order {
	b.t.Helper()
	if len(b.orders) != 1 {
		b.t.Fatalf("%d orders at %v, want one: %+v; %s", len(b.orders), b.now, b.orders, b.g.Advice().Why)
	}
	o := b.orders[0]
	b.orders = nil
	return o
}

func (b *bench) none() {
	b.t.Helper()
	if len(b.orders) > 0 {
		b.t.Fatalf("at %v: %+v; %s", b.now, b.orders, b.g.Advice().Why)
	}
}

// leaving lets time pass until replicas are to go.
func (b *bench) leaving(n int) {
	b.t.Helper()
	for range 300 {
		if len(b.leave) == n {
			return
		}
		b.run(unit)
	}
	b.t.Fatalf("%v are to go, want %d; %s", b.leave, n, b.g.Advice().Why)
}

// fast has short spans.
func fast() Config {
	return Config{Interval: 5 * unit, CoolUp: 10 * unit, CoolDown: 60 * unit, Lead: 30 * unit, Drain: 20 * unit, RetryMax: 200 * unit, Max: 100}
}

// What is missing is ordered once, counts while it is on its way, and is there then.
func TestOrderAndArrival(t *testing.T) {
	b := newBench(t, fast(), pods(4)...)
	b.need = 3
	b.run(60 * unit)
	b.none()
	b.need = 9 // and a reserve of 3
	b.run(15 * unit)
	o := b.last()
	if o.Size != 12 || o.GPUs != 12 || o.Try != 1 || !strings.Contains(o.Why, "needs 9.0 and a reserve, 8 more than its 4 GPUs") {
		t.Errorf("%+v", o)
	}
	if a := b.g.Advice(); a.Action != Await || a.OnOrder != 8 || a.Late != 0 || a.Size != 12 || !strings.Contains(a.Why, "8 GPUs are on order") {
		t.Errorf("%+v", a)
	}
	b.run(10 * unit)
	b.none()
	for _, name := range pods(12)[4:] {
		b.set(name, 1, 1, 1)
	}
	b.run(40 * unit)
	b.none()
	if a := b.g.Advice(); a.Action != Keep || a.GPUs != 12 || a.OnOrder != 0 || a.Serving != 12 {
		t.Errorf("%+v", a)
	}
}

// What does not come is said, and ordered again with a back-off; what comes late is taken.
func TestWhatDoesNotComeIsAskedForAgain(t *testing.T) {
	b := newBench(t, fast(), pods(2)...)
	b.need = 4
	var tries []mono.Time
	for range 600 {
		b.run(unit)
		for _, o := range b.orders {
			if o.Size != 6 || o.Try != len(tries)+1 {
				t.Fatalf("%+v", o)
			}
			tries = append(tries, b.now)
		}
		b.orders = nil
	}
	if len(tries) < 4 {
		t.Fatalf("asked %d times in 10 minutes: %v", len(tries), tries)
	}
	for i := 1; i < len(tries); i++ {
		want := mono.Dur(min(30<<(i-1), 200)) * unit
		if d := tries[i].Sub(tries[i-1]); d < want || d > want+6*unit {
			t.Errorf("try %d %v after the one before, want %v", i+1, d, want)
		}
	}
	if len(b.warnings) != len(tries)-1 || !strings.Contains(b.warnings[0], "4 replicas that were asked for") {
		t.Errorf("%d tries; %q", len(tries), b.warnings)
	}
	if a := b.g.Advice(); a.Action != Await || a.Late != 4 || a.OnOrder != 0 || a.Try != len(tries) {
		t.Errorf("%+v", a)
	}
	for _, name := range pods(6)[2:] {
		b.set(name, 1, 1, 1)
	}
	b.run(30 * unit)
	b.none()
	if a := b.g.Advice(); a.Action != Keep || a.Late != 0 {
		t.Errorf("%+v", a)
	}
}

// A scaler that fails is asked again soon, then less often; the advice says why.
func TestAScalerThatFails(t *testing.T) {
	b := newBench(t, fast(), pods(2)...)
	b.need = 4
	tries := 0
	for range 300 {
		b.run(0)
		o := Observation{Replicas: b.replicas, Parts: []Part{{Name: "one", GPUs: 2, Need: 4, Answered: 1000}}}
		b.g.Observe(b.now, &o)
		var e Effects
		b.g.Step(b.now, &e)
		if e.Scale != nil {
			tries++
			b.g.Asked(b.now, *e.Scale, 0, "no quota")
		}
		b.now = b.now.Add(unit)
	}
	if tries < 3 || tries > 8 {
		t.Errorf("asked %d times in 5 minutes", tries)
	}
	if a := b.g.Advice(); a.Error != "no quota" || !strings.Contains(a.Why, "the scaler failed") {
		t.Errorf("%+v", a)
	}
}

// The highest ordinals go: they drain first, and the scaler is asked when nothing is on them.
func TestTheHighestDrainAndGo(t *testing.T) {
	b := newBench(t, fast(), pods(12)...)
	b.need = 4 // and a reserve of 2
	b.leaving(6)
	b.none()
	want := []string{"gpu-6", "gpu-7", "gpu-8", "gpu-9", "gpu-10", "gpu-11"}
	if !slices.Equal(b.leave, want) {
		t.Fatalf("%v are to go, want %v; %s", b.leave, want, b.g.Advice().Why)
	}
	if a := b.g.Advice(); a.Action != Drain || len(a.Leaving) != 6 || len(a.Remove) != 0 || a.GPUs != 6 {
		t.Errorf("%+v", a)
	}
	for _, name := range want[:5] {
		b.set(name, 1, 0, 0)
	}
	b.run(5 * unit)
	b.none() // one still has something
	b.set("gpu-11", 1, 0, 0)
	b.run(5 * unit)
	o := b.last()
	if o.Size != 6 || !slices.Equal(o.Remove, []string{"gpu-11", "gpu-10", "gpu-9", "gpu-8", "gpu-7", "gpu-6"}) {
		t.Errorf("%+v", o)
	}
	for _, name := range want {
		b.drop(name)
	}
	b.run(200 * unit)
	b.none()
	if a := b.g.Advice(); a.Action != Keep || a.Size != 6 || len(a.Leaving) != 0 || len(a.Dead) != 0 {
		t.Errorf("%+v", a)
	}
}

// What is needed again while it drains serves on, the lowest first, and nobody was asked.
func TestADrainIsCalledOff(t *testing.T) {
	b := newBench(t, fast(), pods(12)...)
	b.need = 4
	b.leaving(6)
	b.need = 8 // with a quarter of its reserve 9 GPUs; with all of it 11
	b.run(10 * unit)
	b.none()
	if len(b.leave) > 3 || !slices.Contains(b.leave, "gpu-11") && len(b.leave) > 0 || slices.Contains(b.leave, "gpu-6") {
		t.Errorf("%v still are to go", b.leave)
	}
	if !strings.Contains(strings.Join(b.notes, "\n"), "needed again") {
		t.Errorf("%q", b.notes)
	}
}

// What does not drain in time stays, with all below it; what has drained above it goes.
func TestADrainThatTakesTooLong(t *testing.T) {
	b := newBench(t, fast(), pods(8)...)
	b.need = 2
	b.leaving(4)
	for _, name := range []string{"gpu-7", "gpu-6", "gpu-4"} {
		b.set(name, 1, 0, 0)
	}
	b.run(30 * unit)
	if o := b.last(); o.Size != 6 || !slices.Equal(o.Remove, []string{"gpu-7", "gpu-6"}) {
		t.Errorf("%+v", o)
	}
	if !slices.Equal(b.leave, []string{"gpu-6", "gpu-7"}) || len(b.warnings) == 0 || !strings.Contains(b.warnings[0], "2 of 8 replicas that were to go stay: not drained within") {
		t.Errorf("%v, %q", b.leave, b.warnings)
	}
}

// Removed replicas that stay are asked for again, and get nothing meanwhile; when GPUs are needed
// again they are the first to come back.
func TestWhatIsNotRemoved(t *testing.T) {
	b := newBench(t, fast(), pods(8)...)
	b.need = 2
	b.leaving(4)
	for _, name := range pods(8)[4:] {
		b.set(name, 1, 0, 0)
	}
	b.run(2 * unit)
	b.last()
	b.run(40 * unit)
	if o := b.last(); o.Size != 4 || o.Try != 2 || len(o.Remove) != 4 || !strings.Contains(b.warnings[0], "replica gpu-4 is still there") {
		t.Errorf("%+v, %q", o, b.warnings)
	}
	if len(b.leave) != 4 {
		t.Errorf("%v", b.leave)
	}
	b.need = 4
	b.run(10 * unit)
	if o := b.last(); o.Size != 6 || !slices.Equal(b.leave, []string{"gpu-6", "gpu-7"}) || !slices.Equal(o.Remove, []string{"gpu-7", "gpu-6"}) {
		t.Errorf("%+v; %v", o, b.leave)
	}
}

// A replica that dies may come back within the lead time. After that others are ordered in its
// place, beyond the size, for it takes room in it; nothing changes when it comes and goes again.
func TestDeadReplicas(t *testing.T) {
	b := newBench(t, fast(), pods(6)...)
	b.need = 4
	b.run(70 * unit)
	b.none()
	b.drop("gpu-2")
	b.drop("gpu-3")
	b.run(25 * unit)
	b.none()
	if a := b.g.Advice(); a.GPUs != 4 || a.OnOrder != 2 || len(a.Dead) != 0 {
		t.Errorf("%+v", a)
	}
	b.run(15 * unit)
	if o := b.last(); o.Size != 8 || !strings.Contains(o.Why, "2 replicas are there and serve nothing") {
		t.Errorf("%+v", o)
	}
	if a := b.g.Advice(); !slices.Equal(a.Dead, []string{"gpu-3", "gpu-2"}) {
		t.Errorf("%+v", a)
	}
	b.set("gpu-6", 1, 1, 1)
	b.set("gpu-7", 1, 1, 1)
	for i := range 40 { // it comes and goes
		if i%2 == 0 {
			b.set("gpu-2", 1, 1, 1)
		} else {
			b.drop("gpu-2")
		}
		b.run(13 * unit)
	}
	b.none()
}

// Replicas that the scaler runs and that never serve do not count, however routable they are: this
// is what makes others go up and down. No more than one order within a cool-down.
func TestRoutableButDead(t *testing.T) {
	b := newBench(t, fast(), pods(4)...)
	b.need = 6
	b.run(16 * unit)
	o := b.last()
	for _, name := range pods(o.Size)[4:] {
		b.set(name, 1, 0, 0) // it has a GPU, and is seated nowhere
	}
	b.run(20 * unit)
	if a := b.g.Advice(); a.GPUs != 4 {
		t.Fatalf("%+v", a)
	}
	b.orders = nil
	b.run(40 * unit)
	if a := b.g.Advice(); len(a.Dead) != o.Size-4 || a.Size <= o.Size {
		t.Errorf("%+v", a)
	}
}

// Two deaths within a while: it is not waited for any more, nor relied on when others go.
func TestFlakyReplicas(t *testing.T) {
	b := newBench(t, fast(), pods(6)...)
	b.need = 4
	b.run(70 * unit)
	b.drop("gpu-0")
	b.drop("gpu-1")
	b.run(5 * unit)
	b.set("gpu-0", 1, 1, 1)
	b.set("gpu-1", 1, 1, 1)
	b.run(25 * unit)
	b.none()
	b.drop("gpu-0")
	b.drop("gpu-1")
	b.run(10 * unit)
	if o := b.last(); o.Size != 8 {
		t.Errorf("%+v", o)
	}
}

// Names without ordinals: the number counts, dead ones go first.
func TestNamesWithoutOrdinals(t *testing.T) {
	b := newBench(t, fast(), "amber", "birch", "cedar", "dogwood", "elm", "fir")
	b.need = 1
	b.run(10 * unit)
	b.drop("birch")
	b.leaving(4)
	if !slices.Equal(b.leave, []string{"birch", "dogwood", "elm", "fir"}) {
		t.Errorf("%v", b.leave)
	}
}

// The number of a process at the end of a name is no ordinal.
func TestNumbersThatAreNoOrdinals(t *testing.T) {
	b := newBench(t, fast(), "host-31665")
	b.need = 2
	b.run(20 * unit)
	if o := b.last(); o.Size != 4 {
		t.Errorf("%+v", o)
	}
	if a := b.g.Advice(); a.Size != 4 || a.OnOrder != 3 {
		t.Errorf("%+v", a)
	}
}

// Limits hold, and are said.
func TestLimits(t *testing.T) {
	cfg := fast()
	cfg.Max = 8
	b := newBench(t, cfg, pods(4)...)
	b.need = 40
	b.run(20 * unit)
	if o := b.last(); o.Size != 8 {
		t.Errorf("%+v", o)
	}
	for _, name := range pods(8)[4:] {
		b.set(name, 1, 1, 1)
	}
	b.run(100 * unit)
	b.none()
	if a := b.g.Advice(); a.Action != Wait && a.Action != Keep || a.Want != 8 {
		t.Errorf("%+v", a)
	}
	cfg.Min = 6
	b = newBench(t, cfg, pods(8)...)
	b.need = 0.1
	b.leaving(2) // 6 must stay
	b = newBench(t, cfg, pods(2)...)
	b.run(20 * unit)
	if o := b.last(); o.Size != 6 || !strings.Contains(o.Why, "at least 6 by min") {
		t.Errorf("%+v", o)
	}
}

// Replicas of 8 GPUs: up is rounded up, down is rounded down.
func TestReplicasOfSeveralGPUs(t *testing.T) {
	b := newBench(t, fast())
	for _, name := range pods(3) {
		b.set(name, 8, 8, 8)
	}
	b.need = 25 // and a reserve of 5
	b.run(16 * unit)
	if o := b.last(); o.Size != 4 || o.GPUs != 32 {
		t.Errorf("%+v", o)
	}
	b.set("gpu-3", 8, 8, 8)
	b.need = 12 // 16 with its reserve: two replicas
	b.leaving(2)
	if !slices.Equal(b.leave, []string{"gpu-2", "gpu-3"}) {
		t.Errorf("%v; %s", b.leave, b.g.Advice().Why)
	}
}

// The size that others set is taken over: more replicas than were ordered are no mistake.
func TestOthersScale(t *testing.T) {
	b := newBench(t, fast(), pods(4)...)
	b.need = 3
	b.run(30 * unit)
	for _, name := range pods(8)[4:] {
		b.set(name, 1, 1, 1)
	}
	b.need = 14
	b.run(20 * unit)
	if o := b.last(); o.Size != 18 {
		t.Errorf("%+v", o)
	}
}

// A scaler that grants less is believed.
func TestGrantedLess(t *testing.T) {
	b := newBench(t, fast(), pods(4)...)
	g := b.g
	for range 16 {
		o := Observation{Replicas: b.replicas, Parts: []Part{{Name: "one", GPUs: 4, Need: 9, Answered: 1000}}}
		g.Observe(b.now, &o)
		var e Effects
		if g.Step(b.now, &e); e.Scale != nil {
			g.Asked(b.now, *e.Scale, 6, "")
		}
		b.now = b.now.Add(unit)
	}
	if a := g.Advice(); a.Size != 6 || a.OnOrder != 2 {
		t.Errorf("%+v", a)
	}
}

// Bad requests while GPUs are missing say nothing of how many there should be; those of a cluster
// that has enough do: N*r/(1-r).
func TestBadRate(t *testing.T) {
	b := newBench(t, fast(), pods(12)...)
	b.need, b.bad = 6, 0.25
	b.run(16 * unit)
	if o := b.last(); o.Size != 16 || !strings.Contains(o.Why, "bad rate 25.0 % on 12 GPUs, which 4 more would cure") {
		t.Errorf("%+v", o)
	}
	b = newBench(t, fast(), pods(12)...)
	b.need = 12
	b.run(60 * unit)
	b.orders = nil
	b.bad, b.need = 0.9, 13
	b.run(10 * unit)
	for _, o := range b.orders {
		if o.Size > 17 {
			t.Errorf("%+v", o)
		}
	}
}

// Before anything is known nothing is ordered, and what comes at the start comes one by one.
func TestTheStart(t *testing.T) {
	b := newBench(t, fast())
	b.need = 10
	b.step()
	if a := b.g.Advice(); a.Action != Wait || !strings.Contains(a.Why, "nothing is known") {
		t.Errorf("%+v", a)
	}
	for _, name := range pods(13) {
		b.set(name, 1, 1, 1)
		if b.now < mono.Time(9*unit) {
			b.run(unit)
		}
	}
	b.run(30 * unit)
	b.none()
}

// A controller that begins while replicas load knows nothing of them: no order leaves them out, and
// nobody is told that the size is all there is to be, until they have had their time.
func TestABeginWhileReplicasLoad(t *testing.T) {
	cfg := fast()
	cfg.Absolute = true
	b := newBench(t, cfg, pods(4)...)
	b.need = 5 // and a reserve: fewer than the 10 that the one before had ordered
	b.run(29 * unit)
	b.none()
	if a := b.g.Advice(); a.Settled || a.Action != Wait || !strings.Contains(a.Why, "on its way at the controller's start") {
		t.Errorf("%+v", a)
	}
	for _, name := range pods(10)[4:] {
		b.set(name, 1, 1, 1)
	}
	b.run(20 * unit)
	b.none()
	if a := b.g.Advice(); !a.Settled || a.Size != 10 {
		t.Errorf("%+v", a)
	}
	b = newBench(t, cfg, pods(4)...) // none was on its way
	b.need = 5
	b.run(40 * unit)
	if o := b.last(); o.Size < 6 {
		t.Errorf("%+v", o)
	}
}
