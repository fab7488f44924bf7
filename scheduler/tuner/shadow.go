package tuner

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// arrival is a request as a shadow needs it.
type arrival struct {
	at     mono.Time // in shadow time
	budget mono.Dur  // until its deadline
	model  wire.ModelID
}

// shadow is the cluster as it would be with one setting: these same cores, and
// GPUs on which a batch takes what its profile says. Batches are planned within
// their deadlines and end as planned, so what is bad is what was dropped.
type shadow struct {
	setting batching.Setting
	sched   *deferred.Scheduler
	out     policy.Out
	now     mono.Time
	ends    pq.Sorted // key: a running batch's end, value: its place in running
	running []wire.BatchID
	free    []uint32 // places in running
	tally   tally
	lately  modelTally // since the mirror has settled, older ones counting for less
	peak    float64    // the largest share lost in a pass lately
	debt    float64    // what its setting costs more than this shadow says: see mirror.go
	rest    rest
	stands  mono.Time // the scheduler stands still until then: pause.go

	since mono.Time // the last look at how many GPUs it uses
	busy  mono.Dur  // GPU time of the batches since then
	used  float64   // mean GPUs at a time, of those that are kept; older ones count for less
}

// look updates used.
func (s *shadow) look() {
	span := s.now.Sub(s.since)
	kept := s.sched.Kept()
	if span <= 0 {
		return
	}
	if kept > 0 {
		share := min(1, float64(span)/float64(usedMemory))
		s.used += float64(share * (max(0, float64(s.busy)/float64(span)-usedBeyond)/float64(kept) - s.used))
	}
	s.since, s.busy = s.now, 0
}

const (
	usedMemory = mono.Second
	// usedBeyond is how many GPUs more than those that are kept do not count: kept is rounded
	// up, and whole batches are.
	usedBeyond = 1
)

// arrive hands in a request, after all that is due before it.
func (s *shadow) arrive(at mono.Time, budget mono.Dur, id wire.ModelID) {
	if at != s.stands { // what came in a pause is heard of before anything that is due
		s.advance(at)
	}
	s.now = max(s.now, at)
	r := batching.Request{Arrival: s.now, Deadline: s.now.Add(budget)}
	r.Input.Length = uint32(id) // no input here: it tells the model of a drop
	s.sched.Submit(s.now, id, r, &s.out)
	s.apply()
}

// advance does what is due up to an instant. What is due in a pause is done when that ends.
func (s *shadow) advance(to mono.Time) {
	if s.stands > s.now {
		if to < s.stands {
			return
		}
		s.now = s.stands
	}
	for {
		next := s.sched.NextWake()
		if s.ends.Len() > 0 {
			next = min(next, mono.Time(s.ends.At(0).Key))
		}
		if next > to {
			return
		}
		s.now = max(s.now, next)
		for s.ends.Len() > 0 && s.ends.At(0).Key <= int64(s.now) {
			e := s.ends.Pop()
			s.sched.Done(s.now, s.running[e.Value], mono.Time(e.Key), &s.out)
			s.free = append(s.free, e.Value)
		}
		s.sched.Step(s.now, &s.out)
		s.apply()
	}
}

// apply takes what the cores decided.
func (s *shadow) apply() {
	for i := range s.out.Drops {
		if r := s.out.Drops[i].Reason; r == wire.ReasonUnknownModel || r == wire.ReasonFull {
			continue // its model was removed, or a shadow holds less than the real scheduler
		}
		s.tally.drop(wire.ModelID(s.out.Drops[i].Request.Input.Length))
	}
	for i := range s.out.Dispatches {
		d := &s.out.Dispatches[i]
		if len(s.free) == 0 {
			s.free = append(s.free, uint32(len(s.running)))
			s.running = append(s.running, 0)
		}
		place := s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
		s.running[place] = d.Batch
		s.ends.Insert(pq.Entry{Key: int64(d.Until), Value: place})
		s.busy += d.Until.Sub(d.Exec)
		for k := range d.Requests {
			s.tally.serve(&d.Requests[k], d.Exec)
		}
	}
	s.out.Reset()
}
