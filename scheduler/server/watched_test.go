package server

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// watcher gathers what a server tells.
type watcher struct {
	server *Server
	state  watch.State
	kinds  map[watch.Kind]int
	lost   map[wire.RequestID]wire.Reason
}

func (w *watcher) look() {
	var told watch.Told
	w.server.Watched(&told)
	for e := range told.All {
		w.state.Apply(e)
		w.kinds[e.Kind]++
		if e.Kind == watch.Drop {
			w.lost[e.Request.Key.ID] = e.Reason
		}
	}
}

func newWatcher(s *Server) *watcher {
	return &watcher{server: s, kinds: map[watch.Kind]int{}, lost: map[wire.RequestID]wire.Reason{}}
}

// Who watches is told of pools, GPUs, models, links and counts once, of batches and reports as they come, of what
// is dropped and why, and of what goes; who does not is told nothing.
func TestWatched(t *testing.T) {
	s, n := newServer(t, nil)
	b := backendPeer(t, n, "b", 2, "m", "n")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready && f.entry("n").Ready })
	w := newWatcher(s)
	if w.look(); len(w.kinds) != 0 {
		t.Fatalf("%v is told before anybody watches", w.kinds)
	}
	if h := s.WatchHead(); h.Version != watch.Version || h.Began == 0 || h.Source != "live" {
		t.Errorf("head %+v", h)
	}
	s.Watching(true)
	w.look()
	w.look()
	if p := w.state.Pool(0); p == nil || p.Name != "emulated" || p.GPUs != 2 || len(p.Rows) != 2 || !p.Rows[1].Present || p.Rows[1].Name == "" {
		t.Fatalf("the pool is %+v", p)
	}
	if m := w.state.Model(0); m == nil || m.Profile == nil || m.SLO == 0 || w.kinds[watch.Model] != 2 || w.kinds[watch.GPU] != 2 || len(w.state.Links) != 2 {
		t.Fatalf("model %+v, told %v, links %v", m.Info, w.kinds, w.state.Links)
	}
	f.submit(2, 0, 1) // nobody could
	id := wire.RequestID(2)
	f.wait("a batch, its report, and the drop", func() bool {
		id++
		f.submit(id, 0, 200*mono.Millisecond) // on a busy machine not each of them is in time
		w.look()
		return w.kinds[watch.Batch] > 0 && w.kinds[watch.Done] > 0 && w.lost[2] == wire.ReasonDeadline
	})
	f.wait("counts", func() bool {
		w.look()
		return w.kinds[watch.Counts] >= 1
	})
	story := watch.NewHistory(mono.Second, 1<<20)
	if _, err := watch.Tell(story, &w.state, watch.Key{ID: 2}); !errors.Is(err, watch.ErrNotKnown) {
		t.Errorf("an empty history tells a story: %v", err)
	}
	b.link.Close(nil)
	f.wait("its GPUs are gone", func() bool {
		w.look()
		p := w.state.Pool(0)
		return p == nil || !p.Rows[0].Present && !p.Rows[1].Present
	})
	f.wait("its link is gone", func() bool {
		w.look()
		return len(w.state.Links) == 1
	})
	s.Watching(false)
	before := len(w.kinds)
	if w.kinds = map[watch.Kind]int{}; before == 0 {
		t.Error("nothing was told")
	}
	if w.look(); len(w.kinds) != 0 {
		t.Errorf("%v is told after watching ended", w.kinds)
	}
}

// Reasons are counted each, and add up to what the control plane is told.
func TestDropsAreCountedByReason(t *testing.T) {
	var c modelCount
	c.came.Add(7)
	c.dropped[wire.ReasonShed].Add(2)
	c.dropped[wire.ReasonFull].Add(3)
	n := c.look()
	if n.dropped != 5 || n.waiting() != 2 {
		t.Errorf("%+v, %d waiting, want 5 dropped and 2 waiting", n, n.waiting())
	}
	told := toldModel{}
	look := func() watch.Info {
		n := c.look()
		told.info = c.watched(n, &told)
		told.counted, told.count = n, &c
		return *told.info
	}
	first := look()
	if first.Came != 7 || first.Dropped["shed"] != 2 || first.Dropped["full"] != 3 || len(first.Dropped) != 2 {
		t.Errorf("told is %+v", first)
	}
	c.came.Add(1)
	if i := look(); i.Came != 8 || len(i.Dropped) != 2 {
		t.Errorf("told is %+v", i)
	}
	c.dropped[wire.ReasonFull].Add(1)
	if i := look(); i.Dropped["full"] != 4 || first.Dropped["full"] != 3 {
		t.Errorf("told is %+v, and what was told before has become %v", i, first.Dropped)
	}
	c = modelCount{} // the model is served anew, and has as many drops as before, of another kind
	c.dropped[wire.ReasonShed].Add(6)
	told.count = nil
	if i := look(); i.Dropped["shed"] != 6 || len(i.Dropped) != 1 {
		t.Errorf("told is %+v", i)
	}
}

// Who watches can reckon each model's delay bound: what a MiB takes is told of the pool, again when it changes, and an item's
// bytes of the model.
func TestWatchedDelay(t *testing.T) {
	s, n := newServer(t, nil)
	b := dial(t, n, wire.RoleBackend, "b")
	pictures := spec("pictures")
	pictures.Inputs = []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{3, 224, 224}}}
	b.introduce(catalog.BackendInfo{Name: "b", Instance: 1, Configured: 1}, "emulated", 1, []catalog.ModelSpec{pictures})
	b.wait("admission", func() bool { return b.admitted != nil })
	w := newWatcher(s)
	s.Watching(true)
	b.wait("the model is told of", func() bool {
		w.look()
		return w.state.Model(0) != nil
	})
	if m := w.state.Model(0); m.Bytes != 3*224*224*4 {
		t.Errorf("an item has %d bytes, want those of a picture", m.Bytes)
	}
	s.watching.mu.Lock()
	defer s.watching.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.watching.now[0]
	p.delay.MiB = 3 * mono.Millisecond // as measureDelay has it
	events := s.watching.lookPools(mono.Now(), false, nil)
	if len(events) == 0 || events[0].Kind != watch.Pool || events[0].Info.MiB != p.delay.MiB || events[0].Info.Ctrl != p.delay.Ctrl {
		t.Errorf("%+v is told, want that a MiB takes %v", events, p.delay.MiB)
	}
}
