package residency

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pinned adds a model that is to stay.
func (s *story) pinned(id wire.ModelID, pages int) *story {
	s.r.AddModel(id, Model{Pages: pages, LoadTime: 8 * ms, Pinned: true})
	return s
}

// A pinned model is loaded onto every GPU before anybody asks for it, one that comes later too, and before those that are asked for.
func TestPinnedModelsComeFirst(t *testing.T) {
	s := tell(t, Config{Outstanding: 1}, 5).pinned(1, 5).gpu(0, 10).gpu(1, 10)
	s.arrive(0, 1, 97*ms).step("load m1 g0 #2 0ms-8ms", "load m1 g1 #2 0ms-8ms", "place m1 g0 #2 from 8ms", "place m1 g1 #2 from 8ms")
	s.at(8*ms).loaded("m1 g0", 0, true).told("place m1 g0 #2 from 8ms").step("load m0 g0 #3 8ms-16ms", "place m0 g0 #3 from 16ms")
	s.gpu(2, 10).step("load m1 g2 #2 8ms-16ms", "place m1 g2 #2 from 16ms")
}

// It is not unloaded, however long ago it was used and whoever wants its pages.
func TestPinnedModelsStay(t *testing.T) {
	s := tell(t, Config{}, 5, 5).pinned(2, 5).gpu(0, 10, 2, 0).told("place m2 g0 #1 from 0ms", "place m0 g0 #1 from 0ms")
	s.used(0, 2, 0).arrive(1, 9, 97*ms).step("displace m0 g0 #1", "unload m0 g0 #1", "load m1 g0 #2 1ms-9ms", "place m1 g0 #2 from 9ms")
	if m, _ := s.r.Memory(0); m.Oldest < 1<<62 {
		t.Errorf("the next to go was used at %v, want none: one stays and the other is loading", m.Oldest)
	}
}

// Of what a GPU holds when it comes, and has no room for, it stays, also where it is told last.
func TestPinnedModelsAreAdoptedFirst(t *testing.T) {
	s := tell(t, Config{}, 5, 5).pinned(2, 5).gpu(0, 10, 0, 1, 2)
	s.step("unload m1 g0 #1", "place m2 g0 #1 from 0ms", "place m0 g0 #1 from 0ms").due(mono.Never)
}

// Others make room for it, also those with requests; what is in use does not, and it is looked at again.
func TestRoomForPinnedModels(t *testing.T) {
	s := tell(t, Config{}, 5, 5).gpu(0, 10, 0, 1).told("place m0 g0 #1 from 0ms", "place m1 g0 #1 from 0ms")
	gen := s.r.Began(s.now, 0, 0, 0)
	s.arrive(1, 3, 97*ms).pinned(2, 10).step().at(10 * ms).dueNow().step()
	s.r.Ended(s.now, 0, 0, gen)
	s.at(20*ms).dueNow().step("displace m0 g0 #1", "displace m1 g0 #1", "unload m0 g0 #1", "unload m1 g0 #1", "load m2 g0 #2 20ms-28ms", "place m2 g0 #2 from 28ms")
}

// A load that fails is tried again when it has healed, not at the speed of the link; a removed model is nobody's.
func TestPinnedModelThatFails(t *testing.T) {
	s := tell(t, Config{}).pinned(0, 5).gpu(0, 10).step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(8*ms).loaded("m0 g0", 0, false).told("displace m0 g0 #2").step()
	s.at(500*ms).step().at(1008*ms).dueNow().step("load m0 g0 #3 1008ms-1016ms", "place m0 g0 #3 from 1016ms")
	s.at(1016*ms).loaded("m0 g0", 1008*ms, true).told("place m0 g0 #3 from 1016ms")
	s.r.RemoveModel(s.now, 0, &s.out)
	s.step("displace m0 g0 #3", "unload m0 g0 #3").at(2000 * ms).step()
}

// Who uses the pages all the time leaves them for an instant between two batches: the pinned model takes them then, and is due for it.
func TestPinnedModelTakesWhatIsUsedAllTheTime(t *testing.T) {
	s := tell(t, Config{}, 10).gpu(0, 10, 0).told("place m0 g0 #1 from 0ms")
	gen := s.r.Borrow(s.now, 0, 0)
	s.pinned(1, 10).step().at(ms).due(mono.Time(pinAgain))
	s.r.Return(s.now, 0, 0, gen)
	s.dueNow().step("displace m0 g0 #1", "unload m0 g0 #1", "load m1 g0 #2 1ms-9ms", "place m1 g0 #2 from 9ms")
}

// Pages that a GPU was said to miss are believed in again for it, also where nobody waits for any load.
func TestPinnedModelOnPagesThatWereMissing(t *testing.T) {
	s := tell(t, Config{}, 5, 5).gpu(0, 10)
	s.arrive(0, 1, 97*ms).step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.r.Doomed(s.now, 0, 1)
	s.at(8*ms).fails("m0 g0", wire.ReasonMemory, 2).told("displace m0 g0 #2", "unload m4294967295 g0 #0")
	s.pinned(2, 10).step()
	s.at(healing+20*ms).dueNow().step("load m2 g0 #3 1020ms-1028ms", "place m2 g0 #3 from 1028ms")
}

// Where all pinned models are wherever they have room a report of a load has a look at each of them, and at no GPU: with 40 of them on 64
// GPUs that took 215 us, for thousands of reports a second. GPUs that are too small for some are no reason to look, whenever they come.
func TestPinnedModelsThatAreThereCostNothing(t *testing.T) {
	const gpus, pinned = 64, 40
	r, out, held := New(Config{}), &Out{}, []wire.ModelID(nil)
	for id := range wire.ModelID(pinned) {
		if id == pinned/2 {
			r.AddGPU(0, gpus+1, 1, nil, out)
		}
		r.AddModel(id, Model{Pages: 2, LoadTime: 8 * ms, Pinned: true})
		held = append(held, id)
	}
	for id := range wire.GPUID(gpus) {
		r.AddGPU(0, id, 2*pinned, held, out)
	}
	r.AddGPU(0, gpus, 1, nil, out)
	r.AddGPU(0, gpus+2, 2*pinned, held, out)
	r.RemoveGPU(0, gpus+2, out)
	for now := range mono.Time(100) {
		r.lookAtPins()
		r.Step(now, out)
	}
	if n := r.Counts().Walked; len(out.Loads) > 0 || n > 0 {
		t.Errorf("looks passed %d times a GPU, and ordered %d loads", n, len(out.Loads))
	}
	r.AddGPU(100, gpus+2, 2*pinned, held[1:], out)
	if r.Step(100, out); len(out.Loads) != 1 || out.Loads[0].Model != 0 || r.Counts().Walked != gpus+3 {
		t.Errorf("a look for one that is missing passed %d GPUs, and ordered %+v", r.Counts().Walked, out.Loads)
	}
}
