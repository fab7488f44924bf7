package executor

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// planned is an order that is to begin in a while.
func planned(batch wire.BatchID, in mono.Dur, items ...wire.BatchItem) *Order {
	o := newOrder(batch, items...)
	o.Exec = mono.Now().Add(in)
	return o
}

// A strict device begins no batch before its planned start, others as soon as they can.
func TestStrict(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, strict := range []bool{false, true} {
		w := newWorld(t, 1, &copier{t: t})
		if strict {
			w.exec.Strict()
		}
		var orders []*Order
		for i := range wire.BatchID(3) {
			in := 3600 * mono.Second
			if strict {
				in = mono.Dur(1+i) * 200 * mono.Millisecond
			}
			o := planned(i+1, in, item(wire.RequestID(i+1), 0, 7200*mono.Second))
			orders = append(orders, o)
			w.exec.Submit(o)
		}
		w.wait(3)
		early := 0
		for _, o := range orders {
			d := w.report(o.Batch.Batch)
			if d.Ran != 1 {
				t.Errorf("strict %v: %+v", strict, d)
			}
			if d.Start < o.Exec {
				early++
			}
		}
		if want := map[bool]int{false: 3, true: 0}[strict]; early != want {
			t.Errorf("strict %v: %d of 3 began before their start, want %d", strict, early, want)
		}
		w.close()
	}
}

// On a strict device one whose time has come passes one whose has not, also behind others that wait for longer; one that is planned
// beyond its own deadline is not kept for longer than that; and what waits at Close is forgotten.
func TestStrictOrder(t *testing.T) {
	defer goleak.VerifyNone(t)
	const never = 3600 * mono.Second // in this test
	w := newWorld(t, 1, &copier{t: t})
	w.exec.Strict()
	type report struct {
		batch wire.BatchID
		at    mono.Time
	}
	told := make(chan report, 8)
	w.told = func(d *wire.Done) { told <- report{d.Batch, mono.Now()} }
	w.exec.Submit(planned(1, never, item(1, 0, 2*never)))
	w.exec.Submit(planned(2, -1, item(2, 0, never)))
	if r := <-told; r.batch != 2 {
		t.Errorf("batch %d is reported, want 2", r.batch)
	}
	soon, bound := planned(3, 200*mono.Millisecond, item(3, 0, never)), planned(4, never, item(4, 0, 300*mono.Millisecond))
	from := map[wire.BatchID]mono.Time{3: soon.Exec, 4: bound.Items[0].Deadline}
	w.exec.Submit(soon)
	w.exec.Submit(bound)
	for range 2 {
		r := <-told // in any order: a slow machine may have both to do at once
		if at := from[r.batch]; at == 0 || r.at < at {
			t.Errorf("batch %d is reported at %v, want 3 and 4, from %v on", r.batch, r.at, from)
		}
		delete(from, r.batch)
	}
	for !w.exec.waits() { // until its inputs are there
		time.Sleep(time.Millisecond)
	}
	w.close()
	if len(told) > 0 {
		t.Errorf("%+v is reported, which waited", <-told)
	}
}

// waits reports whether an order is ready and has not begun.
func (e *Executor) waits() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.orders) == 1 && e.orders[0].isReady()
}

// One that is too late or without weights is given back before its start.
func TestStrictGivesBackAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 1, &copier{t: t})
	defer w.close()
	w.exec.Strict()
	o := planned(1, 3600*mono.Second, item(1, 0, 3600*mono.Second))
	o.Generation = 7 // of weights that are on no device without pages
	w.exec.Submit(o)
	w.wait(1)
	if d := w.report(1); d.Reason != wire.ReasonCold || d.Ran != 0 {
		t.Errorf("%+v", d)
	}
}
