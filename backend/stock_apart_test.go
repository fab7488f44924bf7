package backend

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What a device shall have is looked at apart from the link: batches that come after it do not wait.
func TestKeepIsNotInTheWay(t *testing.T) {
	s := newStocking(t)
	defer s.end()
	s.admitted(1)
	s.keep(catalog.Keep{Load: []catalog.Source{source(t, "m", "1", "")}})
	s.until("m/1", catalog.StateReady, 0)
	s.bindTo(map[string]wire.ModelID{"m/1": 0})
	s.orderOn(0, 1, 6, 0) // the id is known
	stock := s.b.pools[0].stock
	stock.mu.Lock() // others are at it for long
	s.keep(catalog.Keep{Unload: []string{"x/1"}})
	s.keep(catalog.Keep{Unload: []string{"y/1"}})
	if d := s.orderOn(0, 1, 7, 0); d.Ran != 1 {
		t.Errorf("%+v", d)
	}
	stock.mu.Unlock()
	s.until("y/1", catalog.StateGone)
	s.until("x/1", catalog.StateGone)
}

// A large order is carried out in parts: first what goes, then what comes, then what is measured,
// each in its order.
func TestKeepInParts(t *testing.T) {
	k := catalog.Keep{Pool: 1, Device: 2, In: "east", Told: &catalog.Told{SubCluster: "east"}}
	var loads []string
	for i := range 3*partModels + 1 {
		k.Unload = append(k.Unload, fmt.Sprint("u", i))
		k.Load = append(k.Load, catalog.Source{Name: fmt.Sprint("l", i), Version: "1"})
		loads = append(loads, k.Load[i].Key())
	}
	k.Measure = []string{"x", "y"}
	var went, came, measured []string
	n := 0
	for p := range partsOf(k) {
		if p.Pool != 1 || p.Device != 2 || p.In != "east" || (p.Told != nil) != (n == 0) || len(p.Unload)+len(p.Load)+len(p.Measure) > partModels {
			t.Errorf("part %d: %+v", n, p)
		}
		if len(p.Unload) > 0 && len(came) > 0 || len(p.Load) > 0 && len(measured) > 0 {
			t.Errorf("part %d is out of order: %+v", n, p)
		}
		went, measured = append(went, p.Unload...), append(measured, p.Measure...)
		for i := range p.Load {
			came = append(came, p.Load[i].Key())
		}
		n++
	}
	if !slices.Equal(went, k.Unload) || !slices.Equal(came, loads) || !slices.Equal(measured, k.Measure) {
		t.Errorf("%v, %v, %v", went, came, measured)
	}
	n = 0
	for p := range partsOf(catalog.Keep{In: "west"}) {
		if n++; p.In != "west" {
			t.Errorf("%+v", p)
		}
	}
	if n != 1 {
		t.Errorf("%d parts of an order without models", n)
	}
}

// Of many who have something done, one does it: each piece once, never two at a time, at most some
// at once.
func TestLine(t *testing.T) {
	var l line[int]
	var busy atomic.Int32
	done := make([]int, 1000) // Owned by whoever does.
	var all sync.WaitGroup
	for i := range done {
		all.Go(func() {
			l.add(i, func(some []int) {
				if busy.Add(1) != 1 || len(some) == 0 || len(some) > lineSome {
					t.Errorf("%d pieces at once, or two at a time", len(some))
				}
				for _, k := range some {
					done[k]++
				}
				busy.Add(-1)
			})
		})
	}
	all.Wait()
	if slices.ContainsFunc(done, func(n int) bool { return n != 1 }) {
		t.Errorf("done %v", done)
	}
}
