package executor

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// soon makes an order's latest start one that passes while it waits.
func soon(o *Order) { o.Latest = mono.Now().Add(5 * mono.Millisecond) }

// A batch that waits, for its weights or behind another one, is given back at its latest start, also if nothing
// starts, ends or is loaded then: there is time for another device.
func TestGivenBackAtItsLatest(t *testing.T) {
	defer goleak.VerifyNone(t)
	running, held, steps := make(chan struct{}, 9), make(chan struct{}), make(chan error)
	p := newPaged(t, 10, 4, 3)
	p.copying = func(int) error { return <-steps }
	p.pause = hold(running, held)
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	w.run(1, 0, 1, soon)
	w.run(2, 0, 1)
	w.returned(1, wire.ReasonLate) // the load is under way still
	steps <- nil
	<-running // the other one
	w.run(3, 0, 1, soon)
	w.run(4, 0, 1, soon)
	w.returned(3, wire.ReasonLate) // behind it
	w.returned(4, wire.ReasonLate)
	close(held)
	w.served(2)
	w.run(5, 0, 1)
	w.served(5)
	w.checkPages(6, Weights{0, 1})
	w.run(6, 1, 9) // without weights: at once
	w.returned(6, wire.ReasonCold)
	w.close()
	w.checkOnce()
}

// Weights that no order can name leave, and nothing else does.
func TestForget(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newPagedWorld(t, newPaged(t, 10, 4, 3))
	w.load(1, 0, 1)
	w.loaded(1)
	w.load(2, 1, 2)
	w.loaded(2)
	w.exec.Forget(1, Weights{0, 7})
	w.exec.Forget(1, Weights{9, 1})
	w.exec.Forget(1, Weights{0, 0})
	w.checkPages(3, Weights{0, 1}, Weights{1, 2})
	w.exec.Forget(1, Weights{0, 1})
	w.checkPages(7, Weights{1, 2})
	w.run(1, 0, 1)
	w.returned(1, wire.ReasonCold)
	w.exec.Fence(2, true, func(*Order) {})
	w.exec.Forget(1, Weights{1, 2}) // of a scheduler that is not obeyed any more
	w.checkPages(7, Weights{1, 2})
	w.close()
	resident := newWorld(t, 1, &copier{t: t})
	resident.exec.Forget(1, Weights{0, 1})
	resident.close()
}
