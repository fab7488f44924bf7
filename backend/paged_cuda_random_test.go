package backend

import (
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Whatever a scheduler orders of a paged GPU, and whenever the GPU is lost, when all is at rest it has what its executor says that
// it holds, and no byte more. At last the backend ends in the middle of it. (From a seed.)
func TestPagedGPUAddsUp(t *testing.T) {
	defer goleak.VerifyNone(t)
	const models, pages, each = 3, 8, 3
	k := fakecuda.Kernel{Memory: 2 << 20}
	s, d, _ := onPagedGPUs(t, pages, fakecuda.Kernels{"a": k, "b": k, "c": k}, "a", "b", "c")
	defer ends(t, s, d)
	s.admitted(100)
	s.bindAll(10, models)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p := s.b.pools[0]
	e, g := p.executors[1], p.gpus[1]
	send := func(m *wire.Load) { _ = s.control().Send(m.Append(nil)) }
	id, batch, gen, losses := wire.LoadID(0), wire.BatchID(0), wire.Generation(0), 0
	order := func() (load wire.LoadID) {
		held := e.Held()
		switch model := wire.ModelID(10 + r.IntN(models)); {
		case r.IntN(2) == 0:
			gen++
			id++
			send(loadOf(100, id, 1, model, gen))
			return id
		case len(held) > 0 && r.IntN(2) == 0:
			id++
			w := held[r.IntN(len(held))]
			send(unloadOf(100, id, 1, wire.ModelID(10+w.Slot), w.Generation))
			return id
		case len(held) > 0:
			w := held[r.IntN(len(held))]
			batch++
			s.runWith(100, batch, 1, wire.ModelID(10+w.Slot), w.Generation, 32)
		}
		return 0
	}
	loaded := 0
	for turn := range 20 {
		var asked []wire.LoadID
		for range 1 + r.IntN(6) {
			if load := order(); load != 0 {
				asked = append(asked, load)
			}
		}
		if turn%5 == 4 { // it takes a second to come back
			losses++
			g.device.Fail(cuda.ErrLost)
			s.wait("the GPU is back", func() bool { n, works := s.services(); return n == 2*losses && works })
			asked = nil // void
		}
		for _, load := range asked {
			if l := s.loaded(load); l.Op == wire.OpLoad && l.Reason == wire.ReasonNone {
				loaded++
			}
		}
		s.wait("rest", func() bool {
			free, all := e.Pages()
			held, sum := e.Held(), int64(0)
			for _, w := range held {
				sum += g.device.Held(w.Slot)
			}
			return all-free == each*len(held) && g.device.Stats().Memory.Load() == sum && d.Counts().Programs == len(held) && (len(held) == 0 || sum > 0)
		})
	}
	if loaded < 5 {
		t.Errorf("only %d loads: this test shows nothing", loaded)
	}
	for range 6 {
		order()
	}
}
