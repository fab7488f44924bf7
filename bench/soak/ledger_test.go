package soak

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// The ledger sees what it is there for: an answer too many, one of another request,
// one that does not come.
func TestLedgerBites(t *testing.T) {
	l := newLedger()
	var a, b, c uint64 = l.ask(0, mono.Second), l.ask(0, mono.Second), l.ask(0, mono.Second)
	out := make([]byte, 32)
	stamp(out, a)
	if !l.answer(a, "test", out, 32) || l.answer(a, "test", out, 32) {
		t.Error("first and second answer of one request")
	}
	if l.answer(b, "test", out, 32) {
		t.Error("the output of another request passed")
	}
	torn := make([]byte, 64)
	stamp(torn, l.ask(0, mono.Second))
	torn[63]++
	if l.answer(4, "test", torn, 64) {
		t.Error("an output with another's end passed")
	}
	short := l.ask(0, mono.Second)
	if stamp(torn, short); l.answer(short, "test", torn[:32], 64) {
		t.Error("half an output passed")
	}
	if got := l.look(mono.Time(5 * mono.Second)); got != (Counts{Asked: 5, Answered: 4, Outputs: 4, Open: 1, Twice: 1, Foreign: 3}) {
		t.Errorf("counts %+v", got)
	}
	for range 2 { // told once
		if got := l.look(mono.Time(20 * mono.Second)); got.Overdue != 1 {
			t.Errorf("overdue %d", got.Overdue)
		}
	}
	if !l.answer(c, "test", nil, 32) || l.look(0).Open != 0 || len(l.notes) != 5 {
		t.Errorf("a reason is an answer; notes %q", l.notes)
	}
}

// A request belongs to a window only if they touch.
func TestWindows(t *testing.T) {
	w := &windows{}
	w.open(BackendKill, "b", false, 100)
	if _, ok := w.during(0, 99); ok {
		t.Error("answered before the fault")
	}
	if win, ok := w.during(50, 101); !ok || win.Kind != BackendKill {
		t.Error("open while the fault began")
	}
	w.shut(180, 200, "")
	w.open(FrontendKill, "f", true, 300)
	if _, ok := w.during(201, 299); ok {
		t.Error("between two windows")
	}
	if win, ok := w.during(150, 310); !ok || win.Kind != FrontendKill || !w.breaksHTTP(150, 310) || w.breaksHTTP(150, 250) {
		t.Error("through both")
	}
}
