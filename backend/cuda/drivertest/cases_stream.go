package drivertest

import (
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

func testRoundTrip(t *testing.T, f Fixture) {
	r := open(t, f)
	s := r.stream()
	const most = 8<<20 + 7
	in, out, dev := r.pinned(most), r.pinned(most), r.alloc(most+64)
	for i, n := range []int{0, 1, 3, 255, 4096, 1<<20 + 1, most} {
		clear(out)
		must(t, s.CopyIn(dev+cuda.Ptr(i), pattern(in[:n], n)))
		must(t, s.CopyOut(out[:n], dev+cuda.Ptr(i)))
		must(t, s.Synchronize())
		same(t, "round trip", out[:n], in[:n])
	}
}

// testOrder: what was queued later sees what was queued before, and not what comes after.
func testOrder(t *testing.T, f Fixture) {
	const n, size = 64, 64 << 10
	r := open(t, f)
	s, in, out, dev := r.stream(), r.pinned(n*size), r.pinned(n*size), r.alloc(size)
	pattern(in, 2)
	for i := range n {
		must(t, s.CopyIn(dev, in[i*size:][:size]))
		must(t, s.CopyOut(out[i*size:][:size], dev))
	}
	must(t, s.Synchronize())
	same(t, "in order", out, in)
}

// testWaits: data goes through three streams and back, each waiting for the one before, as
// inputs, execution and outputs do; the events are used again and again.
func testWaits(t *testing.T, f Fixture) {
	const rounds, size = 200, 128 << 10
	r := open(t, f)
	a, b, c := r.stream(), r.stream(), r.stream()
	in, out, between := r.pinned(size), r.pinned(size), r.pinned(size)
	dev, dev2 := r.alloc(size), r.alloc(size)
	e := r.events(3)
	for i := range rounds {
		pattern(in, i)
		must(t, a.CopyIn(dev, in))
		must(t, a.Record(e[0]))
		must(t, b.Wait(e[0]))
		must(t, b.CopyOut(between, dev))
		must(t, b.CopyIn(dev2, between))
		must(t, b.Record(e[1]))
		must(t, c.Wait(e[1]))
		must(t, c.CopyOut(out, dev2))
		must(t, c.Record(e[2]))
		must(t, e[2].Synchronize())
		same(t, "through three streams", out, in)
	}
}

func testWaitForNothing(t *testing.T, f Fixture) {
	r := open(t, f)
	s, e := r.stream(), r.event()
	must(t, s.Wait(e)) // never recorded: nothing to wait for
	must(t, s.Record(e))
	must(t, s.Wait(e)) // a mark of the stream itself
	must(t, s.Synchronize())
}

func testMarks(t *testing.T, f Fixture) {
	r := open(t, f)
	s, e, dev, in := r.stream(), r.event(), r.alloc(16<<20), r.pinned(16<<20)
	done := func(when string) {
		t.Helper()
		if ok, err := e.Done(); err != nil || !ok {
			t.Fatalf("%s: %v, %v", when, ok, err)
		}
	}
	done("never recorded")
	must(t, e.Synchronize())
	for range 3 {
		must(t, s.CopyIn(dev, in))
		must(t, s.Record(e))
		must(t, e.Synchronize())
		done("after its Synchronize")
	}
	must(t, s.Record(e))
	must(t, s.Synchronize())
	done("after the stream's Synchronize")
}

// testTimes: marks of a stream rise, copies take time, and spans add up.
func testTimes(t *testing.T, f Fixture) {
	const n, size = 16, 4 << 20
	r := open(t, f)
	s, dev, in, e := r.stream(), r.alloc(size), r.pinned(size), r.events(n+1)
	must(t, s.Record(e[0]))
	for i := range n {
		must(t, s.CopyIn(dev, in))
		must(t, s.Record(e[i+1]))
	}
	must(t, s.Synchronize())
	sum, err := e[0].Since(e[0])
	if sum != 0 || err != nil {
		t.Fatalf("since itself: %v, %v", sum, err)
	}
	for i := range n {
		d, err := e[i+1].Since(e[i])
		must(t, err)
		if d < 0 {
			t.Errorf("mark %d is %v before the one before", i+1, -d)
		}
		sum += d
	}
	whole, err := e[n].Since(e[0])
	must(t, err)
	if off := max(sum-whole, whole-sum); off > 2000*(n+1) || whole < 0 { // ns; each is good to about 1 us
		t.Errorf("%d spans are %v together, the whole is %v", n, sum, whole)
	}
}

// testThreads: one thread queues, another waits, as a device's two threads do.
func testThreads(t *testing.T, f Fixture) {
	const rounds, size = 100, 64 << 10
	r := open(t, f)
	s, dev, in, out := r.stream(), r.alloc(size), r.pinned(size), r.pinned(size)
	e := r.event()
	recorded, reached := make(chan bool), make(chan error)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		err := cuda.On(r.c, func() error {
			for range recorded {
				reached <- e.Synchronize()
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	for i := range rounds {
		must(t, s.CopyIn(dev, pattern(in, i)))
		must(t, s.CopyOut(out, dev))
		must(t, s.Record(e))
		recorded <- true
		if err := <-reached; err != nil {
			t.Error(err)
		}
		same(t, "seen by who waits elsewhere", out, in)
	}
	close(recorded)
	waiting.Wait()
}

// testTwoThreads: threads with streams of their own do not disturb each other.
func testTwoThreads(t *testing.T, f Fixture) {
	const threads, rounds, size = 4, 50, 256 << 10
	r := open(t, f)
	dev, in, out := r.alloc(threads*size), r.pinned(threads*size), r.pinned(threads*size)
	var all sync.WaitGroup
	for i := range threads {
		mine := in[i*size:][:size]
		all.Go(func() {
			err := cuda.On(r.c, func() error {
				s, err := r.c.NewStream(i%2 == 0)
				for k := 0; k < rounds && err == nil; k++ {
					if err = s.CopyIn(dev+cuda.Ptr(i*size), pattern(mine, i*rounds+k)); err == nil {
						if err = s.CopyOut(out[i*size:][:size], dev+cuda.Ptr(i*size)); err == nil {
							err = s.Synchronize()
						}
					}
				}
				if s != nil {
					err = first(err, s.Close())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	same(t, "after all threads", out, in)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// testOverlap: copies in and out and execution, each on its stream, take less than one
// after the other.
func testOverlap(t *testing.T, f Fixture) {
	const size, tries = 32 << 20, 5
	r := open(t, f)
	in, out := r.pinned(size), r.pinned(size)
	devIn, devOut := r.alloc(size), r.alloc(size)
	streams := []cuda.Stream{r.stream(), r.stream(), r.stream()}
	do := []func() error{
		func() error { return streams[0].CopyIn(devIn, in) },
		func() error { return streams[1].CopyOut(out, devOut) },
	}
	if f.Execute != nil {
		do = append(do, f.Execute(t, r.c, streams[2]))
	}
	e := r.events(2)
	// span is the device's time from before all of what until after all of it.
	span := func(what ...int) (ns int64) {
		must(t, streams[what[0]].Record(e[0]))
		for _, i := range what {
			must(t, streams[i].Wait(e[0]))
			must(t, do[i]())
		}
		ends := r.events(len(what))
		for k, i := range what {
			must(t, streams[i].Record(ends[k]))
			must(t, streams[0].Wait(ends[k]))
		}
		must(t, streams[0].Record(e[1]))
		must(t, e[1].Synchronize())
		d, err := e[1].Since(e[0])
		must(t, err)
		return int64(d)
	}
	best, sum := 2.0, int64(0)
	for range tries {
		sum = 0
		all := []int{}
		for i := range do {
			sum += span(i)
			all = append(all, i)
		}
		best = min(best, float64(span(all...))/float64(sum))
	}
	t.Logf("%d things at once take %.0f %% of one after the other (%.1f ms)", len(do), 100*best, float64(sum)/1e6)
	if sum == 0 {
		return // nothing takes time on this device
	}
	if best > 0.95 {
		t.Errorf("nothing overlaps: at once, all takes %.0f %% of one after the other", 100*best)
	}
}
