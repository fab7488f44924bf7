package members

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

func drainOf(gpu string, within mono.Dur) catalog.Order {
	return catalog.Order{Kind: catalog.OrderDrain, GPU: gpu, Within: within}
}

func (p *plant) tick(after mono.Dur) {
	p.now = p.now.Add(after)
	var out Effects
	p.c.Tick(p.now, &out)
	p.carryOut(out)
}

func (p *plant) idle(conn Conn) {
	var out Effects
	p.c.Idle(p.now, conn, 0, 0, &out)
	p.carryOut(out)
}

func (p *plant) stateOf(gpu string) string {
	for _, g := range p.c.Facts(0, 1000).GPUs {
		if g.Name == gpu {
			return g.State + " in " + g.In
		}
	}
	return "away"
}

// two is a sub-cluster A of two GPUs that serves m.
func two(t *testing.T) (p *plant, a, b Conn) {
	p = newPlant(t, limits())
	a, b = p.host("a", 1, catalog.Nowhere, spec("m")), p.host("b", 1, catalog.Nowhere, spec("m"))
	p.do(seatIn("a/gpu/0", "A"))
	p.do(seatIn("b/gpu/0", "A"))
	p.do(toSub("A", "m/1"))
	return p, a, b
}

// A GPU that drains and is to serve where it is has its drain called off: whoever ordered that
// hears so, and once the GPU has nothing left it serves again, with the id that it had.
func TestSeatCallsADrainOff(t *testing.T) {
	p, a, _ := two(t)
	if _, answered := p.order(drainOf("a/gpu/0", 0)); answered {
		t.Fatal("a drain is answered before the GPU has nothing left")
	}
	drain := p.ids
	if err, answered := p.order(seatIn("a/gpu/0", "A")); answered {
		t.Fatalf("the seat is answered with %v before the GPU serves", err)
	}
	seat := p.ids
	if err := p.answers[drain]; err == nil || !strings.Contains(err.Error(), "called off") {
		t.Errorf("the drain is answered with %v", err)
	}
	p.idle(a)
	if err, ok := p.answers[seat]; !ok || err != nil {
		t.Errorf("the seat is answered %v, with %v", ok, err)
	}
	if s := p.stateOf("a/gpu/0"); s != "serving in A" || len(p.gpus) != 2 {
		t.Errorf("it is %s, and %d GPUs serve", s, len(p.gpus))
	}
	if err, answered := p.order(drainOf("a/gpu/0", 0)); answered {
		t.Errorf("drained again: answered with %v", err)
	}
	p.idle(a)
	if s := p.stateOf("a/gpu/0"); s != "free in -" {
		t.Errorf("drained again it is %s", s)
	}
}

// A drain that is ordered again takes the seat back, and one whose backend leaves ends it.
func TestSeatThatIsTakenBack(t *testing.T) {
	p, a, _ := two(t)
	_, _ = p.order(drainOf("a/gpu/0", 0))
	_, _ = p.order(seatIn("a/gpu/0", "A"))
	seat := p.ids
	_, _ = p.order(drainOf("a/gpu/0", 0))
	drain := p.ids
	if err := p.answers[seat]; err == nil || !strings.Contains(err.Error(), "drained again") {
		t.Errorf("the seat is answered with %v", err)
	}
	p.idle(a)
	if err, ok := p.answers[drain]; !ok || err != nil || p.stateOf("a/gpu/0") != "free in -" {
		t.Errorf("the drain is answered %v, with %v; the GPU is %s", ok, err, p.stateOf("a/gpu/0"))
	}
	p.do(seatIn("a/gpu/0", "A"))
	_, _ = p.order(drainOf("a/gpu/0", 0))
	_, _ = p.order(seatIn("a/gpu/0", "A"))
	p.leave(a)
	if err, ok := p.answers[p.ids]; !ok || err == nil {
		t.Errorf("the backend has left, and the seat is answered %v, with %v", ok, err)
	}
	if r := p.c.memory.byName["a/gpu/0"]; r.in != "A" {
		t.Errorf("when it comes back it is in %q", r.in)
	}
}

// An order that takes longer than it may fails, and says so. A drain is called off then; what a
// backend has begun goes on.
func TestOrdersThatTakeTooLong(t *testing.T) {
	p, a, _ := two(t)
	_, _ = p.order(drainOf("a/gpu/0", 60*mono.Second))
	drain := p.ids
	_, _ = p.order(catalog.Order{Kind: catalog.OrderLoad, GPU: "b/gpu/0", Within: 90 * mono.Second, Sources: []catalog.Source{{Name: "n", Version: "1", URL: "u"}}})
	load := p.ids
	p.tick(59 * mono.Second)
	if len(p.c.byUnit["a/gpu/0"].orders)+len(p.c.byUnit["b/gpu/0"].orders) != 2 {
		t.Fatalf("answered early: %v", p.answers)
	}
	p.tick(mono.Second)
	if err := p.answers[drain]; err == nil || !strings.Contains(err.Error(), "longer than 60000ms") {
		t.Errorf("the drain is answered with %v", err)
	}
	p.idle(a)
	if s := p.stateOf("a/gpu/0"); s != "serving in A" {
		t.Errorf("it is %s", s)
	}
	p.tick(30 * mono.Second)
	if err := p.answers[load]; err == nil || !strings.Contains(err.Error(), "longer than 90000ms") || p.c.underway != 0 {
		t.Errorf("the load is answered with %v, %d orders are under way", err, p.c.underway)
	}
}
