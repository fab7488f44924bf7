package engine

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/wire"
)

// While somebody watches, each load, its report and each eviction is told as it was ordered; a look has what the GPUs hold. Who
// does not look costs nothing: there is no ring, and no look.
func TestPagedIsTold(t *testing.T) {
	const models = 20
	d := newPagers(t, 7, 0)
	e := startPaged(t, Config{}, d, models, 3)
	defer e.Stop()
	if e.rank.paging.tap.Load() != nil || e.PagesSeen() != nil {
		t.Error("there is a ring, or a look, before anybody watches")
	}
	e.Watch(1 << 22)
	offer(e, models, 800, 800*time.Millisecond)
	d.quiet(t)
	var told watch.Told
	e.Watched(3, 1<<20, &told)
	type order struct {
		kind  watch.Kind
		model wire.ModelID
		gpu   wire.GPUID
		id    wire.BatchID
	}
	got, reports, rooms := map[order]int{}, 0, 0
	for ev := range told.All {
		switch ev.Kind {
		case watch.Load:
			got[order{ev.Kind, ev.Model, ev.GPU, ev.Batch}]++
			if ev.Why != watch.Cold && ev.Why != watch.Copy || ev.Size < 1 || ev.Until <= ev.Exec || ev.Pool != 3 {
				t.Fatalf("a load is told as %+v", ev)
			}
		case watch.Evict:
			got[order{ev.Kind, ev.Model, ev.GPU, 0}]++
			if ev.Why == watch.Room {
				rooms++
			}
		case watch.Loaded:
			reports++
			if ev.Why != watch.Arrived || ev.Until < ev.Exec {
				t.Fatalf("a report is told as %+v", ev)
			}
		case watch.Missed:
			t.Fatalf("%d events were missed", ev.Size)
		}
	}
	d.mu.Lock()
	loads := 0
	for _, o := range d.orders {
		k := order{watch.Evict, o.Model, o.GPU, 0}
		if o.ID != 0 {
			k = order{watch.Load, o.Model, o.GPU, wire.BatchID(o.ID)}
			loads++
		}
		if got[k]--; got[k] == 0 {
			delete(got, k)
		}
	}
	d.mu.Unlock()
	if len(got) > 0 || loads < 20 || rooms == 0 || reports != loads {
		t.Errorf("%d loads, %d reports, %d made room; told and not ordered, or the other way round: %v", loads, reports, rooms, got)
	}
	checkLook(t, e, models)
	e.Watch(0)
	if e.ForgetPages(); e.rank.paging.tap.Load() != nil || e.PagesSeen() != nil {
		t.Error("there is a ring, or a look, after nobody watches any more")
	}
}

// A look that is under way when all are forgotten is none for whoever looks next, and keeps no memory; one that begins later is.
func TestLookThatWasForgotten(t *testing.T) {
	e, err := New(Config{GPUsMax: 1, RequestsMax: 1, Paged: &paged.Config{}}, newPagers(t, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	p := e.rank.paging
	look := p.takeLoop(1)
	e.ForgetPages()
	p.seen.Store(look)
	if e.PagesSeen() != nil {
		t.Error("it is seen as soon as it is stored")
	}
	if p.showLoop(look); p.seen.Load() != nil {
		t.Error("it is kept")
	}
	if p.lookLoop(2); e.PagesSeen() == nil || e.PagesSeen().At != 2 {
		t.Errorf("the next look is %+v", e.PagesSeen())
	}
}

// Weights of a model without an id, as of another engine, are evicted without a word: who reads knows ids below a bound.
func TestStrangersWeightsAreNotTold(t *testing.T) {
	ring := newTap(1 << 10)
	ring.evict(1, &residency.Unload{Model: 1 << 31})
	ring.evict(2, &residency.Unload{Model: 7, GPU: 1, Why: residency.Removed})
	ring.head.Store(ring.at)
	var told watch.Told
	ring.tell(0, &told)
	if all := eventsOf(&told); len(all) != 1 || all[0].Model != 7 || all[0].Why != watch.Removed {
		t.Errorf("told %+v", all)
	}
}

// checkLook has a look of three GPUs' memories add up.
func checkLook(t *testing.T, e *Engine, models int) {
	t.Helper()
	e.LookAtPages()
	for begin := time.Now(); e.PagesSeen() == nil && time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
	}
	look, sum, held := e.PagesSeen(), uint64(0), 0
	if look == nil || len(look.GPUs) != 3 || len(look.Models) != models {
		t.Fatalf("the look is %+v", look)
	}
	for _, m := range look.Models {
		sum += m.Loads
		held += m.Held
	}
	for _, g := range look.GPUs {
		if held -= g.Held; g.Pages == 0 || g.Cold+g.Copies == 0 || g.Busy == 0 {
			t.Errorf("a GPU is seen as %+v", g)
		}
		sum -= g.Cold + g.Copies
	}
	if sum != 0 || held != 0 {
		t.Errorf("models were loaded %d times more than GPUs loaded, and are on %d GPUs more than hold them", int64(sum), held)
	}
	if stats := e.Stats().Paging; stats.Copied == 0 || stats.Evicted[1]+stats.Evicted[0]+stats.Evicted[2] != stats.Unloads {
		t.Errorf("%+v", stats)
	}
}
