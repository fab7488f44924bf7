package batching

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// entry is a request as Push has it.
type entry struct {
	slot     uint32
	deadline mono.Time
	priority wire.Priority
}

// sorted is in which order they go: by deadline, then by priority, then as they came.
func sorted(all []entry) []uint32 {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.priority.Order(), b.priority.Order()))
	})
	slots := make([]uint32, len(all))
	for i := range all {
		slots[i] = all[i].slot
	}
	return slots
}

// Earlier deadline first, then priority: 1, ..., 127, none and 128, ..., 255.
func TestPriorityOrder(t *testing.T) {
	m := example(t, nil)
	for slot, e := range []entry{{0, sec(20), 255}, {1, sec(20), 0}, {2, sec(20), 128}, {3, sec(20), 1}, {4, sec(20), 127}, {5, sec(20), 129}, {6, sec(19), 255}, {7, sec(21), 1}} {
		m.Push(0, e.deadline, e.priority, uint32(slot))
	}
	for _, want := range []uint32{6, 3, 4, 1, 2, 5, 0, 7} {
		if got, ok := m.PopAny(); !ok || got != want {
			t.Errorf("slot %d goes, want %d", got, want)
		}
	}
}

// At random, with few deadlines: what goes, by whichever way, goes in that order; and but for who it is,
// priorities change nothing: candidates, drops and starts are those of the same requests without.
func TestPrioritiesAtRandom(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		p, err := profile.Linear(1+mono.Dur(r.Int64N(9)), mono.Dur(r.Int64N(40)), 8)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Profile: p, SLO: 200, QueueMax: 64, Share: OneGPU}
		with, without := NewModel(cfg), NewModel(cfg)
		var waiting []entry
		for step := range 2000 {
			now := mono.Time(step * 5)
			if r.IntN(3) > 0 {
				e := entry{uint32(step), now.Add(60+mono.Dur(r.Int64N(140))) / 40 * 40, wire.Priority(r.IntN(6) * 51)}
				pushed := with.Push(now, e.deadline, e.priority, e.slot)
				if without.Push(now, e.deadline, 0, e.slot) != pushed {
					t.Fatalf("seed %d step %d: one queue is full, the other is not", seed, step)
				}
				if pushed {
					waiting = append(waiting, e)
				}
			}
			var gone []uint32
			if r.IntN(6) == 0 {
				free := now.Add(mono.Dur(r.Int64N(30)))
				batch, drops, start := with.Take(now, Offer{FreeAt: free, GPUs: 1}, nil, nil)
				other, others, begin := without.Take(now, Offer{FreeAt: free, GPUs: 1}, nil, nil)
				if len(batch) != len(other) || len(drops) != len(others) || start != begin {
					t.Fatalf("seed %d step %d: %d taken, %d dropped, start %v; without priorities %d, %d, %v",
						seed, step, len(batch), len(drops), start, len(other), len(others), begin)
				}
				for _, d := range drops {
					gone = append(gone, d.Slot)
				}
				gone = append(gone, batch...)
			}
			drops := with.Update(now, nil)
			if others := without.Update(now, nil); len(drops) != len(others) {
				t.Fatalf("seed %d step %d: %d dropped, without priorities %d", seed, step, len(drops), len(others))
			}
			for _, d := range drops {
				gone = append(gone, d.Slot)
			}
			if with.Candidate() != without.Candidate() || with.NextWake() != without.NextWake() {
				t.Fatalf("seed %d step %d: %+v until %v, without priorities %+v until %v", seed, step, with.Candidate(), with.NextWake(), without.Candidate(), without.NextWake())
			}
			if want := sorted(waiting); !slices.Equal(gone, want[:len(gone)]) {
				t.Fatalf("seed %d step %d: %v leave, want the first of %v", seed, step, gone, want)
			}
			waiting = slices.DeleteFunc(waiting, func(e entry) bool { return slices.Contains(gone, e.slot) })
		}
	}
}
