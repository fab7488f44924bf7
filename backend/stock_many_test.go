package backend

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A thousand models come, get a second version each, and go; nothing of them is left: no
// goroutine, slot, id, counter, and no more memory than a little. Each step may take minutes: files are fetched and loaded by threads of
// the lowest priority, which stand still on a busy machine.
func TestThousandModels(t *testing.T) {
	defer goleak.VerifyNone(t)
	const n = 1000
	s := newStocking(t)
	defer s.end()
	s.admitted(100)
	stays := source(t, "stays", "1", "")
	s.keep(catalog.Keep{Load: []catalog.Source{stays}})
	s.until("stays/1", catalog.StateReady, 0)
	s.bindTo(map[string]wire.ModelID{"stays/1": 1})
	st := s.b.pools[0].stock
	id := wire.BatchID(1)
	step := func(k catalog.Keep, has int) {
		t.Helper()
		for d := range 2 {
			k.Device = d
			s.keep(k)
		}
		s.waitFor(2*time.Minute, fmt.Sprintf("%d models", has), func() bool {
			if st.states()[catalog.StateReady] != has {
				return false
			}
			st.mu.Lock()
			defer st.mu.Unlock()
			return len(st.entries) == has && len(st.ledgers[0].dirty) == 0
		})
		id++
		if d := s.orderOn(0, 100, id, 1); d.Reason != wire.ReasonNone {
			t.Errorf("the one that stays: %+v", d)
		}
	}
	round := func() {
		var first, second []catalog.Source
		var old, gone []string
		for i := range n {
			m := stays
			m.Name = fmt.Sprintf("m%d", i)
			first, old = append(first, m), append(old, m.Key())
			m.Version = "2"
			second, gone = append(second, m), append(gone, m.Key())
		}
		step(catalog.Keep{Load: first}, n+1)
		step(catalog.Keep{Load: second}, 2*n+1)
		step(catalog.Keep{Unload: old}, n+1)
		step(catalog.Keep{Unload: gone}, 1)
		s.mu.Lock()
		s.docs = nil
		s.mu.Unlock()
	}
	round() // what tables and pools have from now on
	goroutines, heap := runtime.NumGoroutine(), heapBytes()
	for range 3 {
		round()
	}
	s.wait("goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	if grown := heapBytes() - heap; grown > 6<<20 { // it is some MiB more or less at any time: what leaks shows as a KiB of each
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	for _, e := range st.slots[1:] {
		if e != nil {
			t.Fatal("a slot is taken by", e.key)
		}
	}
	families, _ := s.registry.Gather()
	for _, f := range families {
		if len(f.GetMetric()) > 20 {
			t.Errorf("%s has %d series", f.GetName(), len(f.GetMetric()))
		}
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
