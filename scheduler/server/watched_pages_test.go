package server

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Who watches a paged pool is told of its page, of what each GPU holds, of loads and evictions, and of each model's hits; of a
// pool whose models are on all GPUs nothing of that.
func TestPagedIsWatched(t *testing.T) {
	s, n := newServer(t, nil)
	v := newVault(t, n, 2, 3)
	v.join(t, "b", nil, models(12)...)
	f := frontendPeer(t, n)
	f.wait("the models", func() bool { return len(f.doc.Entries) == 12 && f.doc.Entries[0].Ready })
	w := newWatcher(s)
	s.Watching(true)
	w.look()
	for i := range 60 {
		f.mu.Lock()
		e := f.doc.Entries[i%8]
		f.mu.Unlock()
		f.submit(wire.RequestID(i+1), e.ID, 80*mono.Millisecond)
		time.Sleep(3 * time.Millisecond)
	}
	whole := func() bool {
		p := w.state.Pool(0)
		if p == nil || !p.Paged() {
			return false
		}
		sum, _, gpus := p.Memory(w.state.Now)
		loads, hits := uint64(0), 0
		for _, m := range w.state.Models {
			loads += m.Counted().Loads
			if _, ok := m.Hits(); ok {
				hits++
			}
		}
		return gpus == 2 && sum.Pages == 6 && sum.Held > 0 && sum.Cold+sum.Copies == loads && loads >= 8 && sum.Room > 0 && sum.Busy > 0 && hits == 8
	}
	for begin := time.Now(); !whole(); time.Sleep(50 * time.Millisecond) {
		if w.look(); time.Since(begin) > 20*time.Second {
			sum, _, gpus := w.state.Pool(0).Memory(w.state.Now)
			t.Fatalf("told %v; %d GPUs hold %+v", w.kinds, gpus, sum)
		}
	}
	if w.kinds[watch.Load] < 8 || w.kinds[watch.Loaded] < 8 || w.kinds[watch.Evict] == 0 {
		t.Errorf("told %v", w.kinds)
	}
	if p := w.state.Pool(0); p.Spent != 0 {
		t.Errorf("deferral %v is told of a pool whose batches start as soon as they can", p.Spent)
	}
	s.Watching(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools[0].engine.PagesSeen() != nil {
		t.Error("a look is kept while nobody watches")
	}
}
