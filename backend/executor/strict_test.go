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
			o := planned(i+1, mono.Dur(1+i)*200*mono.Millisecond, item(wire.RequestID(i+1), 0, 20*mono.Second))
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
		if strict && early > 0 || !strict && early == 0 {
			t.Errorf("strict %v: %d of 3 began before their start", strict, early)
		}
		w.close()
	}
}

// On a strict device one whose time has come passes one whose has not; one that is planned beyond its own deadline is not kept
// for longer than that; and what waits at Close is forgotten.
func TestStrictOrder(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 1, &copier{t: t})
	defer w.close()
	w.exec.Strict()
	first := make(chan wire.BatchID, 8)
	w.told = func(d *wire.Done) { first <- d.Batch }
	w.exec.Submit(planned(1, 500*mono.Millisecond, item(1, 0, 20*mono.Second)))
	w.exec.Submit(planned(2, -1, item(2, 0, 20*mono.Second)))
	w.exec.Submit(planned(3, 3600*mono.Second, item(3, 0, 700*mono.Millisecond)))
	for _, want := range []wire.BatchID{2, 1, 3} {
		if got := <-first; got != want {
			t.Errorf("batch %d is reported, want %d", got, want)
		}
	}
	w.exec.Submit(planned(4, 3600*mono.Second, item(4, 0, 3600*mono.Second)))
	for end := time.Now().Add(10 * time.Second); !w.exec.waits() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
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
