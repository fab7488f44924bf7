package drivertest

import (
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// testHeap: what is called for a batch allocates nothing.
func testHeap(t *testing.T, f Fixture) {
	if race {
		t.Skip("the race detector allocates")
	}
	const size = 64 << 10
	r := open(t, f)
	a, b := r.stream(), r.stream()
	dev, in, out := r.alloc(size), r.pinned(size), r.pinned(size)
	e := r.events(3)
	batch := func() {
		must(t, a.Record(e[0]))
		must(t, a.CopyIn(dev, in))
		must(t, a.Record(e[1]))
		must(t, b.Wait(e[1]))
		must(t, b.CopyOut(out, dev))
		must(t, b.Record(e[2]))
		must(t, e[2].Synchronize())
		_, err := e[2].Done()
		must(t, err)
		_, err = e[2].Since(e[0])
		must(t, err)
	}
	if n := testing.AllocsPerRun(200, batch); n != 0 {
		t.Errorf("%v allocations a batch, want 0", n)
	}
}

// testRounds: a thousand times all is made, used and closed, and nothing has grown.
func testRounds(t *testing.T, f Fixture) {
	r := open(t, f)
	round(t, f, r.c, 0) // what is made once and kept is there now
	before, _, err := r.c.Memory()
	must(t, err)
	for i := range 1000 {
		round(t, f, r.c, i)
	}
	after, _, err := r.c.Memory()
	must(t, err)
	if after < before-slack {
		t.Errorf("%d bytes of device memory free before, %d after", before, after)
	}
}

// round makes all that can be made, uses and closes it, every tenth time from a context
// of its own.
func round(t *testing.T, f Fixture, c cuda.Context, i int) {
	const size = 16 << 10
	if i%10 == 9 {
		own, err := f.Driver.Open(f.Device)
		must(t, err)
		must(t, own.Enter())
		defer func(c cuda.Context) {
			must(t, own.Close())
			must(t, c.Enter())
		}(c)
		c = own
	}
	a, err := c.NewStream(i%2 == 0)
	must(t, err)
	b, err := c.NewStream(false)
	must(t, err)
	e, err := c.NewEvent()
	must(t, err)
	dev, err := c.Alloc(size)
	must(t, err)
	out, err := c.HostAlloc(size)
	must(t, err)
	in, free := outside(t, size)
	defer free()
	must(t, c.HostRegister(in))

	must(t, a.CopyIn(dev, pattern(in, i)))
	must(t, a.Record(e))
	must(t, b.Wait(e))
	must(t, b.CopyOut(out, dev))
	must(t, b.Synchronize())
	same(t, "in a round", out, in)

	must(t, c.HostUnregister(in))
	must(t, c.HostFree(out))
	must(t, c.Free(dev))
	must(t, e.Close())
	must(t, b.Close())
	must(t, a.Close())
}
