package residency

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// yields is a model that gives way.
type yields wire.ModelID

func (y yields) Yields(id wire.ModelID) bool { return id == wire.ModelID(y) }

const nobody = yields(999)

// spare orders a load for best effort, and wants such a seat.
func (s *story) spare(id wire.ModelID, on wire.GPUID, peers Peers, want Seat, effects ...string) *story {
	s.t.Helper()
	if seat := s.r.Spare(s.now, id, on, peers); seat != want {
		s.t.Errorf("at %v: seat %d for model %d on GPU %d, want %d", s.now, seat, id, on, want)
	}
	if ok := s.r.LoadSpare(s.now, id, on, peers, &s.out); ok != (want != NoSeat) {
		s.t.Errorf("at %v: model %d is ordered: %v", s.now, id, ok)
	}
	return s.told(effects...)
}

// Best effort takes free pages, then those that nobody has used for a minute; and only of a loader that has nothing to do.
func TestSpareLoadTakesWhatNobodyCountsOn(t *testing.T) {
	s := tell(t, Config{}, 7, 7, 7, 7).gpu(0, 21, 0).told("place m0 g0 #1 from 0ms")
	s.spare(1, 0, nobody, SeatFree, "load m1 g0 #2 0ms-8ms", "place m1 g0 #2 from 8ms")
	s.spare(2, 0, nobody, NoSeat) // the loader is busy
	s.at(8*ms).loaded("m1 g0", 0, true).told("place m1 g0 #2 from 8ms")
	s.spare(2, 0, nobody, SeatFree, "load m2 g0 #3 8ms-16ms", "place m2 g0 #3 from 16ms")
	s.at(16*ms).loaded("m2 g0", 8*ms, true).told("place m2 g0 #3 from 16ms")
	s.spare(3, 0, nobody, NoSeat) // model 0 was there at the beginning, and 1 and 2 have just come
	s.spare(3, 0, yields(2), SeatTaken, "displace m2 g0 #3", "unload m2 g0 #3", "load m3 g0 #4 16ms-24ms", "place m3 g0 #4 from 24ms")
	s.at(24*ms).loaded("m3 g0", 16*ms, true).told("place m3 g0 #4 from 24ms")
	s.at(24*ms+spareRest).spare(2, 0, nobody, SeatIdle, "displace m1 g0 #2", "unload m1 g0 #2", "load m2 g0 #5 1024ms-1032ms", "place m2 g0 #5 from 1032ms")
}

// What a GPU is said to hold when it comes counts for some seconds, until somebody asks for it.
func TestSpareLoadTakesWhatWasAdopted(t *testing.T) {
	s := tell(t, Config{}, 7, 7, 7).at(ms).gpu(0, 14, 0, 1).told("place m0 g0 #1 from 1ms", "place m1 g0 #1 from 1ms")
	s.at(2*ms).began(0, 0, 0, 1)
	s.r.Ended(s.now, 0, 0, 1)
	s.at(adoptedKeep).spare(2, 0, nobody, NoSeat)
	s.at(adoptedKeep+ms).spare(2, 0, nobody, SeatIdle, "displace m1 g0 #1", "unload m1 g0 #1", "load m2 g0 #2 5001ms-5009ms", "place m2 g0 #2 from 5009ms")
}

// A load for a deadline takes the pages of best effort first, however lately that ran; what runs stays.
func TestDeadlinesTakeSparePagesFirst(t *testing.T) {
	s := tell(t, Config{}, 7, 7, 7, 7).gpu(0, 28, 0).told("place m0 g0 #1 from 0ms")
	s.spare(1, 0, nobody, SeatFree, "load m1 g0 #2 0ms-8ms", "place m1 g0 #2 from 8ms")
	s.at(8*ms).loaded("m1 g0", 0, true).told("place m1 g0 #2 from 8ms")
	s.spare(2, 0, nobody, SeatFree, "load m2 g0 #3 8ms-16ms", "place m2 g0 #3 from 16ms")
	s.at(16*ms).loaded("m2 g0", 8*ms, true).told("place m2 g0 #3 from 16ms")
	s.r.AddModel(4, Model{Pages: 14, LoadTime: 8 * ms})
	s.at(20 * ms)
	if gen := s.r.Borrow(s.now, 1, 0); gen != 2 {
		t.Errorf("generation %d", gen)
	}
	s.at(30*ms).arrive(4, 1, 127*ms).step("displace m2 g0 #3", "unload m2 g0 #3", "load m4 g0 #4 30ms-38ms", "place m4 g0 #4 from 38ms")
	s.r.Return(s.now, 1, 0, 2)
	s.at(38*ms).loaded("m4 g0", 30*ms, true).told("place m4 g0 #4 from 38ms")
	s.arrive(3, 1, 135*ms).step("displace m1 g0 #2", "unload m1 g0 #2", "load m3 g0 #5 38ms-46ms", "place m3 g0 #5 from 46ms")
	if _, ok := s.r.Held(0, 0); !ok {
		t.Error("the model that was used with deadlines made room")
	}
}

// While requests with deadlines want a load, whether it can be had or not, nothing is loaded for best effort. Nor where the last
// loads of the model failed, until they are forgotten.
func TestSpareLoadWaits(t *testing.T) {
	s := tell(t, Config{}, 7, 7).gpu(0, 14)
	s.arrive(0, 1, 97*ms).spare(1, 0, nobody, NoSeat)
	s.step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(8*ms).loaded("m0 g0", 0, true).told("place m0 g0 #2 from 8ms")
	s.spare(1, 0, nobody, SeatFree, "load m1 g0 #3 8ms-16ms", "place m1 g0 #3 from 16ms")
	s.at(16*ms).loaded("m1 g0", 8*ms, false).told("displace m1 g0 #3")
	s.spare(1, 0, nobody, NoSeat)
	if at := s.r.Healed(1); at != s.now.Add(healing) {
		t.Errorf("it may be tried at %v", at)
	}
	s.at(16*ms+healing).spare(1, 0, nobody, SeatFree, "load m1 g0 #4 1016ms-1024ms", "place m1 g0 #4 from 1024ms")
	if s.r.Openings().Beside(0) {
		t.Error("there is another GPU")
	}
}

// Where loads for deadlines evict weights of an age, best effort may take those that are as old, soon after: they are the next to go.
func TestSpareLoadAmongChurn(t *testing.T) {
	s := tell(t, Config{}, 7, 7, 7, 7).gpu(0, 14, 0, 1).told("place m0 g0 #1 from 0ms", "place m1 g0 #1 from 0ms")
	s.at(100*ms).arrive(2, 1, 197*ms).step("displace m0 g0 #1", "unload m0 g0 #1", "load m2 g0 #2 100ms-108ms", "place m2 g0 #2 from 108ms")
	s.at(108*ms).loaded("m2 g0", 100*ms, true).told("place m2 g0 #2 from 108ms")
	s.began(2, 0, 1, 2)
	s.r.Ended(s.now, 2, 0, 2)
	if seat := s.r.Spare(s.at(126*ms).now, 3, 0, nobody); seat != NoSeat {
		t.Error("what was evicted 26 ms ago at an age of 100 ms counts")
	}
	s.at(120*ms).spare(3, 0, nobody, SeatIdle, "displace m1 g0 #1", "unload m1 g0 #1", "load m3 g0 #3 120ms-128ms", "place m3 g0 #3 from 128ms")
	s.at(128*ms).loaded("m3 g0", 120*ms, true).told("place m3 g0 #3 from 128ms")
	s.arrive(1, 1, 225*ms).step("displace m3 g0 #3", "unload m3 g0 #3", "load m1 g0 #4 128ms-136ms", "place m1 g0 #4 from 136ms")
	if c := s.r.gpus[0]; c.evictedAge != mono.Dur(100*ms) {
		t.Errorf("weights of best effort count as evicted at an age of %v", c.evictedAge)
	}
}

// When a batch of best effort has ended, whoever waits for its pages is looked at in that Step, however lately there were none: in the
// next one they may be in use again.
func TestDeadlinesTakePagesWhenBestEffortReturnsThem(t *testing.T) {
	s := tell(t, Config{Rest: 5 * ms}, 7, 7).gpu(0, 7)
	s.spare(0, 0, nobody, SeatFree, "load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(8*ms).loaded("m0 g0", 0, true).told("place m0 g0 #2 from 8ms")
	gen := s.r.Borrow(s.now, 0, 0)
	s.at(20*ms).arrive(1, 1, 97*ms).step() // and the next choice is to rest
	s.at(21 * ms)
	s.r.Return(s.now, 0, 0, gen)
	s.dueNow().step("displace m0 g0 #2", "unload m0 g0 #2", "load m1 g0 #3 21ms-29ms", "place m1 g0 #3 from 29ms")
}

// A load says how many GPUs have the model with it, also where one Step orders several.
func TestLoadsCountCopies(t *testing.T) {
	s := tell(t, Config{}).pinned(0, 5).gpu(0, 10).gpu(1, 10)
	s.r.Step(s.now, &s.out)
	if l := s.out.Loads; len(l) != 2 || l[0].Copies != 1 || l[1].Copies != 2 {
		t.Errorf("%+v", l)
	}
}
